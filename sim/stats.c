/* Figures of launches, summed by kernel: instructions by class, memory traffic, LDS conflicts, loads in flight, and a lower bound on
 * the time from issue, LDS and memory. They count what the code asks for; caches and latencies are not modelled. */
#include <stdlib.h>

#include "check.h"

/* An R9700: 128 SIMDs, 32 WGPs, at 2.92 GHz; 640 GB/s. LDS: 64 banks of 4 bytes a WGP and cycle. */
#define HZ 2.92e9
#define BYTES_PER_S 640e9
#define SIMDS 128.0
#define BANKS 64u

/* Cycles until an answer, of a wave that has the card for itself (docs/PERFORMANCE.md says where they are from): lines that an earlier launch or
 * wave has touched come from L2, others from memory. A wait for the vector unit (s_delay_alu) is that for the result before. */
#define WAIT_L2 350u
#define WAIT_MEMORY 660u
#define WAIT_LDS 80u
#define WAIT_VALU 4u

typedef struct {
    u64 *t, n, cap; /* hash set of line number + 1 */
} line_set;

typedef struct {
    u64 n[CLS_COUNT];
    u64 launches, groups, waves;
    u64 load_bytes, store_bytes, atomic_bytes;
    u64 load_lines, store_lines; /* 128-byte lines, counted for each instruction */
    u64 distinct_lines;          /* counted once a launch */
    u64 fresh_lines;             /* of these, loaded and never touched by an earlier launch */
    u64 written_lines;           /* stored to, counted once a launch */
    u64 lds_cycles, lds_conflicts;
    u64 waits, flight_bytes, flight_max; /* waits that found loads under way; their bytes */
    u64 first_bytes, loading_waves; /* under way at each wave's first wait for loads; waves that load */
    u64 short_waves;             /* of these, with less than half of what the busiest wave of the launch loads */
    u64 simd_cycles;             /* VALU, transcendental and matrix issue, which share a SIMD */
    /* Largest of the launches: */
    u64 alone_cycles;            /* of the slowest wave, if loads took their latency and nothing else */
    u64 resident_waves;          /* that the card holds at a time */
} figures;

typedef struct stats {
    figures f;
    line_set lines, written;
    u64 *loaded, n_loaded, cap_loaded; /* bytes that each wave has loaded */
    /* The instruction whose lanes are being collected. */
    const uop *u;
    wave *w;
    u64 addr[2 * SIM_LANES];
    u32 n, bytes, space, last_lane;
    enum mem_kind kind;
} stats;

typedef struct entry {
    struct entry *next;
    char name[128];
    u32 vgprs, lds, waves_per_simd;
    figures f;
} entry;

#define KEPT 16u /* launches whose figures can be asked for */

struct sim_figures {
    entry *first, **last;
    entry kept[KEPT]; /* of launch i at i mod KEPT */
    u64 n;
    line_set seen; /* by all launches */
};

static bool line_set_new(line_set *s) {
    *s = (line_set){.cap = 1 << 12};
    s->t = calloc(s->cap, sizeof *s->t);
    return s->t != NULL;
}

static u64 *line_slot(u64 *t, u64 cap, u64 key) {
    u64 h = key * 0x9E3779B97F4A7C15ull >> 16 & (cap - 1);
    while (t[h] && t[h] != key) h = (h + 1) & (cap - 1);
    return &t[h];
}
static bool has_line(const line_set *s, u64 line) { return s->t && *line_slot(s->t, s->cap, line + 1) != 0; }
/* True when the line is new. */
static bool add_line(line_set *s, u64 line) {
    if (2 * s->n >= s->cap) {
        u64 *q = calloc(2 * s->cap, sizeof *q);
        if (!q) return false;
        for (u64 i = 0; i < s->cap; i++)
            if (s->t[i]) *line_slot(q, 2 * s->cap, s->t[i]) = s->t[i];
        free(s->t);
        s->t = q;
        s->cap *= 2;
    }
    u64 *p = line_slot(s->t, s->cap, line + 1);
    if (*p) return false;
    *p = line + 1;
    s->n++;
    return true;
}

bool sim_stats_launch(launch *l) {
    stats *s = calloc(1, sizeof *s);
    if (!s) return false;
    l->chk->figures = s;
    s->f.launches = 1;
    s->f.resident_waves = (u64)sim_occupancy(l->k, l->block_threads, l->cfg->dyn_lds) * SIM_WGPS;
    if (s->f.resident_waves > l->n_groups) s->f.resident_waves = l->n_groups;
    s->f.resident_waves *= l->waves_per_group;
    sim_device *d = l->dev;
    if (!d->figures) {
        d->figures = calloc(1, sizeof *d->figures);
        if (!d->figures) return false;
        d->figures->last = &d->figures->first;
        if (!line_set_new(&d->figures->seen)) return false;
    }
    return line_set_new(&s->lines) && line_set_new(&s->written);
}

void sim_stats_group(launch *l, const group *g) {
    l->chk->figures->f.groups++;
    l->chk->figures->f.waves += g->n_waves;
}

static int cmp_u64(const void *a, const void *b) {
    u64 x = *(const u64 *)a, y = *(const u64 *)b;
    return x < y ? -1 : x > y;
}

/* The loads of an instruction: when the wave may have what they bring. */
static void answer(wave *w, u32 counter, u32 wait) {
    wave_check *k = w->chk;
    u64 at = k->now + wait;
    if (counter == CNT_LOAD) k->load_at[k->issued[CNT_LOAD] % 64] = at;
    else if (counter == CNT_DS) k->ds_at = at;
    else if (at > k->km_at) k->km_at = at;
}

static void flush_global(stats *s, wave *w) {
    u64 lines[4 * SIM_LANES];
    u32 n = 0;
    for (u32 i = 0; i < s->n; i++)
        for (u64 x = s->addr[i] / 128; x <= (s->addr[i] + s->bytes - 1) / 128 && n < 4 * SIM_LANES; x++) lines[n++] = x;
    qsort(lines, n, sizeof *lines, cmp_u64);
    u64 distinct = 0;
    bool from_memory = false;
    for (u32 i = 0; i < n; i++) {
        if (i && lines[i] == lines[i - 1]) continue;
        distinct++;
        if (s->kind == MEM_WRITE) add_line(&s->written, lines[i]);
        if (!add_line(&s->lines, lines[i]) || s->kind == MEM_WRITE || has_line(&w->l->dev->figures->seen, lines[i])) continue;
        s->f.fresh_lines++;
        from_memory = true;
    }
    u64 bytes = (u64)s->n * s->bytes;
    if (s->kind == MEM_READ) {
        s->f.load_bytes += bytes;
        s->f.load_lines += distinct;
        w->chk->loaded += bytes;
    } else if (s->kind == MEM_WRITE) {
        s->f.store_bytes += bytes;
        s->f.store_lines += distinct;
    } else {
        s->f.atomic_bytes += bytes;
    }
    if (s->kind != MEM_WRITE) answer(w, CNT_LOAD, from_memory ? WAIT_MEMORY : WAIT_L2);
}

/* Cycles that the banks need: the most distinct dwords of one bank; against what the same dwords need when spread evenly. */
static void flush_lds(stats *s) {
    u64 dw[8 * SIM_LANES];
    u32 n = 0, bank[BANKS] = {0}, distinct = 0, most = 0;
    for (u32 i = 0; i < s->n; i++)
        for (u64 x = s->addr[i] / 4; x <= (s->addr[i] + s->bytes - 1) / 4 && n < 8 * SIM_LANES; x++) dw[n++] = x;
    qsort(dw, n, sizeof *dw, cmp_u64);
    for (u32 i = 0; i < n; i++) {
        if (i && dw[i] == dw[i - 1]) continue;
        distinct++;
        u32 c = ++bank[dw[i] % BANKS];
        if (c > most) most = c;
    }
    u32 ideal = (distinct + BANKS - 1) / BANKS;
    s->f.lds_cycles += most;
    s->f.lds_conflicts += most - ideal;
}

static void flush(stats *s) {
    if (s->n && s->space == 0) flush_global(s, s->w);
    if (s->n && s->space == 1) flush_lds(s), answer(s->w, CNT_DS, WAIT_LDS);
    s->n = 0;
}

/* Cycles of a SIMD: matrix instructions 16 (16-bit) or 8, transcendental ones 4, f64 at 1/32 of the rate, others 1. */
static u32 simd_cycles(const uop *u) {
    const char *n = sim_op_name(u->in->op);
    if (u->cls == CLS_WMMA) return strstr(n, "f16_16") || strstr(n, "_f16") || strstr(n, "bf16") ? 16 : 8;
    if (u->cls == CLS_TRANS) return 4;
    if (u->cls == CLS_VALU && strstr(n, "_f64") && !strstr(n, "cvt_f32")) return 32;
    return u->cls == CLS_VALU || u->cls == CLS_DOT ? 1 : 0;
}

/* A wave ends: what it has loaded, and how long it would take alone. */
static void wave_ends(stats *s, const wave_check *k) {
    if (k->now > s->f.alone_cycles) s->f.alone_cycles = k->now;
    if (!k->loaded) return;
    if (s->n_loaded == s->cap_loaded) {
        u64 cap = s->cap_loaded ? 2 * s->cap_loaded : 64, *q = realloc(s->loaded, cap * sizeof *q);
        if (!q) return;
        s->loaded = q;
        s->cap_loaded = cap;
    }
    s->loaded[s->n_loaded++] = k->loaded;
}

void sim_stats_uop(wave *w, const uop *u) {
    stats *s = w->l->chk->figures;
    flush(s);
    s->u = u;
    s->w = w;
    s->f.n[u->cls]++;
    u32 cycles = simd_cycles(u);
    s->f.simd_cycles += cycles;
    w->chk->now += u->in->op == SIM_OP_S_DELAY_ALU ? WAIT_VALU : cycles ? cycles : 1;
    if (u->cls == CLS_SMEM) answer(w, CNT_KM, WAIT_L2);
    if (u->cls == CLS_VMEM_LOAD) w->chk->load_bytes[(w->chk->issued[CNT_LOAD] + 1) % 64] = 0;
    if (u->in->op == SIM_OP_S_ENDPGM) wave_ends(s, w->chk);
}

void sim_stats_access(wave *w, const uop *u, u32 lane, u32 space, u64 addr, u32 bytes, enum mem_kind kind) {
    stats *s = w->l->chk->figures;
    (void)u;
    /* The second half of a two-address form starts again at a low lane. */
    if (s->n == 2 * SIM_LANES || (s->n && (s->space != space || s->bytes != bytes || lane <= s->last_lane))) flush(s);
    s->last_lane = lane;
    s->space = space;
    s->bytes = bytes;
    s->kind = kind;
    s->addr[s->n++] = space == 1 ? addr - (u64)(uintptr_t)w->lds : addr;
    if (space == 0 && kind == MEM_READ) w->chk->load_bytes[(w->chk->issued[CNT_LOAD] + 1) % 64] += bytes;
}

void sim_stats_wait(wave *w, u32 counter, u32 left) {
    wave_check *k = w->chk;
    figures *f = &w->l->chk->figures->f;
    flush(w->l->chk->figures);
    u32 out = k->issued[counter] - k->retired[counter];
    if (out <= left) return;
    u64 at = counter == CNT_LOAD ? k->load_at[(k->issued[CNT_LOAD] - left) % 64] : counter == CNT_DS ? k->ds_at : counter == CNT_KM ? k->km_at : 0;
    if (at > k->now) k->now = at;
    if (counter != CNT_LOAD) return;
    u64 bytes = 0;
    for (u32 i = 0; i < out && i < 64; i++) bytes += k->load_bytes[(k->issued[CNT_LOAD] - i) % 64];
    if (!k->waited) f->first_bytes += bytes;
    k->waited = true;
    f->waits++;
    f->flight_bytes += bytes;
    if (bytes > f->flight_max) f->flight_max = bytes;
}

void sim_stats_barrier(group *g) {
    u64 last = 0;
    for (u32 i = 0; i < g->n_waves; i++)
        if (g->waves[i]->chk && g->waves[i]->chk->now > last) last = g->waves[i]->chk->now;
    for (u32 i = 0; i < g->n_waves; i++)
        if (g->waves[i]->chk) g->waves[i]->chk->now = last;
}

static u64 larger(u64 a, u64 b) { return a > b ? a : b; }
static void add(figures *a, const figures *b) {
    u64 flight = larger(a->flight_max, b->flight_max), alone = larger(a->alone_cycles, b->alone_cycles), waves = larger(a->resident_waves, b->resident_waves);
    for (size_t i = 0; i < sizeof *a / sizeof(u64); i++) ((u64 *)(void *)a)[i] += ((const u64 *)(const void *)b)[i];
    a->flight_max = flight, a->alone_cycles = alone, a->resident_waves = waves;
}

/* Figures of a launch of which only some workgroups ran. */
static void scale(figures *f, u64 ran, u64 all) {
    figures g = *f;
    for (size_t i = 0; i < sizeof *f / sizeof(u64); i++) {
        u64 *v = (u64 *)(void *)f + i;
        *v = (u64)((double)*v * (double)all / (double)ran + 0.5);
    }
    f->launches = g.launches, f->flight_max = g.flight_max, f->alone_cycles = g.alone_cycles, f->resident_waves = g.resident_waves;
}

static void name_entry(entry *e, const launch *l) {
    snprintf(e->name, sizeof e->name, "%s", l->k->name);
    e->vgprs = l->k->vgprs;
    e->lds = l->lds_size;
    e->waves_per_simd = sim_waves_per_simd(l->k);
}

void sim_stats_end(launch *l) {
    stats *s = l->chk->figures;
    struct sim_figures *all = l->dev->figures;
    flush(s);
    u64 most = 0;
    for (u64 i = 0; i < s->n_loaded; i++) most = larger(most, s->loaded[i]);
    for (u64 i = 0; i < s->n_loaded; i++) s->f.short_waves += 2 * s->loaded[i] < most;
    s->f.loading_waves = s->n_loaded;
    s->f.distinct_lines = s->lines.n;
    s->f.written_lines = s->written.n;
    if (s->f.groups && s->f.groups < l->n_groups && !l->failed) scale(&s->f, s->f.groups, l->n_groups);
    for (u64 i = 0; all && i < s->lines.cap; i++)
        if (s->lines.t && s->lines.t[i]) add_line(&all->seen, s->lines.t[i] - 1);
    if (all) {
        entry *e = all->first;
        entry *now = &all->kept[all->n++ % KEPT];
        *now = (entry){.f = s->f};
        name_entry(now, l);
        while (e && strcmp(e->name, now->name)) e = e->next;
        if (!e && (e = calloc(1, sizeof *e))) {
            name_entry(e, l);
            *all->last = e;
            all->last = &e->next;
        }
        if (e) add(&e->f, &s->f);
    }
    free(s->lines.t);
    free(s->written.t);
    free(s->loaded);
    free(s);
    l->chk->figures = NULL;
}

/* ---- output ---- */

typedef struct {
    const char *name;
    double v;
} field;

static u32 fields(const entry *e, field *out) {
    const figures *f = &e->f;
    u64 all = 0;
    for (u32 i = 0; i < CLS_COUNT; i++) all += f->n[i];
    double issue = (double)f->simd_cycles / SIMDS / HZ, lds = (double)f->lds_cycles / SIM_WGPS / HZ;
    double mem = (double)f->distinct_lines * 128 / BYTES_PER_S;
    double bound = issue > lds ? issue : lds;
    if (mem > bound) bound = mem;
    field t[] = {
        {"launches", (double)f->launches}, {"workgroups", (double)f->groups}, {"waves", (double)f->waves}, {"instructions", (double)all},
        {"salu", (double)f->n[CLS_SALU]}, {"smem", (double)f->n[CLS_SMEM]}, {"branch", (double)f->n[CLS_BRANCH]},
        {"valu", (double)f->n[CLS_VALU]}, {"transcendental", (double)f->n[CLS_TRANS]}, {"dot", (double)f->n[CLS_DOT]},
        {"wmma", (double)f->n[CLS_WMMA]}, {"lds", (double)f->n[CLS_LDS]}, {"load", (double)f->n[CLS_VMEM_LOAD]},
        {"store", (double)f->n[CLS_VMEM_STORE]}, {"atomic", (double)f->n[CLS_ATOMIC]}, {"barrier", (double)f->n[CLS_BARRIER]},
        {"wait", (double)f->n[CLS_WAIT]}, {"other", (double)f->n[CLS_OTHER]}, {"load_bytes", (double)f->load_bytes},
        {"store_bytes", (double)f->store_bytes}, {"atomic_bytes", (double)f->atomic_bytes}, {"load_lines", (double)f->load_lines},
        {"store_lines", (double)f->store_lines}, {"distinct_lines", (double)f->distinct_lines},
        {"lds_cycles", (double)f->lds_cycles}, {"lds_conflict_cycles", (double)f->lds_conflicts}, {"load_waits", (double)f->waits},
        {"fresh_lines", (double)f->fresh_lines}, {"written_lines", (double)f->written_lines},
        {"bytes_before_wait", f->loading_waves ? (double)(f->first_bytes / f->loading_waves) : 0},
        {"loading_waves", (double)f->loading_waves}, {"short_waves", (double)f->short_waves}, {"resident_waves", (double)f->resident_waves},
        {"bytes_in_flight", f->waits ? (double)(f->flight_bytes / f->waits) : 0}, {"bytes_in_flight_max", (double)f->flight_max},
        {"vgprs", e->vgprs}, {"lds_bytes", e->lds}, {"waves_per_simd", e->waves_per_simd}, {"issue_us", 1e6 * issue},
        {"lds_us", 1e6 * lds}, {"memory_us", 1e6 * mem}, {"bound_us", 1e6 * bound}, {"alone_us", 1e6 * (double)f->alone_cycles / HZ},
    };
    memcpy(out, t, sizeof t);
    return sizeof t / sizeof *t;
}

static const entry *kept(const sim_device *d, u32 back) {
    const struct sim_figures *s = d->figures;
    return s && back < s->n && back < KEPT ? &s->kept[(s->n - 1u - back) % KEPT] : NULL;
}
u64 sim_figures_n(const sim_device *d) { return d->figures ? d->figures->n : 0; }
const char *sim_figures_kernel(const sim_device *d, u32 back) { return kept(d, back) ? kept(d, back)->name : NULL; }
double sim_figure(const sim_device *d, const char *name, u32 back) {
    const entry *e = kept(d, back);
    field t[64];
    u32 n = e ? fields(e, t) : 0;
    for (u32 i = 0; i < n; i++)
        if (!strcmp(t[i].name, name)) return t[i].v;
    return -1;
}

static void write_text(FILE *o, const entry *e, const field *t, u32 n) {
    fprintf(o, "simulator: kernel %s: %.0f wave instructions\n ", e->name, t[3].v);
    for (u32 i = 0; i < n; i++)
        if (t[i].v != 0) fprintf(o, " %s=%.10g", t[i].name, t[i].v);
    fprintf(o, "\n");
}

static void write_all(FILE *o, const entry *first, char how) {
    field t[64];
    if (how == 'j') fprintf(o, "[");
    for (const entry *e = first; e; e = e->next) {
        u32 n = fields(e, t);
        if (how == 't') {
            write_text(o, e, t, n);
            continue;
        }
        if (how == 'c' && e == first) {
            fprintf(o, "kernel");
            for (u32 i = 0; i < n; i++) fprintf(o, ",%s", t[i].name);
            fprintf(o, "\n");
        }
        if (how == 'j') fprintf(o, "%s\n{\"kernel\": \"%s\"", e == first ? "" : ",", e->name);
        else fprintf(o, "%s", e->name);
        for (u32 i = 0; i < n; i++) {
            if (how == 'j') fprintf(o, ", \"%s\": %.10g", t[i].name, t[i].v);
            else fprintf(o, ",%.10g", t[i].v);
        }
        fprintf(o, how == 'j' ? "}" : "\n");
    }
    if (how == 'j') fprintf(o, "\n]\n");
}

void sim_figures_close(sim_device *d) {
    if (!d->figures) return;
    const char *to = d->opt.stats ? d->opt.stats : "1";
    size_t n = strlen(to);
    char how = n > 4 && !strcmp(to + n - 4, ".csv") ? 'c' : n > 5 && !strcmp(to + n - 5, ".json") ? 'j' : 't';
    FILE *o = how == 't' ? stderr : fopen(to, "w");
    if (o && *to) write_all(o, d->figures->first, how);
    if (!o) fprintf(stderr, "simulator: figures cannot be written to %s\n", to);
    if (o && o != stderr) fclose(o);
    while (d->figures->first) {
        entry *e = d->figures->first;
        d->figures->first = e->next;
        free(e);
    }
    free(d->figures->seen.t);
    free(d->figures);
    d->figures = NULL;
}
