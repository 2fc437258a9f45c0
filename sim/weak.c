/* Weak memory: what other waves may see, and when, is left to a seeded adversary within what the hardware promises.
 *
 * Stores wait in their wave's queue; they reach memory when a wait for storecnt covers them, at the wave's end, or when the
 * adversary likes, in any order between different lines. Loads without device scope go through a cache of the wave's compute unit (a
 * workgroup has two; waves alternate), whose lines may be stale until a wave of that unit invalidates them. Loads of device
 * scope and atomics go to memory at once. A wave sees its own stores. */
#include "check.h"

#include <stdlib.h>

#define LINE 128u
#define QUEUE 48u
#define LINES 64u

typedef struct {
    u64 addr;
    u32 bytes, ticket;
    u8 data[16];
    bool used;
} pending;

struct store_queue {
    pending p[QUEUE * 32];
    u32 n, instrs;
    u8 stage[SIM_LANES][16]; /* where the running instruction reads or writes instead of memory */
    u64 real[SIM_LANES];
};

struct weak_cache {
    u64 tag[LINES]; /* address of the line + 1 */
    u8 data[LINES][LINE];
};

bool sim_weak_group(group *g) {
    for (u32 i = 0; i < 2; i++)
        if (!(g->chk->cache[i] = calloc(1, sizeof *g->chk->cache[i]))) return false;
    for (u32 i = 0; i < g->n_waves; i++)
        if (!(g->waves[i]->chk->queue = calloc(1, sizeof(struct store_queue)))) return false;
    return true;
}

void sim_weak_group_end(group *g) {
    for (u32 i = 0; i < g->n_waves; i++)
        if (g->waves[i]->chk) free(g->waves[i]->chk->queue);
    free(g->chk->cache[0]);
    free(g->chk->cache[1]);
}

static void perform(pending *p) {
    memcpy((void *)(uintptr_t)p->addr, p->data, p->bytes);
    p->used = false;
}

static void compact(struct store_queue *q) {
    u32 n = 0;
    for (u32 i = 0; i < q->n; i++)
        if (q->p[i].used) q->p[n++] = q->p[i];
    q->n = n;
}

/* Stores to one place stay in order: all older ones that overlap go first. */
static void perform_in_order(struct store_queue *q, u32 i) {
    for (u32 k = 0; k < i; k++) {
        pending *a = &q->p[k], *b = &q->p[i];
        if (a->used && a->addr < b->addr + b->bytes && b->addr < a->addr + a->bytes) perform(a);
    }
    perform(&q->p[i]);
}

void sim_weak_store_wait(wave *w, u32 left) {
    struct store_queue *q = w->chk->queue;
    u32 upto = w->chk->issued[CNT_STORE] > left ? w->chk->issued[CNT_STORE] - left : 0;
    for (u32 i = 0; i < q->n; i++)
        if (q->p[i].used && q->p[i].ticket <= upto) perform_in_order(q, i);
    compact(q);
}

void sim_weak_wave_end(wave *w) { sim_weak_store_wait(w, 0); }

void sim_weak_invalidate(wave *w) { memset(w->g->chk->cache[w->index & 1]->tag, 0, sizeof w->g->chk->cache[0]->tag); }

static void adversary(wave *w) {
    struct store_queue *q = w->chk->queue;
    u64 *rng = &w->l->chk->rng;
    if (q->n && sim_random(rng) % 8 == 0) {
        perform_in_order(q, (u32)(sim_random(rng) % q->n));
        compact(q);
    }
    if (q->n > QUEUE * 32 - 64) {
        for (u32 i = 0; i < q->n; i++) perform(&q->p[i]);
        q->n = 0;
    }
}

/* Bytes as this wave's compute unit sees them. */
static void read_cached(wave *w, u64 addr, u32 bytes, u8 *to) {
    struct weak_cache *c = w->g->chk->cache[w->index & 1];
    u64 *rng = &w->l->chk->rng;
    for (u32 i = 0; i < bytes;) {
        u64 line = (addr + i) & ~(u64)(LINE - 1);
        u32 in = (u32)(addr + i - line), n = LINE - in < bytes - i ? LINE - in : bytes - i;
        u32 slot = (u32)(line / LINE * 0x9E3779B1u >> 7) % LINES;
        const sim_alloc *a = sim_find(w->l->dev->mem, line, LINE);
        if (!a) { /* a line that is not wholly inside an allocation is not cached */
            memcpy(to + i, (const void *)(uintptr_t)(addr + i), n);
        } else {
            if (c->tag[slot] != line + 1 || sim_random(rng) % 64 == 0) {
                c->tag[slot] = line + 1;
                memcpy(c->data[slot], (const void *)(uintptr_t)line, LINE);
            }
            memcpy(to + i, c->data[slot] + in, n);
        }
        i += n;
    }
}

/* Own stores that have not reached memory, oldest first, over what was read. */
static void forward(const struct store_queue *q, u64 addr, u32 bytes, u8 *to) {
    for (u32 i = 0; i < q->n; i++) {
        const pending *p = &q->p[i];
        if (!p->used || p->addr >= addr + bytes || addr >= p->addr + p->bytes) continue;
        for (u32 k = 0; k < p->bytes; k++)
            if (p->addr + k >= addr && p->addr + k < addr + bytes) to[p->addr + k - addr] = p->data[k];
    }
}

bool sim_weak_access(wave *w, const uop *u, u32 lane, u64 addr, u32 bytes, enum mem_kind kind, u64 *ptr) {
    struct store_queue *q = w->chk->queue;
    if (kind == MEM_ATOMIC) {
        for (u32 i = 0; i < q->n; i++) /* a wave's accesses to one address stay in order */
            if (q->p[i].used && q->p[i].addr < addr + bytes && addr < q->p[i].addr + q->p[i].bytes) perform(&q->p[i]);
        return true;
    }
    if (bytes > 16) return true;
    q->real[lane] = addr;
    if (kind == MEM_READ) {
        if (u->in->scope >= 2) memcpy(q->stage[lane], (const void *)(uintptr_t)addr, bytes);
        else read_cached(w, addr, bytes, q->stage[lane]);
        forward(q, addr, bytes, q->stage[lane]);
    }
    *ptr = (u64)(uintptr_t)q->stage[lane];
    return true;
}

void sim_weak_done(wave *w, const uop *u, u32 bytes, enum mem_kind kind) {
    struct store_queue *q = w->chk->queue;
    if (kind != MEM_WRITE || bytes > 16) return;
    (void)u;
    u32 ticket = w->chk->issued[CNT_STORE] + 1;
    struct weak_cache *c = w->g->chk->cache[w->index & 1];
    FOR_LANES(l, exec_of(w)) {
        /* Flat accesses to LDS or scratch were not staged. */
        if (w->addr[l] != (u64)(uintptr_t)q->stage[l]) continue;
        pending *p = &q->p[q->n++];
        *p = (pending){.addr = q->real[l], .bytes = bytes, .ticket = ticket, .used = true};
        memcpy(p->data, q->stage[l], bytes);
        for (u32 i = 0; i < LINES; i++) { /* the unit's own copy is written too */
            u64 t = c->tag[i] - 1;
            if (c->tag[i] && p->addr >= t && p->addr + bytes <= t + LINE) memcpy(c->data[i] + (p->addr - t), p->data, bytes);
        }
    }
    adversary(w);
}
