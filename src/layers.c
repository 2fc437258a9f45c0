#include "layers.h"

#include <stdlib.h>
#include <string.h>

int32_t ie_layer_of(const char *name) {
    if (!name || strncmp(name, "blk.", 4) != 0) return -1;
    char *end;
    unsigned long n = strtoul(name + 4, &end, 10);
    return end == name + 4 || *end != '.' || n > INT32_MAX ? -1 : (int32_t)n;
}

static uint64_t layer_bytes(const ie_weights *w, int32_t layer, int32_t *top) {
    uint64_t sum = 0;
    *top = -1;
    for (uint32_t i = 0; i < w->n_mat; i++) {
        int32_t l = ie_layer_of(w->mat[i].name);
        if (l == layer) sum += w->mat[i].bytes;
        if (l > *top) *top = l;
    }
    for (uint32_t i = 0; i < w->n_vec; i++)
        if (ie_layer_of(w->vec[i].name) == layer) sum += 4u * (uint64_t)w->vec[i].n;
    return sum;
}

uint32_t ie_layers_fitting(const ie_weights *w, uint64_t bytes) {
    uint64_t sum = 0;
    int32_t top;
    for (int32_t n = 0;; n++) {
        sum += layer_bytes(w, n, &top);
        if (sum > bytes || n > top) return (uint32_t)n;
    }
}
