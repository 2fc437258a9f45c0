#include "backend.h"

#include <string.h>

#include "gpu/code.h"
#include "gpu/driver.h"

typedef struct {
    const char *name;
    ie_backend *(*open)(const ie_backend_params *p, ie_error *err);
    bool gpu;
} backend_row;

/* In the order in which "auto" and "gpu" try them. */
static const backend_row backends[] = {
    {"hip", ie_hip_open, true},
    {"cuda", ie_cuda_open, true},
    {"cpu", ie_cpu_open, false},
};
#define N_BACKENDS (sizeof backends / sizeof *backends)

void ie_weights_place(ie_weights *w, uint64_t (*mat_bytes)(const ie_format *f, uint32_t rows, uint32_t cols)) {
    w->bytes = 0;
    for (uint32_t i = 0; i < w->n_vec; i++) {
        w->vec[i].off = w->bytes;
        w->bytes += ((uint64_t)w->vec[i].n * 4u + 255u) / 256u * 256u;
    }
    for (uint32_t i = 0; i < w->n_mat; i++) {
        ie_mat *m = &w->mat[i];
        m->off = w->bytes;
        m->bytes = mat_bytes(m->fmt, m->rows, m->cols);
        w->bytes += (m->bytes + 255u) / 256u * 256u;
    }
}

static ie_backend *open_row(const backend_row *row, const ie_backend_params *p, ie_error *err) {
    ie_backend *be = row->open(p, err);
    return be && row->gpu && p && p->gpu_layers ? ie_split_open(be, p, err) : be;
}

/* The first GPU that works. *why: one line about all that do not. */
static ie_backend *open_gpu(const ie_backend_params *p, ie_error *why) {
    ie_error one, all = {0};
    for (size_t i = 0; i < N_BACKENDS; i++) {
        if (!backends[i].gpu) continue;
        ie_backend *be = open_row(&backends[i], p, &one);
        if (be) return be;
        if (one.code == IE_E_ARG || one.code == IE_E_NOMEM) { /* the caller's or the host's fault, not a missing card */
            *why = one;
            return NULL;
        }
        ie_fail(why, one.code, "%s%s%s", all.msg, *all.msg ? "; " : "", one.msg);
        all = *why;
    }
    return NULL;
}

ie_backend *ie_backend_open(const char *name, const ie_backend_params *p, ie_error *err) {
    bool any = !name || strcmp(name, "auto") == 0;
    ie_error local = {0};
    if (!err) err = &local;
    if (p && p->note) *p->note = (ie_error){0};
    for (size_t i = 0; i < N_BACKENDS && !any; i++)
        if (strcmp(name, backends[i].name) == 0) return open_row(&backends[i], p, err);
    if (!any && strcmp(name, "gpu") != 0) {
        ie_fail(err, IE_E_ARG, "backend '%.40s': must be auto, cpu, gpu, hip or cuda", name);
        return NULL;
    }
    ie_backend *be = open_gpu(p, err);
    if (be || !any || err->code == IE_E_ARG) return be;
    if (p && p->note && err->code == IE_E_NOMEM) *p->note = *err;
    else if (p && p->note) ie_fail(p->note, err->code, "no GPU can be used, ie-run --list-devices says why");
    return ie_cpu_open(p, err);
}

ie_status ie_backend_devices(ie_buf *out, ie_error *err) {
    ie_status st = IE_OK;
    for (int v = 0; v < GPU_VENDORS && !st; v++) {
        st = gpu_driver_list((gpu_vendor)v, out, err);
        if (!st && !gpu_codes[v].data && !ie_buf_printf(out, err, GPU_NO_CODE "\n", gpu_vendor_names[v])) st = IE_E_NOMEM;
    }
    return st;
}
