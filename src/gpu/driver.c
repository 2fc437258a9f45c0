/* Everything of the driver that both vendors share. */
#include "driver_int.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define NON_BLOCKING 1u  /* streams: not ordered with the default stream */
#define PORTABLE 1u      /* pinned memory: for all contexts */
#define CAPTURE_THREAD 1 /* capture: only this thread's calls are checked */

const char *const gpu_vendor_names[GPU_VENDORS] = {[GPU_HIP] = "hip", [GPU_CUDA] = "cuda"};
static const gpu_vendor_ops *const vendors[GPU_VENDORS] = {[GPU_HIP] = &gpu_hip_ops, [GPU_CUDA] = &gpu_cuda_ops};

#define NAMES(field, args, hip, cuda) {hip, cuda},
static const char *const entry_names[GPU_ENTRY_COUNT][GPU_VENDORS] = {GPU_ENTRIES(NAMES)};
#undef NAMES

#define PLACE(field, args, hip, cuda) offsetof(gpu_entries, field),
static const size_t entry_places[GPU_ENTRY_COUNT] = {GPU_ENTRIES(PLACE)};
#undef PLACE

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

enum { OUT_OF_MEMORY = 2 }; /* the same numbers in both interfaces */

/* After these the process can do nothing more with the device. */
static bool is_fatal(int code) {
    static const int fatal[] = {46, 214, 220, 700, 702, 709, 714, 715, 716, 717, 718, 719, 721};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (fatal[i] == code) return true;
    return false;
}

ie_status gpu_check(gpu_driver *d, int code, gpu_entry_id op, ie_error *err) {
    if (code == 0) return IE_OK;
    const char *name = NULL, *text = NULL;
    if (d->call.error_name) d->call.error_name(code, &name);
    if (d->call.error_text) d->call.error_text(code, &text);
    return ie_fail(err, code == OUT_OF_MEMORY ? IE_E_NOMEM : IE_E_DEVICE, "%s: %s failed: %s (%d, %s)%s", gpu_vendor_names[d->vendor],
                   entry_names[op][d->vendor], text ? text : "unknown error", code, name ? name : "?",
                   is_fatal(code) ? "; the device is lost to this process" : "");
}

#define CALL(field, ...) gpu_check(d, d->call.field(__VA_ARGS__), GPU_DO_##field, err)

/* ---- opening --------------------------------------------------------------------------------------------------------- */

static ie_status open_library(gpu_driver *d, ie_error *err) {
    for (const char *const *name = d->ops->libraries; *name && !d->lib; name++) d->lib = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (!d->lib) return ie_fail(err, IE_E_DEVICE, "%s: %s", gpu_vendor_names[d->vendor], d->ops->missing);
    for (int i = 0; i < GPU_ENTRY_COUNT; i++) {
        const char *name = entry_names[i][d->vendor];
        if (!*name) continue;
        void *at = dlsym(d->lib, name);
        if (!at)
            return ie_fail(err, IE_E_DEVICE, "%s: the library %s has no %s: the driver is too old; %s or later is needed", gpu_vendor_names[d->vendor],
                           d->ops->libraries[0], name, d->ops->oldest);
        memcpy((char *)&d->call + entry_places[i], &at, sizeof at);
    }
    return IE_OK;
}

/* The library, initialised; the number of devices. */
static ie_status start(gpu_driver *d, gpu_vendor v, int *n, ie_error *err) {
    *d = (gpu_driver){.vendor = v, .ops = vendors[v], .device = -1};
    *n = 0;
    ie_status st = open_library(d, err);
    if (st) return st;
    int code = d->call.init(0);
    if (!code) code = d->call.device_count(n);
    if (code || *n < 1) return d->ops->no_device(d, code, err);
    return CALL(driver_version, &d->version);
}

/* The library stays mapped: its threads and exit handlers may outlive what we do with it. */
static void stop(gpu_driver *d) {
    if (d->device >= 0) d->ops->leave(d);
    free(d);
}

static ie_status choose(gpu_driver *d, int n, int32_t want, ie_error *err) {
    if (want >= n)
        return ie_fail(err, IE_E_ARG, "device %d: must be 0..%d (%s)", want, n - 1, gpu_vendor_names[d->vendor]);
    ie_status st = IE_OK;
    for (int32_t i = want < 0 ? 0 : want; i < n; i++) {
        st = d->ops->card(d, i, &d->card, err);
        if (!st) st = d->ops->usable(d, i, &d->card, err);
        if (!st) {
            st = d->ops->use(d, i, err);
            if (!st) d->device = i;
            return st;
        }
        if (want >= 0) return st;
    }
    return st;
}

gpu_driver *gpu_driver_open(gpu_vendor v, int32_t device, ie_error *err) {
    gpu_driver *d = ie_calloc(1, sizeof *d, "driver", err);
    if (!d) return NULL;
    int n;
    ie_status st = start(d, v, &n, err);
    if (!st) st = choose(d, n, device, err);
    if (!st) return d;
    stop(d);
    return NULL;
}

void gpu_driver_close(gpu_driver *d) {
    if (d) stop(d);
}

ie_status gpu_driver_list(gpu_vendor v, ie_buf *out, ie_error *err) {
    gpu_driver *d = ie_calloc(1, sizeof *d, "driver", err);
    if (!d) return IE_E_NOMEM;
    ie_error why;
    int n;
    bool ok = true;
    if (start(d, v, &n, &why)) ok = ie_buf_printf(out, err, "%s\n", why.msg), n = 0;
    for (int32_t i = 0; i < n && ok; i++) {
        gpu_card c;
        ie_status bad = d->ops->card(d, i, &c, &why);
        if (bad) {
            ok = ie_buf_printf(out, err, "%s %d  %s\n", gpu_vendor_names[v], i, why.msg);
            continue;
        }
        bad = d->ops->usable(d, i, &c, &why);
        ok = ie_buf_printf(out, err, "%s %d  %s, %s, %.1f GB, %u units%s%s\n", gpu_vendor_names[v], i, c.name, c.arch,
                           (double)c.memory_bytes / 1e9, c.units, bad ? "; not usable: " : "", bad ? why.msg : "");
    }
    stop(d);
    return ok ? IE_OK : IE_E_NOMEM;
}

gpu_vendor gpu_driver_vendor(const gpu_driver *d) { return d->vendor; }
const gpu_card *gpu_driver_card(const gpu_driver *d) { return &d->card; }

ie_status gpu_bind(gpu_driver *d, ie_error *err) {
    return gpu_check(d, d->ops->bind(d), d->vendor == GPU_HIP ? GPU_DO_set_device : GPU_DO_context_set, err);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

ie_status gpu_mem_info(gpu_driver *d, uint64_t *free_bytes, uint64_t *total, ie_error *err) {
    size_t f = 0, t = 0;
    ie_status st = CALL(mem_info, &f, &t);
    *free_bytes = f;
    *total = t;
    return st;
}

ie_status gpu_alloc(gpu_driver *d, uint64_t bytes, const char *what, gpu_ptr *out, ie_error *err) {
    *out = 0;
    if (!bytes) return IE_OK;
    int code = d->call.alloc(out, (size_t)bytes);
    return code == OUT_OF_MEMORY ? gpu_no_room(d, bytes, what, err) : gpu_check(d, code, GPU_DO_alloc, err);
}

ie_status gpu_no_room(gpu_driver *d, uint64_t bytes, const char *what, ie_error *err) {
    uint64_t have = 0, total = 0;
    gpu_mem_info(d, &have, &total, err);
    return ie_fail(err, IE_E_NOMEM, "%s: %s need %.2f GB of device memory, %.2f of %.2f GB are free", gpu_vendor_names[d->vendor], what,
                   (double)bytes / 1e9, (double)have / 1e9, (double)total / 1e9);
}

void gpu_free(gpu_driver *d, gpu_ptr p) {
    if (p) d->call.free(p);
}

ie_status gpu_host_alloc(gpu_driver *d, uint64_t bytes, void **out, ie_error *err) {
    *out = NULL;
    return bytes ? CALL(host_alloc, out, (size_t)bytes, PORTABLE) : IE_OK;
}

void gpu_host_free(gpu_driver *d, void *p) {
    if (p) d->call.host_free(p);
}

ie_status gpu_upload(gpu_driver *d, gpu_ptr dst, const void *src, uint64_t bytes, gpu_stream s, ie_error *err) {
    return bytes ? CALL(upload, dst, src, (size_t)bytes, s) : IE_OK;
}

ie_status gpu_download(gpu_driver *d, void *dst, gpu_ptr src, uint64_t bytes, gpu_stream s, ie_error *err) {
    return bytes ? CALL(download, dst, src, (size_t)bytes, s) : IE_OK;
}

ie_status gpu_copy(gpu_driver *d, gpu_ptr dst, gpu_ptr src, uint64_t bytes, gpu_stream s, ie_error *err) {
    return bytes && dst != src ? CALL(copy, dst, src, (size_t)bytes, s) : IE_OK;
}

ie_status gpu_fill(gpu_driver *d, gpu_ptr dst, uint8_t value, uint64_t bytes, gpu_stream s, ie_error *err) {
    return bytes ? CALL(fill, dst, value, (size_t)bytes, s) : IE_OK;
}

/* ---- code ------------------------------------------------------------------------------------------------------------ */

bool gpu_in_parts(const gpu_driver *d, const void *image) { return d->ops->in_parts && d->ops->in_parts(image); }

ie_status gpu_module_load(gpu_driver *d, const void *image, uint32_t part, const char *name, gpu_module *out, ie_error *err) {
    *out = NULL;
    return d->ops->module_load(d, image, part, name, out, err);
}

void gpu_module_unload(gpu_driver *d, gpu_module m) {
    if (m) d->call.module_unload(m);
}

ie_status gpu_function_get(gpu_driver *d, gpu_module m, const char *name, gpu_function *out, ie_error *err) {
    if (d->call.function(out, m, name) == 0) return d->ops->function_ready ? d->ops->function_ready(d, *out, err) : IE_OK;
    return ie_fail(err, IE_E_DEVICE, "%s: the kernels have no function '%s'", gpu_vendor_names[d->vendor], name);
}

ie_status gpu_launch_run(gpu_driver *d, gpu_function f, const gpu_launch *l, gpu_launch_mode mode, gpu_stream s, ie_error *err) {
    void *args[] = {(void *)(uintptr_t)l->args}; /* only read */
    gpu_entry_id op = mode == GPU_COOPERATIVE ? GPU_DO_launch_cooperative : GPU_DO_launch;
    int code;
    if (mode == GPU_COOPERATIVE) code = d->call.launch_cooperative(f, l->grid[0], l->grid[1], l->grid[2], l->block, 1, 1, 0, s, args);
    else if (mode == GPU_OVERLAP && d->card.overlap) op = GPU_DO_launch_config, code = d->ops->launch_overlap(d, f, l, s, args);
    else code = d->call.launch(f, l->grid[0], l->grid[1], l->grid[2], l->block, 1, 1, l->lds, s, args, NULL);
    if (code == 0) return IE_OK;
    ie_error why = {.code = IE_E_DEVICE};
    gpu_check(d, code, op, &why);
    return ie_fail(err, why.code, "%s; kernel %s, %u x %u x %u workgroups of %u", why.msg, l->kernel, l->grid[0], l->grid[1], l->grid[2],
                   l->block);
}

/* ---- order and time ---------------------------------------------------------------------------------------------------- */

ie_status gpu_stream_new(gpu_driver *d, gpu_stream *out, ie_error *err) {
    *out = NULL;
    return CALL(stream_new, out, NON_BLOCKING);
}
void gpu_stream_free(gpu_driver *d, gpu_stream s) {
    if (s) d->call.stream_free(s);
}
ie_status gpu_stream_sync(gpu_driver *d, gpu_stream s, ie_error *err) { return CALL(stream_sync, s); }
ie_status gpu_stream_wait(gpu_driver *d, gpu_stream s, gpu_event e, ie_error *err) { return CALL(stream_wait, s, e, 0); }

ie_status gpu_event_new(gpu_driver *d, gpu_event *out, ie_error *err) {
    *out = NULL;
    return CALL(event_new, out, 0);
}
void gpu_event_free(gpu_driver *d, gpu_event e) {
    if (e) d->call.event_free(e);
}
ie_status gpu_event_record(gpu_driver *d, gpu_event e, gpu_stream s, ie_error *err) { return CALL(event_record, e, s); }
ie_status gpu_event_sync(gpu_driver *d, gpu_event e, ie_error *err) { return CALL(event_sync, e); }
ie_status gpu_event_ms(gpu_driver *d, gpu_event from, gpu_event to, float *ms, ie_error *err) { return CALL(event_ms, ms, from, to); }

ie_status gpu_capture_begin(gpu_driver *d, gpu_stream s, ie_error *err) { return CALL(capture_begin, s, CAPTURE_THREAD); }

ie_status gpu_capture_end(gpu_driver *d, gpu_stream s, gpu_graph *out, ie_error *err) {
    void *graph = NULL;
    *out = NULL;
    ie_status st = CALL(capture_end, s, &graph);
    if (st) return st;
    st = CALL(graph_build, out, graph, 0);
    d->call.graph_drop(graph);
    return st;
}
ie_status gpu_graph_launch(gpu_driver *d, gpu_graph g, gpu_stream s, ie_error *err) { return CALL(graph_launch, g, s); }
void gpu_graph_free(gpu_driver *d, gpu_graph g) {
    if (g) d->call.graph_free(g);
}
