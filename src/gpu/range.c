/* A range of device addresses that gets its memory bit by bit, from the front: what grows keeps its place, so that recorded launches
 * stay valid. HIP and CUDA have the same calls and records for it. */
#include "range.h"

#include <stdlib.h>

#define STEP_BYTES (32ull << 20) /* of memory that is added at a time, where so much is left */

/* CUmemAllocationProp, CUmemAccessDesc and HIP's of the same shape. */
typedef struct {
    int type, handle_types, location_type, location_id;
    void *metadata;
    unsigned char flags[8];
} memory_prop;
typedef struct {
    int location_type, location_id, flags;
} access_desc;
_Static_assert(sizeof(memory_prop) == 32 && sizeof(access_desc) == 12, "as the drivers read them");
enum { PINNED = 1, ON_DEVICE = 1, READ_WRITE = 3, MINIMUM = 0, OUT_OF_MEMORY = 2 };

static memory_prop prop_of(const gpu_driver *d) { return (memory_prop){.type = PINNED, .location_type = ON_DEVICE, .location_id = d->device}; }
static uint64_t round_to(uint64_t n, uint64_t step) { return (n + step - 1u) / step * step; }

ie_status gpu_range_new(gpu_driver *d, uint64_t bytes, const char *what, gpu_range *r, ie_error *err) {
    *r = (gpu_range){.what = what};
    if (!bytes) return IE_OK;
    memory_prop prop = prop_of(d);
    size_t grain = 0;
    if (d->call.memory_grain(&grain, &prop, MINIMUM) || !grain) { /* a card that cannot: all of it at once */
        ie_status st = gpu_alloc(d, bytes, what, &r->base, err);
        if (!st) r->bytes = r->mapped = bytes;
        return st;
    }
    uint64_t all = round_to(bytes, grain);
    ie_status st = gpu_check(d, d->call.range_reserve(&r->base, (size_t)all, 0, 0, 0), GPU_DO_range_reserve, err);
    if (!st) r->bytes = all, r->step = round_to(STEP_BYTES, grain);
    return st;
}

/* One piece of memory behind what is mapped. */
static ie_status add_piece(gpu_driver *d, gpu_range *r, ie_error *err) {
    uint64_t left = r->bytes - r->mapped, bytes = left < r->step ? left : r->step;
    memory_prop prop = prop_of(d);
    access_desc access = {ON_DEVICE, d->device, READ_WRITE};
    void *piece = NULL;
    gpu_ptr at = r->base + r->mapped;
    if (!ie_grow(&r->piece, &r->cap, r->n + 1u, sizeof *r->piece, "memory of a range", err)) return IE_E_NOMEM;
    int code = d->call.memory_new(&piece, (size_t)bytes, &prop, 0);
    if (code == OUT_OF_MEMORY) return gpu_no_room(d, bytes, r->what, err);
    ie_status st = gpu_check(d, code, GPU_DO_memory_new, err);
    if (st) return st;
    st = gpu_check(d, d->call.range_map(at, (size_t)bytes, 0, piece, 0), GPU_DO_range_map, err);
    if (st) {
        d->call.memory_free(piece);
        return st;
    }
    r->piece[r->n++] = (gpu_piece){piece, bytes};
    r->mapped += bytes;
    return gpu_check(d, d->call.range_access(at, (size_t)bytes, &access, 1), GPU_DO_range_access, err);
}

/* The last piece goes. */
static void drop_piece(gpu_driver *d, gpu_range *r) {
    const gpu_piece *p = &r->piece[--r->n];
    r->mapped -= p->bytes;
    d->call.range_unmap(r->base + r->mapped, (size_t)p->bytes);
    d->call.memory_free(p->memory);
}

ie_status gpu_range_grow(gpu_driver *d, gpu_range *r, uint64_t bytes, ie_error *err) {
    if (bytes > r->bytes) return ie_fail(err, IE_E_ARG, "%s: %llu bytes of %llu", r->what, (unsigned long long)bytes, (unsigned long long)r->bytes);
    const size_t had = r->n;
    ie_status st = IE_OK;
    while (r->mapped < bytes && !st) st = add_piece(d, r, err);
    while (st && r->n > had) drop_piece(d, r);
    return st;
}

void gpu_range_free(gpu_driver *d, gpu_range *r) {
    if (!r->step) gpu_free(d, r->base);
    while (r->n) drop_piece(d, r);
    if (r->step) d->call.range_release(r->base, (size_t)r->bytes);
    free(r->piece);
    *r = (gpu_range){0};
}
