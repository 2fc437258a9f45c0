#include "modules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "code.h"

#define CODE_MAX ((size_t)1 << 28) /* bytes of a file of GPU code */

static const char *const formats[IE_F_COUNT] = {
#define ROW(NAME, FORMAT, N0, N1, PER, APART) [IE_F_##FORMAT] = #NAME,
    IE_GPU_FORMATS(ROW)
#undef ROW
};
static const char *const heads[GPU_ATTN_SIZES] = {"64", "128", "256"};

static const char *const any_head[] = {"attn", "attn_diff"}, *const recurrent[] = {"conv", "gdn", "gdn1", "gnorm"};

/* Kernels by their names: a prefix, one of n names, perhaps a '_' and more, which begins with `then`; the first row that fits counts. Their part, or, `each`,
 * the first of n; what they are, for messages. */
static const struct {
    const char *prefix, *const *names;
    uint32_t n;
    const char *then;
    uint32_t part;
    bool each;
    const char *what;
} families[] = {
    {"ie_gemv_", formats, IE_F_COUNT, "_t4", GPU_PART_DOT4, false, "dot4 of several tokens"},
    {"ie_gemv_", formats, IE_F_COUNT, "_s", GPU_PART_STREAM, true, "streamed matrices of "},
    {"ie_gemv_", formats, IE_F_COUNT, "", 0, true, "matrices of "},
    {"ie_embed_", formats, IE_F_COUNT, "", 0, true, "matrices of "},
    {"ie_attn_kv_", heads, GPU_ATTN_SIZES, "", GPU_PART_ATTN, true, "attention of heads up to "},
    {"ie_attn_stream_", heads, GPU_ATTN_SIZES, "", GPU_PART_ATTN, true, "attention of heads up to "},
    {"ie_attn_one_", heads, GPU_ATTN_SIZES, "", GPU_PART_ATTN_PLAIN, true, "plain attention of heads up to "},
    {"ie_attn_split_", heads, GPU_ATTN_SIZES, "", GPU_PART_ATTN_PLAIN, true, "plain attention of heads up to "},
    {"ie_", any_head, 2, "", GPU_PART_ATTN_ANY, false, "attention of any head"},
    {"ie_", recurrent, 4, "", GPU_PART_GDN, false, "recurrent layers"},
};
#define N_FAMILIES (sizeof families / sizeof *families)

/* Takes `text` off the front of n bytes at *at. */
static bool take(const char **at, size_t *n, const char *text) {
    size_t len = strlen(text);
    if (*n < len || strncmp(*at, text, len) != 0) return false;
    *at += len, *n -= len;
    return true;
}

uint32_t gpu_kernel_part(const char *kernel, size_t n) {
    for (size_t i = 0; i < N_FAMILIES; i++)
        for (uint32_t k = 0; k < families[i].n; k++) {
            const char *at = kernel;
            size_t left = n;
            if (!take(&at, &left, families[i].prefix) || !take(&at, &left, families[i].names[k]) || (left && *at != '_')) continue;
            if (take(&at, &left, families[i].then)) return families[i].part + (families[i].each ? k : 0u);
        }
    return GPU_PART_REST;
}

/* The code's name and the part's. */
static void name_of(const gpu_modules *m, uint32_t part, char *out, size_t n) {
    snprintf(out, n, "%s", m->name);
    for (size_t i = 0; i < N_FAMILIES; i++) {
        uint32_t k = part - families[i].part;
        if (part < families[i].part || k >= (families[i].each ? families[i].n : 1u)) continue;
        snprintf(out, n, "%s (%s%s)", m->name, families[i].what, families[i].each ? families[i].names[k] : "");
        return;
    }
}

/* A file's faults are the caller's to mend (IE_E_ARG): `auto` does not pass over them to the CPU. */
static ie_status read_file(gpu_modules *m, const char *file, ie_error *err) {
    FILE *f = fopen(file, "rbe");
    if (!f) return ie_fail(err, IE_E_ARG, "file '%.300s' cannot be opened: %s", file, strerror(errno));
    char block[65536];
    size_t n;
    ie_status st = IE_OK;
    while (!st && (n = fread(block, 1, sizeof block, f)) > 0) {
        if (m->file.len + n > CODE_MAX) st = ie_fail(err, IE_E_ARG, "file '%.300s' has more than %zu bytes: it is no code object", file, CODE_MAX);
        else if (!ie_buf_add(&m->file, block, n, err)) st = err->code;
    }
    if (!st && (ferror(f) || m->file.len < 64)) st = ie_fail(err, IE_E_ARG, "file '%.300s' is no code object", file);
    fclose(f);
    return st;
}

static ie_status load(gpu_modules *m, uint32_t part, ie_error *err) {
    if (m->part[part]) return IE_OK;
    char name[400];
    bool parts = gpu_in_parts(m->drv, m->image);
    name_of(m, parts ? part : GPU_PART_REST, name, sizeof name);
    ie_status st = gpu_module_load(m->drv, m->image, parts ? part : GPU_PART_ALL, name, &m->part[part], err);
    return st && m->file.data ? (err->code = IE_E_ARG) : st;
}

ie_status gpu_modules_open(gpu_modules *m, gpu_driver *d, const char *file, ie_error *err) {
    const gpu_code *c = &gpu_codes[gpu_driver_vendor(d)];
    *m = (gpu_modules){.drv = d, .image = c->data};
    snprintf(m->name, sizeof m->name, "%.300s", file ? file : c->name);
    ie_status st = file ? read_file(m, file, err) : IE_OK;
    if (st) return st;
    if (file) m->image = m->file.data;
    if (!m->image) return ie_fail(err, IE_E_DEVICE, GPU_NO_CODE, gpu_vendor_names[gpu_driver_vendor(d)]);
    return load(m, GPU_PART_REST, err);
}

void gpu_modules_close(gpu_modules *m) {
    for (uint32_t i = 0; i < GPU_PARTS; i++) gpu_module_unload(m->drv, m->part[i]);
    ie_buf_free(&m->file);
    *m = (gpu_modules){0};
}

ie_status gpu_modules_need(gpu_modules *m, const bool parts[GPU_PARTS], ie_error *err) {
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < GPU_PARTS && gpu_in_parts(m->drv, m->image) && !st; i++)
        if (parts[i]) st = load(m, i, err);
    return st;
}

ie_status gpu_modules_find(gpu_modules *m, const char *kernel, gpu_function *out, ie_error *err) {
    uint32_t part = gpu_in_parts(m->drv, m->image) ? gpu_kernel_part(kernel, strlen(kernel)) : GPU_PART_REST;
    ie_status st = load(m, part, err);
    return st ? st : gpu_function_get(m->drv, m->part[part], kernel, out, err);
}
