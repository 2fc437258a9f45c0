/* Ranges of addresses that get memory piece by piece: hipMemAddressReserve and what belongs to it. Pieces are mapped behind each other, from a
 * range's begin on, and unmapped from its end; a piece is mapped whole, once. */
#include <stdlib.h>

#include "hip.h"

#define GRAIN (2ull << 20)

typedef struct {
    int type, handle_types, location_type, location_id;
    void *metadata;
    unsigned char flags[8];
} memory_prop;
typedef struct {
    int location_type, location_id, flags;
} access_desc;

typedef struct ihipMemGenericAllocationHandle {
    u64 n;
} piece;

API hipError_t hipMemGetAllocationGranularity(size_t *n, const memory_prop *p, int which);
API hipError_t hipMemAddressReserve(void **p, size_t n, size_t align, void *at, unsigned long long flags);
API hipError_t hipMemAddressFree(void *p, size_t n);
API hipError_t hipMemCreate(piece **out, size_t n, const memory_prop *p, unsigned long long flags);
API hipError_t hipMemRelease(piece *m);
API hipError_t hipMemMap(void *p, size_t n, size_t offset, piece *m, unsigned long long flags);
API hipError_t hipMemUnmap(void *p, size_t n);
API hipError_t hipMemSetAccess(void *p, size_t n, const access_desc *access, size_t count);

static bool prop_ok(const memory_prop *p) { return p && p->type == 1 && !p->handle_types && p->location_type == 1 && p->location_id == 0; }
static u64 at_of(const void *p) { return (u64)(uintptr_t)p; }

hipError_t hipMemGetAllocationGranularity(size_t *n, const memory_prop *p, int which) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!n || !prop_ok(p) || which < 0 || which > 1) return hip_leave(hipErrorInvalidValue);
    *n = GRAIN;
    return hip_leave(hipSuccess);
}

hipError_t hipMemAddressReserve(void **p, size_t n, size_t align, void *at, unsigned long long flags) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!p || !n || n % GRAIN || align > 4096 || at || flags) return hip_leave(hipErrorInvalidValue);
    u64 base = sim_reserve(r->dev.mem, n);
    *p = (void *)(uintptr_t)base;
    return hip_leave(base ? hipSuccess : hipErrorOutOfMemory);
}

hipError_t hipMemAddressFree(void *p, size_t n) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    const sim_alloc *a = p ? sim_nearest(r->dev.mem, at_of(p)) : NULL;
    bool ok = a && a->range && a->live && a->base == at_of(p) && a->size == 0 && a->span == n + 4096u;
    return hip_leave(ok && sim_mfree(r->dev.mem, at_of(p)) ? hipSuccess : hipErrorInvalidValue);
}

hipError_t hipMemCreate(piece **out, size_t n, const memory_prop *p, unsigned long long flags) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!out || !n || n % GRAIN || !prop_ok(p) || flags) return hip_leave(hipErrorInvalidValue);
    piece *m = malloc(sizeof *m);
    if (!m || !sim_take(r->dev.mem, n)) {
        free(m);
        return hip_leave(hipErrorOutOfMemory);
    }
    m->n = n;
    *out = m;
    return hip_leave(hipSuccess);
}

hipError_t hipMemRelease(piece *m) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!m) return hip_leave(hipErrorInvalidValue);
    sim_give(r->dev.mem, m->n);
    free(m);
    return hip_leave(hipSuccess);
}

hipError_t hipMemMap(void *p, size_t n, size_t offset, piece *m, unsigned long long flags) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    bool ok = m && m->n == n && !offset && !flags && sim_map(r->dev.mem, at_of(p), n);
    return hip_leave(ok ? hipSuccess : hipErrorInvalidValue);
}

hipError_t hipMemUnmap(void *p, size_t n) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    return hip_leave(sim_unmap(r->dev.mem, at_of(p), n) ? hipSuccess : hipErrorInvalidValue);
}

/* Access is not kept: what is mapped can be used. */
hipError_t hipMemSetAccess(void *p, size_t n, const access_desc *access, size_t count) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    bool ok = access && count == 1 && access->location_type == 1 && access->location_id == 0 && access->flags == 3 && sim_find(r->dev.mem, at_of(p), n);
    return hip_leave(ok ? hipSuccess : hipErrorInvalidValue);
}
