/* Races: two waves touch the same bytes of LDS or device memory, one of them writing, both not atomic, and nothing orders them.
 *
 * What orders: the workgroup's barrier (all its waves), and atomics (a wave that does an atomic on an address is ordered after
 * all that the wave or workgroup that did one there before had done; a device-scope load of such an address counts too). Order
 * is kept as vector clocks: between the waves of a workgroup, and between workgroups. */
#include "check.h"

#include <stdlib.h>

#define MAX_WAVES 32u

/* Who touched a dword last. Stamps are clocks of the wave (in its group) and of the group. */
typedef struct {
    u64 key;            /* address / 4 + 1; LDS: with the group's number in the upper bits */
    u32 w_group, w_wave, w_clock, w_gclock;
    u32 r_group, r_wave, r_clock, r_gclock;
    u8 w_bytes, r_bytes;
    bool r_many;
    bool synced;        /* an atomic took place here: vc and gvc are valid */
    u32 sync;           /* index of the synchronisation's clocks + 1 */
} cell;

typedef struct race_state {
    cell *cells;
    u64 n, cap;
    u32 *sync_waves;    /* [n_sync][MAX_WAVES] clocks of the group's waves; group in sync_group */
    u32 *sync_groups;   /* [n_sync][n_groups] */
    u32 *sync_group;
    u32 n_sync, cap_sync;
    u32 n_groups;
} race_state;

struct race_lds {
    u32 vc[MAX_WAVES][MAX_WAVES]; /* vc[a][b]: the clock of b up to which a is ordered after b */
};

bool sim_race_launch(launch *l) {
    race_state *s = calloc(1, sizeof *s);
    if (!s) return false;
    s->cap = 1 << 16;
    s->cells = calloc(s->cap, sizeof *s->cells);
    s->n_groups = l->n_groups <= 4096 ? l->n_groups : 0; /* too many: workgroups are then never ordered by atomics */
    l->chk->races = s;
    return s->cells != NULL;
}

bool sim_race_group(group *g) {
    const race_state *s = g->waves[0]->l->chk->races;
    g->chk->race = calloc(1, sizeof *g->chk->race);
    g->chk->vc = calloc(s->n_groups + 1u, sizeof *g->chk->vc);
    g->chk->clock = 1;
    for (u32 i = 0; g->chk->race && i < MAX_WAVES; i++) g->chk->race->vc[i][i] = 1;
    return g->chk->race && g->chk->vc;
}

void sim_race_group_end(group *g) {
    free(g->chk->race);
    free(g->chk->vc);
}

void sim_race_end(launch *l) {
    race_state *s = l->chk->races;
    if (!s) return;
    free(s->cells);
    free(s->sync_waves);
    free(s->sync_groups);
    free(s->sync_group);
    free(s);
}

void sim_race_barrier(group *g) {
    u32 top[MAX_WAVES] = {0};
    u32(*vc)[MAX_WAVES] = g->chk->race->vc;
    for (u32 i = 0; i < g->n_waves; i++) top[i] = vc[i][i];
    for (u32 i = 0; i < g->n_waves; i++) {
        memcpy(vc[i], top, sizeof top);
        vc[i][i]++;
    }
}

static cell *cell_of(race_state *s, u64 key) {
    if (s->n * 2 >= s->cap) {
        u64 cap = 2 * s->cap;
        cell *q = calloc(cap, sizeof *q);
        if (!q) return NULL;
        for (u64 i = 0; i < s->cap; i++) {
            if (!s->cells[i].key) continue;
            u64 h = s->cells[i].key * 0x9E3779B97F4A7C15ull >> 20 & (cap - 1);
            while (q[h].key) h = (h + 1) & (cap - 1);
            q[h] = s->cells[i];
        }
        free(s->cells);
        s->cells = q;
        s->cap = cap;
    }
    u64 h = key * 0x9E3779B97F4A7C15ull >> 20 & (s->cap - 1);
    while (s->cells[h].key && s->cells[h].key != key) h = (h + 1) & (s->cap - 1);
    if (!s->cells[h].key) {
        s->cells[h].key = key;
        s->cells[h].w_group = s->cells[h].r_group = ~0u;
        s->n++;
    }
    return &s->cells[h];
}

/* True when an access stamped (group, wave, clock, gclock) comes before what this wave does now. */
static bool before(const wave *w, u32 group_i, u32 wave_i, u32 clock, u32 gclock) {
    if (group_i == ~0u) return true;
    if (group_i == w->g->index) return wave_i == w->index || w->g->chk->race->vc[w->index][wave_i] >= clock;
    const race_state *s = w->l->chk->races;
    return group_i < s->n_groups && w->g->chk->vc[group_i] >= gclock;
}

static void join(u32 *to, const u32 *from, u32 n) {
    for (u32 i = 0; i < n; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

static bool grow_sync(race_state *s) {
    if (s->n_sync < s->cap_sync) return true;
    u32 cap = s->cap_sync ? 2 * s->cap_sync : 64;
    u32 *a = realloc(s->sync_waves, (size_t)cap * MAX_WAVES * 4);
    if (a) s->sync_waves = a;
    u32 *b = realloc(s->sync_groups, (size_t)cap * (s->n_groups + 1u) * 4);
    if (b) s->sync_groups = b;
    u32 *c = realloc(s->sync_group, (size_t)cap * 4);
    if (c) s->sync_group = c;
    if (!a || !b || !c) return false;
    s->cap_sync = cap;
    return true;
}

/* Takes over what the synchronisation at this cell knows; publish: and adds what this wave knows. */
static bool synchronise(wave *w, race_state *s, cell *c, bool publish) {
    group_check *gc = w->g->chk;
    u32 *mine = gc->race->vc[w->index];
    if (!c->sync) {
        if (!publish) return true;
        if (!grow_sync(s)) return false;
        c->sync = ++s->n_sync;
        memset(s->sync_waves + (c->sync - 1) * MAX_WAVES, 0, MAX_WAVES * 4);
        memset(s->sync_groups + (size_t)(c->sync - 1) * (s->n_groups + 1u), 0, 4 * (s->n_groups + 1u));
        s->sync_group[c->sync - 1] = w->g->index;
    }
    u32 *sw = s->sync_waves + (c->sync - 1) * MAX_WAVES, *sg = s->sync_groups + (size_t)(c->sync - 1) * (s->n_groups + 1u);
    if (s->sync_group[c->sync - 1] == w->g->index) join(mine, sw, MAX_WAVES);
    join(gc->vc, sg, s->n_groups);
    if (!publish) return true;
    if (s->sync_group[c->sync - 1] != w->g->index) {
        memset(sw, 0, MAX_WAVES * 4);
        s->sync_group[c->sync - 1] = w->g->index;
    }
    join(sw, mine, MAX_WAVES);
    join(sg, gc->vc, s->n_groups);
    if (w->g->index < s->n_groups && gc->clock > sg[w->g->index]) sg[w->g->index] = gc->clock;
    mine[w->index]++;
    gc->clock++;
    return true;
}

static bool conflict(wave *w, const uop *u, u32 lane, u32 space, u64 addr, const char *now, const char *then, u32 g, u32 wv) {
    if (space == 1)
        sim_fault(w, u, (int)lane, "race: %s of LDS byte %llu, which wave %u %s with no barrier or atomic between", now,
                  (unsigned long long)(addr - (u64)(uintptr_t)w->lds), wv, then);
    else
        sim_fault_addr(w, u, (int)lane, addr, "race: %s of device memory that wave %u of workgroup %u %s with no barrier or atomic between", now,
                       wv, g, then);
    return false;
}

bool sim_race_access(wave *w, const uop *u, u32 lane, u32 space, u64 addr, u32 bytes, enum mem_kind kind) {
    race_state *s = w->l->chk->races;
    group_check *gc = w->g->chk;
    u64 base = space == 1 ? (u64)(w->g->index + 1u) << 40 | (addr - (u64)(uintptr_t)w->lds) : addr;
    for (u64 d = base / 4; d <= (base + bytes - 1) / 4; d++) {
        cell *c = cell_of(s, d + 1);
        if (!c) return true;
        u32 lo = d * 4 < base ? (u32)(base - d * 4) : 0, hi = d * 4 + 4 > base + bytes ? (u32)(base + bytes - d * 4) : 4;
        u8 mask = (u8)(((1u << hi) - 1) & ~((1u << lo) - 1));
        u64 at = addr + (d * 4 + lo - base);
        bool scoped = u->in->scope >= 2 && space == 0;
        if (kind == MEM_ATOMIC || scoped) {
            if (!synchronise(w, s, c, kind != MEM_READ)) return true;
            continue;
        }
        if (kind == MEM_READ && c->sync && !synchronise(w, s, c, false)) return true;
        if (c->w_bytes & mask && !before(w, c->w_group, c->w_wave, c->w_clock, c->w_gclock))
            return conflict(w, u, lane, space, at, kind == MEM_READ ? "load" : "store", "wrote", c->w_group, c->w_wave);
        if (kind == MEM_WRITE && c->r_bytes & mask && !before(w, c->r_group, c->r_wave, c->r_clock, c->r_gclock))
            return conflict(w, u, lane, space, at, "store", "read", c->r_group, c->r_wave);
        u32 clock = gc->race->vc[w->index][w->index];
        if (kind == MEM_WRITE) {
            if (c->w_group != w->g->index || c->w_wave != w->index || c->w_clock != clock) c->w_bytes = 0;
            c->w_bytes |= mask;
            c->w_group = w->g->index;
            c->w_wave = w->index;
            c->w_clock = clock;
            c->w_gclock = gc->clock;
        } else {
            /* One reader is kept: the latest, unless an earlier one is not ordered before it (then the earlier stays). */
            if (!c->r_bytes || before(w, c->r_group, c->r_wave, c->r_clock, c->r_gclock)) {
                c->r_bytes = mask;
                c->r_group = w->g->index;
                c->r_wave = w->index;
                c->r_clock = clock;
                c->r_gclock = gc->clock;
            }
        }
    }
    return true;
}
