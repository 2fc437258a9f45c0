/* Device memory. All of it lies in one reserved range of host addresses, so that a device address is a host address and the
 * look-up of an allocation is one table read: the range is cut into granules of 4 KiB, each with the number of its
 * allocation. After each allocation at least one granule stays unused, so that accesses just past an end are caught without
 * strict mode. Freed ranges are not used again until the range is used up. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

#define RANGE (256ull << 30)
#define GRANULE 4096ull
#define MAX_ALLOCS (1u << 20)
#define MAX_EXT 256u

struct sim_memory {
    u64 base;
    u64 next;           /* first never-used offset */
    u64 used;           /* bytes in live allocations */
    u32 *owner;         /* of each granule: index into allocs, 0 = none */
    u8 *shadow;         /* a bit a byte, set once written; NULL without strict mode */
    sim_alloc *allocs;  /* 1 .. n - 1; in order of base except where ranges were used again */
    u32 n, reuse;
    u64 serial;
    sim_alloc ext[MAX_EXT]; /* registered host memory */
    u32 n_ext;
    pthread_mutex_t lock;
};

static void *reserve(u64 n, int prot) {
    void *p = mmap(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

sim_memory *sim_memory_new(bool shadow, sim_error *err) {
    sim_memory *m = calloc(1, sizeof *m);
    if (!m) {
        sim_fail(err, "simulator: out of memory");
        return NULL;
    }
    pthread_mutex_init(&m->lock, NULL);
    m->base = (u64)(uintptr_t)reserve(RANGE, PROT_NONE);
    m->owner = reserve(RANGE / GRANULE * sizeof(u32), PROT_READ | PROT_WRITE);
    m->allocs = reserve(MAX_ALLOCS * sizeof(sim_alloc), PROT_READ | PROT_WRITE);
    if (shadow) m->shadow = reserve(RANGE / 8, PROT_READ | PROT_WRITE);
    m->n = 1;
    if (!m->base || !m->owner || !m->allocs || (shadow && !m->shadow)) {
        sim_memory_free(m);
        sim_fail(err, "simulator: cannot reserve %llu GiB of addresses", RANGE >> 30);
        return NULL;
    }
    return m;
}

void sim_memory_free(sim_memory *m) {
    if (!m) return;
    if (m->base) munmap((void *)(uintptr_t)m->base, RANGE);
    if (m->owner) munmap(m->owner, RANGE / GRANULE * sizeof(u32));
    if (m->allocs) munmap(m->allocs, MAX_ALLOCS * sizeof(sim_alloc));
    if (m->shadow) munmap(m->shadow, RANGE / 8);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* A freed allocation of exactly this span, in turn: the quarantine ends only when fresh addresses or numbers are used up.
 * Returns its number, 0 when there is none. */
static u32 reuse_span(sim_memory *m, u64 span) {
    for (u32 i = 0; i < m->n; i++) {
        u32 k = m->reuse = m->reuse + 1 < m->n ? m->reuse + 1 : 1;
        if (!m->allocs[k].live && m->allocs[k].span == span) return k;
    }
    return 0;
}

static u64 malloc_locked(sim_memory *m, u64 size, const char *what, sim_error *err) {
    if (size == 0) size = 1;
    if (size > SIM_VRAM || m->used + size > SIM_VRAM) {
        sim_fail(err, "out of device memory: %llu bytes asked for, %llu of %llu in use", (unsigned long long)size,
                 (unsigned long long)m->used, (unsigned long long)SIM_VRAM);
        return 0;
    }
    u64 body = (size + GRANULE - 1) / GRANULE * GRANULE, span = body + GRANULE, off = m->next;
    u32 id = m->n;
    if (off + span > RANGE || id == MAX_ALLOCS) {
        id = reuse_span(m, span);
        if (!id) {
            sim_fail(err, "out of device addresses: %llu bytes asked for", (unsigned long long)size);
            return 0;
        }
        off = m->allocs[id].base - m->base;
    }
    u64 base = m->base + off;
    if (mprotect((void *)(uintptr_t)base, body, PROT_READ | PROT_WRITE)) {
        sim_fail(err, "out of host memory for %llu bytes of device memory", (unsigned long long)size);
        return 0;
    }
    if (id == m->n) {
        m->n++;
        m->next = off + span;
    }
    m->allocs[id] = (sim_alloc){.base = base, .size = size, .span = span, .live = true, .what = what, .serial = ++m->serial};
    for (u64 g = off / GRANULE, e = (off + body) / GRANULE; g < e; g++) m->owner[g] = id;
    if (m->shadow) memset(m->shadow + off / 8, 0, (size_t)(body / 8));
    m->used += size;
    return base;
}

u64 sim_malloc(sim_memory *m, u64 size, const char *what, sim_error *err) {
    pthread_mutex_lock(&m->lock);
    u64 p = malloc_locked(m, size, what, err);
    pthread_mutex_unlock(&m->lock);
    return p;
}

static u32 owner_of(const sim_memory *m, u64 p) {
    u64 off = p - m->base;
    return off < RANGE ? m->owner[off / GRANULE] : 0;
}

bool sim_mfree(sim_memory *m, u64 p) {
    pthread_mutex_lock(&m->lock);
    u32 id = owner_of(m, p);
    bool ok = id && m->allocs[id].live && m->allocs[id].base == p;
    if (ok) {
        sim_alloc *a = &m->allocs[id];
        a->live = false;
        if (!a->range) m->used -= a->size;
        u64 body = a->span - GRANULE;
        /* Gives the pages back to the host and makes late host accesses fault too. */
        madvise((void *)(uintptr_t)p, body, MADV_DONTNEED);
        mprotect((void *)(uintptr_t)p, body, PROT_NONE);
    }
    pthread_mutex_unlock(&m->lock);
    return ok;
}

bool sim_resize(sim_memory *m, u64 p, u64 size) {
    pthread_mutex_lock(&m->lock);
    u32 id = owner_of(m, p);
    bool ok = id && m->allocs[id].live && m->allocs[id].base == p && size > 0 && size <= m->allocs[id].span - GRANULE;
    if (ok) {
        m->used = m->used - m->allocs[id].size + size;
        m->allocs[id].size = size;
    }
    pthread_mutex_unlock(&m->lock);
    return ok;
}

u64 sim_reserve(sim_memory *m, u64 n) {
    u64 span = n + GRANULE, base = 0;
    pthread_mutex_lock(&m->lock);
    if (n && n % GRANULE == 0 && n < RANGE && m->next + span <= RANGE && m->n < MAX_ALLOCS) {
        base = m->base + m->next;
        m->allocs[m->n] = (sim_alloc){.base = base, .span = span, .live = true, .range = true, .what = "range of addresses", .serial = ++m->serial};
        for (u64 g = m->next / GRANULE, e = (m->next + n) / GRANULE; g < e; g++) m->owner[g] = m->n;
        m->next += span, m->n++;
    }
    pthread_mutex_unlock(&m->lock);
    return base;
}

bool sim_map(sim_memory *m, u64 p, u64 n) {
    pthread_mutex_lock(&m->lock);
    sim_alloc *a = &m->allocs[owner_of(m, p)];
    bool ok = a->live && a->range && n % GRANULE == 0 && p == a->base + a->size && n <= a->span - GRANULE - a->size &&
              !mprotect((void *)(uintptr_t)p, n, PROT_READ | PROT_WRITE);
    if (ok && m->shadow) memset(m->shadow + (p - m->base) / 8, 0, (size_t)(n / 8));
    if (ok) a->size += n;
    pthread_mutex_unlock(&m->lock);
    return ok;
}

bool sim_unmap(sim_memory *m, u64 p, u64 n) {
    pthread_mutex_lock(&m->lock);
    sim_alloc *a = &m->allocs[owner_of(m, p)];
    bool ok = a->live && a->range && p >= a->base && n <= a->size && p + n == a->base + a->size;
    if (ok) {
        a->size -= n;
        madvise((void *)(uintptr_t)p, n, MADV_DONTNEED);
        mprotect((void *)(uintptr_t)p, n, PROT_NONE);
    }
    pthread_mutex_unlock(&m->lock);
    return ok;
}

bool sim_take(sim_memory *m, u64 n) {
    pthread_mutex_lock(&m->lock);
    bool ok = n <= SIM_VRAM - m->used;
    if (ok) m->used += n;
    pthread_mutex_unlock(&m->lock);
    return ok;
}
void sim_give(sim_memory *m, u64 n) {
    pthread_mutex_lock(&m->lock);
    m->used -= n;
    pthread_mutex_unlock(&m->lock);
}

bool sim_register_host(sim_memory *m, u64 p, u64 n) {
    pthread_mutex_lock(&m->lock);
    bool ok = m->n_ext < MAX_EXT && n > 0 && p + n > p && !sim_in_range(m, p) && !sim_in_range(m, p + n - 1);
    for (u32 i = 0; ok && i < m->n_ext; i++) ok = p + n <= m->ext[i].base || m->ext[i].base + m->ext[i].size <= p;
    if (ok) m->ext[m->n_ext++] = (sim_alloc){.base = p, .size = n, .span = n, .live = true, .host = true, .what = "registered host memory"};
    pthread_mutex_unlock(&m->lock);
    return ok;
}

bool sim_unregister_host(sim_memory *m, u64 p) {
    pthread_mutex_lock(&m->lock);
    u32 i = 0;
    while (i < m->n_ext && m->ext[i].base != p) i++;
    bool ok = i < m->n_ext;
    if (ok) m->ext[i] = m->ext[--m->n_ext];
    pthread_mutex_unlock(&m->lock);
    return ok;
}

static const sim_alloc *find_ext(const sim_memory *m, u64 p, u64 n) {
    for (u32 i = 0; i < m->n_ext; i++) {
        const sim_alloc *a = &m->ext[i];
        if (p >= a->base && n <= a->size && p - a->base <= a->size - n) return a;
    }
    return NULL;
}

const sim_alloc *sim_find(const sim_memory *m, u64 p, u64 n) {
    u32 id = owner_of(m, p);
    if (!id) return m->n_ext ? find_ext(m, p, n) : NULL;
    const sim_alloc *a = &m->allocs[id];
    return a->live && p >= a->base && n <= a->size && p - a->base <= a->size - n ? a : NULL;
}

const sim_alloc *sim_nearest(const sim_memory *m, u64 p) {
    u32 id = owner_of(m, p);
    if (id) return &m->allocs[id];
    const sim_alloc *best = NULL;
    u64 best_d = ~0ull;
    for (u32 i = 1; i < m->n; i++) {
        const sim_alloc *a = &m->allocs[i];
        u64 d = p < a->base ? a->base - p : p - a->base < a->size ? 0 : p - (a->base + a->size) + 1;
        if (d < best_d) {
            best_d = d;
            best = a;
        }
    }
    return best;
}

u64 sim_bytes_used(const sim_memory *m) { return m->used; }
bool sim_in_range(const sim_memory *m, u64 p) { return p - m->base < RANGE; }

/* Bytes of two work-items may share a shadow byte, and workgroups run on several host threads: hence the atomic or. */
void sim_mark_written(sim_memory *m, u64 p, u64 n) {
    if (!m->shadow || n == 0) return;
    u64 i = p - m->base, e = i + n;
    if (i >= RANGE || n > RANGE - i) return;
    while (i < e) {
        u64 in_byte = 8 - (i & 7), k = e - i < in_byte ? e - i : in_byte;
        u8 mask = (u8)(((1u << k) - 1) << (i & 7));
        if (k == 8 && e - i >= 64) {
            u64 whole = (e - i) / 8;
            memset(m->shadow + i / 8, 0xFF, (size_t)whole);
            i += whole * 8;
            continue;
        }
        u8 *s = m->shadow + i / 8;
        if ((__atomic_load_n(s, __ATOMIC_RELAXED) & mask) != mask) __atomic_fetch_or(s, mask, __ATOMIC_RELAXED);
        i += k;
    }
}

u64 sim_first_unwritten(const sim_memory *m, u64 p, u64 n) {
    if (!m->shadow) return p + n;
    u64 i = p - m->base, e = i + n;
    if (i >= RANGE || n > RANGE - i) return p + n;
    for (; i < e; i++) {
        u8 b = __atomic_load_n(m->shadow + i / 8, __ATOMIC_RELAXED);
        if (b == 0xFF) {
            i |= 7;
            continue;
        }
        if (!(b >> (i & 7) & 1)) return m->base + i;
    }
    return p + n;
}

void sim_describe_address(const sim_memory *m, u64 p, char *out, size_t n) {
    const sim_alloc *a = sim_nearest(m, p);
    if (!a) {
        snprintf(out, n, "no allocation exists");
        return;
    }
    const char *freed = a->live ? "" : "freed ";
    unsigned long long base = a->base, size = a->size, serial = a->serial;
    if (p < a->base)
        snprintf(out, n, "%llu bytes before %s%s #%llu (0x%llx, %llu bytes)", (unsigned long long)(a->base - p), freed, a->what,
                 serial, base, size);
    else if (p - a->base >= a->size)
        snprintf(out, n, "%llu bytes past the end of %s%s #%llu (0x%llx, %llu bytes)",
                 (unsigned long long)(p - a->base - a->size), freed, a->what, serial, base, size);
    else
        snprintf(out, n, "byte %llu of %s%s #%llu (0x%llx, %llu bytes)", (unsigned long long)(p - a->base), freed, a->what,
                 serial, base, size);
}
