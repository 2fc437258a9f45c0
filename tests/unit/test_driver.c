/* The GPU drivers: CUDA's on a stand-in (tests/mock/libcuda.c), HIP's on the simulator of gfx1201. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend.h"
#include "gpu/modules.h"
#include "gpu/range.h"

static void (*mock_set)(const char *what, int v);
static int (*mock_held)(void);

/* Libraries that lie beside the tests: loaded before the drivers look for their names. */
static void *open_beside(const char *name) {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = 0;
    strcpy(strrchr(path, '/') + 1, name);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) fail_msg("%s", dlerror());
    return lib;
}

#define OK(call) do { if (call) fail_msg("%s", err.msg); } while (0)

/* Memory, streams, events, graphs: the same on both. */
static void exercise(gpu_driver *d) {
    ie_error err;
    gpu_ptr a, b;
    gpu_stream s;
    gpu_event e[2];
    gpu_graph graph;
    void *pin;
    uint64_t have, total, after;
    float ms;
    char text[64] = "one", back[64] = "";
    OK(gpu_bind(d, &err));
    OK(gpu_mem_info(d, &have, &total, &err));
    assert_true(have <= total && total == gpu_driver_card(d)->memory_bytes);
    OK(gpu_alloc(d, 64, "a", &a, &err));
    OK(gpu_alloc(d, 64, "b", &b, &err));
    assert_int_equal(a % 256, 0);
    OK(gpu_host_alloc(d, 64, &pin, &err));
    OK(gpu_stream_new(d, &s, &err));
    OK(gpu_event_new(d, &e[0], &err));
    OK(gpu_event_new(d, &e[1], &err));
    OK(gpu_fill(d, a, 0, 64, s, &err));
    memcpy(pin, text, 64);
    OK(gpu_capture_begin(d, s, &err));
    OK(gpu_upload(d, a, pin, 64, s, &err));
    OK(gpu_copy(d, b, a, 64, s, &err));
    OK(gpu_capture_end(d, s, &graph, &err));
    OK(gpu_download(d, back, a, 64, s, &err));
    OK(gpu_stream_sync(d, s, &err));
    assert_string_equal(back, ""); /* recorded, not run */
    strcpy(pin, "two");
    OK(gpu_event_record(d, e[0], s, &err));
    OK(gpu_graph_launch(d, graph, s, &err));
    OK(gpu_event_record(d, e[1], s, &err));
    OK(gpu_stream_wait(d, s, e[1], &err));
    OK(gpu_event_sync(d, e[1], &err));
    OK(gpu_event_ms(d, e[0], e[1], &ms, &err));
    assert_true(ms >= 0);
    OK(gpu_download(d, back, b, 64, s, &err));
    OK(gpu_stream_sync(d, s, &err));
    assert_string_equal(back, "two"); /* what was in memory when it ran */
    assert_int_equal(gpu_alloc(d, total + 1, "the weights", &(gpu_ptr){0}, &err), IE_E_NOMEM);
    assert_non_null(strstr(err.msg, "the weights need"));
    OK(gpu_alloc(d, 0, "nothing", &(gpu_ptr){0}, &err));
    gpu_graph_free(d, graph);
    gpu_event_free(d, e[0]);
    gpu_event_free(d, e[1]);
    gpu_stream_free(d, s);
    gpu_host_free(d, pin);
    gpu_free(d, a);
    gpu_free(d, b);
    OK(gpu_mem_info(d, &after, &total, &err));
    assert_true(after == have);
}

/* Addresses that get memory bit by bit; flat: a card that cannot. */
static void ranges(gpu_driver *d, bool flat) {
    ie_error err;
    gpu_range r;
    gpu_stream s;
    uint64_t before, have, total;
    uint32_t words[2] = {0};
    OK(gpu_mem_info(d, &before, &total, &err));
    OK(gpu_stream_new(d, &s, &err));
    OK(gpu_range_new(d, 0, "nothing", &r, &err));
    gpu_range_free(d, &r);
    OK(gpu_range_new(d, 100u << 20, "the pages", &r, &err));
    assert_true(r.base % 256 == 0 && r.bytes >= 100u << 20 && (r.step == 0) == flat);
    OK(gpu_range_grow(d, &r, 0, &err));
    assert_int_equal(r.mapped, flat ? r.bytes : 0);
    gpu_ptr base = r.base;
    for (uint64_t n = 1; n <= 100u << 20; n += 33u << 20) {
        OK(gpu_range_grow(d, &r, n, &err));
        assert_true(r.mapped >= n && r.mapped <= r.bytes && (flat || r.mapped < n + (32u << 20)));
        uint32_t w[2] = {(uint32_t)n, 7};
        OK(gpu_upload(d, base + (n - 1u), w, 8, s, &err)); /* over the end of a piece, later */
    }
    OK(gpu_range_grow(d, &r, 100u << 20, &err));
    OK(gpu_upload(d, base + (32u << 20) - 4u, "pieces!", 8, s, &err)); /* no piece ends for who reads */
    OK(gpu_download(d, words, base, 8, s, &err));
    OK(gpu_stream_sync(d, s, &err));
    assert_true(words[0] == 1 && words[1] == 7 && r.base == base);
    OK(gpu_mem_info(d, &have, &total, &err));
    assert_true(before - have >= 100u << 20 && before - have <= 102u << 20);
    assert_int_equal(gpu_range_grow(d, &r, r.bytes + 1u, &err), IE_E_ARG);
    gpu_range_free(d, &r);
    gpu_range_free(d, &r);
    if (!flat) { /* more addresses than memory: it says so when the memory is asked for, and what it had stays */
        OK(gpu_range_new(d, before + (64u << 20), "the pages", &r, &err));
        OK(gpu_range_grow(d, &r, 40u << 20, &err));
        assert_int_equal(gpu_range_grow(d, &r, before + 1u, &err), IE_E_NOMEM);
        assert_non_null(strstr(err.msg, "the pages need 0.03 GB of device memory"));
        assert_true(r.mapped == 64u << 20);
        gpu_range_free(d, &r);
    }
    OK(gpu_mem_info(d, &have, &total, &err));
    assert_true(have == before);
    gpu_stream_free(d, s);
}

static void test_hip(void **state) {
    (void)state;
    ie_error err = {0};
    open_beside("../sim/libamdhip64.so");
    gpu_driver *d = gpu_driver_open(GPU_HIP, -1, &err);
    if (!d) fail_msg("%s", err.msg);
    assert_string_equal(gpu_driver_card(d)->arch, "gfx1201");
    assert_int_equal(gpu_driver_card(d)->units, 64);
    assert_int_equal(gpu_driver_card(d)->waves_per_unit, 32);
    assert_int_equal(gpu_driver_card(d)->lds_per_unit, 65536);
    exercise(d);
    ranges(d, false);
    gpu_module m;
    static const char none[4096] = "no code object";
    assert_int_equal(gpu_module_load(d, none, GPU_PART_ALL, "file.hsaco", &m, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "file.hsaco is no code object for gfx1201"));
    gpu_driver_close(d);
    assert_null(gpu_driver_open(GPU_HIP, 7, &err));
    assert_non_null(strstr(err.msg, "device 7: must be 0..0"));
}

/* The backend's pages: the first has memory from the begin on, others when they are used; what memory is short for is said. */
static void test_pages(void **state) {
    (void)state;
    ie_error err = {0};
    ie_backend *be = ie_backend_open("hip", NULL, &err);
    if (!be && strstr(err.msg, "holds no kernels")) {
        print_message("skip: %s\n", err.msg);
        skip();
    }
    if (!be) fail_msg("%s", err.msg);
    ie_state_desc d = {.arena_bytes = 4096, .kv = {.n_layer = 16, .n_kv = 8, .hd = 128}, .n_pages = 40, .n_seq = 1, .max_t = 1, .pages_per_seq = 40};
    const size_t bytes = (size_t)ie_kv_page_bytes(&d.kv);
    ie_state *st = NULL;
    OK(be->api->state_new(be, &d, &st, &err));
    uint8_t *a = malloc(bytes), *b = malloc(bytes);
    const uint32_t pages[] = {0, 15, 16, 39, 20}; /* 2 MB each; 32 MB are 16 pages: the last of a piece, the first of the next, the last of all */
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        memset(b, 1, bytes);
        OK(be->api->page_save(be, st, pages[i], b, &err));
        for (size_t k = 0; k < bytes; k += 4096) assert_int_equal(b[k], 0);
        memset(a, 2 + (int)i, bytes);
        OK(be->api->page_load(be, st, pages[i], a, &err));
    }
    OK(be->api->page_copy(be, st, 38, 16, &err));
    OK(be->api->page_save(be, st, 38, b, &err));
    memset(a, 4, bytes);
    assert_memory_equal(a, b, bytes);
    OK(be->api->page_save(be, st, 15, b, &err));
    memset(a, 3, bytes);
    assert_memory_equal(a, b, bytes);
    assert_int_equal(be->api->page_save(be, st, 40, b, &err), IE_E_ARG);
    be->api->state_free(be, st);
    d.n_pages = 20000, d.pages_per_seq = 20000; /* 42 GB of a card with 34 */
    uint64_t need = 0, have = 0;
    be->api->state_room(be, &d, &need, &have);
    assert_true(need > have && have > 0);
    OK(be->api->state_new(be, &d, &st, &err));
    assert_int_equal(be->api->page_load(be, st, 19999, a, &err), IE_E_NOMEM);
    assert_non_null(strstr(err.msg, "the context's KV pages need"));
    OK(be->api->page_load(be, st, 100, a, &err));
    be->api->state_free(be, st);
    be->api->destroy(be);
    free(a);
    free(b);
}

static void cuda_refused(int32_t device, const char *why) {
    ie_error err = {0};
    assert_null(gpu_driver_open(GPU_CUDA, device, &err));
    if (!strstr(err.msg, why)) fail_msg("'%s' is not in '%s'", why, err.msg);
    assert_int_equal(mock_held(), 0);
}

static void test_cuda_refusals(void **state) {
    (void)state;
    mock_set("count", 0), cuda_refused(-1, "no NVIDIA GPU");
    mock_set("count", 2), cuda_refused(2, "device 2: must be 0..1");
    mock_set("major", 7), cuda_refused(0, "is sm_70; this engine's kernels need sm_80");
    mock_set("major", 9), mock_set("init", 803), cuda_refused(-1, "different versions");
    mock_set("init", 0), mock_set("memory", 0), cuda_refused(0, "device 0 (Mock GPU 0) has no memory left for another program; nvidia-smi lists those");
    mock_set("memory", 1 << 30);
    mock_set("init", 999), cuda_refused(-1, "cuInit failed");
    mock_set("init", 0);
    ie_buf out = {0};
    ie_error err;
    mock_set("major", 7);
    OK(gpu_driver_list(GPU_CUDA, &out, &err));
    assert_non_null(strstr(out.data, "cuda 0  Mock GPU 0, sm_70"));
    assert_non_null(strstr(out.data, "cuda 1  Mock GPU 1"));
    assert_non_null(strstr(out.data, "not usable"));
    ie_buf_free(&out);
    mock_set("major", 9);
}

typedef struct {
    gpu_ptr p;
    uint32_t n, v;
} add_args;

static gpu_launch add_launch(gpu_ptr p, uint32_t v, const char *kernel) {
    gpu_launch l = {.kernel = kernel, .grid = {1, 2, 1}, .block = 64, .args_bytes = sizeof(add_args)};
    add_args a = {p, 4, v};
    memcpy(l.args, &a, sizeof a);
    return l;
}

static void test_cuda(void **state) {
    (void)state;
    ie_error err = {0};
    gpu_driver *d = gpu_driver_open(GPU_CUDA, 1, &err);
    if (!d) fail_msg("%s", err.msg);
    assert_string_equal(gpu_driver_card(d)->arch, "sm_90");
    assert_int_equal(gpu_driver_card(d)->units, 132);
    exercise(d);
    ranges(d, false);
    mock_set("flat", 1), ranges(d, true), mock_set("flat", 0);
    gpu_module m;
    gpu_function add, other;
    gpu_stream s;
    gpu_ptr p;
    uint32_t words[4];
    const char *ptx = ".version 7.8\n.target sm_80\n.visible .entry mock_add(\n{ }\n.visible .entry mock_fail(\n{ }\n";
    assert_int_equal(gpu_module_load(d, "junk", GPU_PART_ALL, "k.ptx", &m, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "cannot compile k.ptx for sm_90: line 1: syntax error"));
    assert_null(strstr(err.msg, "more"));
    mock_set("version", 11040), mock_set("ptx", 222);
    gpu_driver_close(d);
    d = gpu_driver_open(GPU_CUDA, -1, &err);
    assert_int_equal(gpu_module_load(d, ptx, GPU_PART_ALL, "k.ptx", &m, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "the driver (CUDA 11.4) is too old: k.ptx is PTX 7.8"));
    assert_non_null(strstr(err.msg, "CUDA 11.8 (driver 520) or later is needed"));
    mock_set("version", 12040), mock_set("ptx", 221);
    assert_int_equal(gpu_module_load(d, ptx, GPU_PART_ALL, "k.ptx", &m, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "compiler is missing (libnvidia-ptxjitcompiler.so.1"));
    mock_set("ptx", 223);
    assert_int_equal(gpu_module_load(d, ptx, GPU_PART_ALL, "k.ptx", &m, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "may not compile: CUDA_DISABLE_PTX_JIT is set"));
    mock_set("ptx", 0);
    OK(gpu_module_load(d, ptx, GPU_PART_ALL, "k.ptx", &m, &err));
    assert_int_equal(gpu_function_get(d, m, "nothing", &other, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "no function 'nothing'"));
    OK(gpu_function_get(d, m, "mock_add", &add, &err));
    OK(gpu_stream_new(d, &s, &err));
    OK(gpu_alloc(d, 16, "words", &p, &err));
    OK(gpu_fill(d, p, 0, 16, s, &err));
    gpu_launch l = add_launch(p, 5, "mock_add");
    OK(gpu_launch_run(d, add, &l, GPU_PLAIN, s, &err));
    OK(gpu_launch_run(d, add, &l, GPU_COOPERATIVE, s, &err));
    OK(gpu_download(d, words, p, 16, s, &err));
    OK(gpu_stream_sync(d, s, &err));
    for (int i = 0; i < 4; i++) assert_int_equal(words[i], 10);
    l.grid[0] = 1000;
    assert_int_equal(gpu_launch_run(d, add, &l, GPU_COOPERATIVE, s, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "kernel mock_add, 1000 x 2 x 1 workgroups of 64"));
    OK(gpu_function_get(d, m, "mock_fail", &other, &err));
    l = add_launch(p, 1, "mock_fail");
    assert_int_equal(gpu_launch_run(d, other, &l, GPU_PLAIN, s, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "the device is lost"));
    assert_int_equal(gpu_stream_sync(d, s, &err), IE_E_DEVICE); /* and stays so */
    mock_set("lost", 0);
    gpu_free(d, p);
    gpu_stream_free(d, s);
    gpu_module_unload(d, m);
    gpu_driver_close(d);
    assert_int_equal(mock_held(), 0);
}

/* PTX for a card that lets launches overlap, and such a launch. */
static void test_cuda_overlap(void **state) {
    (void)state;
    ie_error err = {0};
    mock_set("version", 12040), mock_set("newer", 1);
    gpu_driver *d = gpu_driver_open(GPU_CUDA, -1, &err);
    if (!d) fail_msg("%s", err.msg);
    assert_true(gpu_driver_card(d)->overlap);
    gpu_module m;
    gpu_function add;
    gpu_stream s;
    gpu_ptr p;
    uint32_t words[4];
    const char ptx[] = ".version 7.8\n.target sm_80\n.visible .entry mock_add(\n{\n//sm_90 griddepcontrol.wait;\n}\n";
    for (size_t n = 0; n < sizeof ptx; n++) { /* cut anywhere: nothing is read or written behind its end */
        char *cut = strndup(ptx, n);
        for (uint32_t part = 0; part <= GPU_PART_ALL; part += GPU_PART_ALL)
            if (gpu_module_load(d, cut, part, "k.ptx", &m, &err) == IE_OK) gpu_module_unload(d, m);
        free(cut);
    }
    OK(gpu_module_load(d, ptx, GPU_PART_ALL, "k.ptx", &m, &err));
    OK(gpu_function_get(d, m, "mock_add", &add, &err));
    OK(gpu_stream_new(d, &s, &err));
    OK(gpu_alloc(d, 16, "words", &p, &err));
    OK(gpu_fill(d, p, 0, 16, s, &err));
    gpu_launch l = add_launch(p, 5, "mock_add");
    OK(gpu_launch_run(d, add, &l, GPU_OVERLAP, s, &err));
    OK(gpu_download(d, words, p, 16, s, &err));
    OK(gpu_stream_sync(d, s, &err));
    for (int i = 0; i < 4; i++) assert_int_equal(words[i], 5);
    l.block = 0;
    assert_int_equal(gpu_launch_run(d, add, &l, GPU_OVERLAP, s, &err), IE_E_DEVICE);
    assert_non_null(strstr(err.msg, "cuLaunchKernelEx failed"));
    mock_set("newer", 0);
    gpu_free(d, p);
    gpu_stream_free(d, s);
    gpu_module_unload(d, m);
    gpu_driver_close(d);
    assert_int_equal(mock_held(), 0);
    mock_set("version", 11080), mock_set("major", 9);
    d = gpu_driver_open(GPU_CUDA, -1, &err); /* a driver that cannot */
    if (!d) fail_msg("%s", err.msg);
    assert_false(gpu_driver_card(d)->overlap);
    gpu_driver_close(d);
    mock_set("version", 12040);
}

/* ---- kernels by parts -------------------------------------------------------------------------------------------------- */

/* Each name's part, and that the part's module, and no other, has it. */
static const struct {
    const char *kernel;
    uint32_t part;
} kernels[] = {
    {"ie_rmsnorm", GPU_PART_REST}, {"ie_gemv_many", GPU_PART_REST}, {"ie_gemv_q4_kx", GPU_PART_REST}, {"ie_gdn2", GPU_PART_REST}, {"ie_rope_kv", GPU_PART_REST},
    {"ie_attn", GPU_PART_ATTN_ANY}, {"ie_attn_diff", GPU_PART_ATTN_ANY}, {"ie_gdn", GPU_PART_GDN}, {"ie_gdn1", GPU_PART_GDN}, {"ie_gnorm", GPU_PART_GDN},
    {"ie_gemv_q4_k_t4", GPU_PART_DOT4}, {"ie_gemv_q8_0_t4", GPU_PART_DOT4},
    {"ie_gemv_q4_k", IE_F_Q4_K}, {"ie_gemv_q4_k_s16", GPU_PART_STREAM + IE_F_Q4_K}, {"ie_embed_q4_k", IE_F_Q4_K}, {"ie_gemv_iq4_nl_t8", IE_F_IQ4_NL}, {"ie_gemv_f16", IE_F_F16},
    {"ie_embed_bf16", IE_F_BF16}, {"ie_gemv_q4_0_s", GPU_PART_STREAM + IE_F_Q4_0}, {"ie_gemv_q4_0_t16", IE_F_Q4_0}, {"ie_attn_kv_64", GPU_PART_ATTN}, {"ie_attn_stream_256", GPU_PART_ATTN + 2},
    {"ie_attn_one_128", GPU_PART_ATTN_PLAIN + 1}, {"ie_attn_split_64", GPU_PART_ATTN_PLAIN},
};
#define N_KERNELS (sizeof kernels / sizeof *kernels)

static void write_kernels(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("//\n// text\n.version 7.8\n.target sm_80\n.address_size 64\n", f);
    for (size_t i = 0; i < N_KERNELS; i++) fprintf(f, ".visible .entry %s(\n\t.param .b8 a[4]\n)\n{\n\tret;\n}\n\t// -- End function\n", kernels[i].kernel);
    fclose(f);
}

static void test_parts(void **state) {
    (void)state;
    ie_error err = {0};
    char path[] = "/tmp/ie_ptx_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_kernels(path);
    mock_set("version", 12040), mock_set("major", 9);
    gpu_driver *d = gpu_driver_open(GPU_CUDA, -1, &err);
    if (!d) fail_msg("%s", err.msg);
    gpu_modules m;
    gpu_function f;
    int held = mock_held();
    OK(gpu_modules_open(&m, d, path, &err));
    assert_int_equal(mock_held(), held + 1); /* what every model needs, and nothing else */
    bool need[GPU_PARTS] = {[GPU_PART_STREAM + IE_F_Q4_K] = true, [GPU_PART_ATTN] = true};
    OK(gpu_modules_need(&m, need, &err));
    OK(gpu_modules_need(&m, need, &err));
    assert_int_equal(mock_held(), held + 3);
    OK(gpu_modules_find(&m, "ie_gemv_q4_k_s16", &f, &err));
    OK(gpu_modules_find(&m, "ie_attn_kv_64", &f, &err));
    OK(gpu_modules_find(&m, "ie_rmsnorm", &f, &err));
    assert_int_equal(mock_held(), held + 3);
    for (size_t i = 0; i < N_KERNELS; i++) {
        assert_int_equal(gpu_kernel_part(kernels[i].kernel, strlen(kernels[i].kernel)), kernels[i].part);
        OK(gpu_modules_find(&m, kernels[i].kernel, &f, &err));
        for (uint32_t p = 0; p < GPU_PARTS; p++)
            if (m.part[p]) assert_int_equal(gpu_function_get(d, m.part[p], kernels[i].kernel, &f, &err) == IE_OK, p == kernels[i].part);
    }
    assert_int_equal(gpu_modules_find(&m, "ie_gemv_q6_k_t8", &f, &err), IE_E_DEVICE);
    assert_string_equal(err.msg, "cuda: the kernels have no function 'ie_gemv_q6_k_t8'");
    mock_set("ptx", 218);
    assert_int_equal(gpu_modules_find(&m, "ie_gemv_q8_0", &f, &err), IE_E_ARG); /* the file's fault */
    assert_non_null(strstr(err.msg, "(matrices of q8_0) for sm_90: line 1: syntax error"));
    mock_set("ptx", 0);
    gpu_modules_close(&m);
    assert_int_equal(mock_held(), held);
    unlink(path);
    assert_int_equal(gpu_modules_open(&m, d, path, &err), IE_E_ARG);
    assert_non_null(strstr(err.msg, "cannot be opened: No such file"));
    gpu_modules_close(&m);
    gpu_driver_close(d);
    assert_int_equal(mock_held(), 0);
}

int main(void) {
    void *lib = open_beside("mock/libcuda.so.1");
    *(void **)&mock_set = dlsym(lib, "mock_set");
    *(void **)&mock_held = dlsym(lib, "mock_held");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hip), cmocka_unit_test(test_pages), cmocka_unit_test(test_cuda_refusals), cmocka_unit_test(test_cuda), cmocka_unit_test(test_cuda_overlap), cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
