#include "backend.h"

#include <string.h>

typedef struct {
    const char *name;
    ie_backend *(*open)(const ie_backend_params *p, ie_error *err);
} backend_row;

/* In the order in which "auto" tries them. */
static const backend_row backends[] = {
    {"cpu", ie_cpu_open},
};

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

ie_backend *ie_backend_open(const char *name, const ie_backend_params *p, ie_error *err) {
    bool any = !name || strcmp(name, "auto") == 0;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (!any && strcmp(name, backends[i].name) != 0) continue;
        ie_backend *be = backends[i].open(p, err);
        if (be || !any) return be;
    }
    if (!any) ie_fail(err, IE_E_ARG, "backend '%.40s': must be auto or cpu", name);
    return NULL;
}
