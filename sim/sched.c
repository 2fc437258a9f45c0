/* Launches: arguments and limits, workgroups over host threads, waves in turn.
 *
 * A workgroup belongs to one host thread, which runs its waves one after the other until each ends, waits at the barrier or has
 * used up its quantum. Kernels whose result could depend on the order of workgroups (ordered atomics, device-scope accesses)
 * and cooperative ones run on one thread in a fixed order, so that results never depend on the number of host threads. */
#include <pthread.h>
#include <stdlib.h>

#include "exec.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define QUANTUM 200000u   /* uops of a wave in one turn */
#define COOP_QUANTUM 500u /* the same when all workgroups take turns */
#define PATIENCE 64u      /* turns of an unfinished workgroup before another one is started beside it */

typedef struct worker {
    pthread_t id;
    struct engine *e;
} worker;

/* The device's helper threads; the caller's own thread is the first worker. */
typedef struct engine {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    u32 n_threads, busy;
    u64 job;
    bool quit;
    launch *current;
    worker *workers;
    u64 kernarg, kernarg_cap, packet;
} engine;

/* ---- limits ---- */

u32 sim_waves_per_simd(const sim_kernel *k) {
    u32 v = (k->vgprs + 23) / 24 * 24;
    if (v == 0) v = 24;
    u32 n = SIM_VGPRS_PER_SIMD / v;
    return n > SIM_WAVES_PER_SIMD ? SIM_WAVES_PER_SIMD : n;
}

u32 sim_occupancy(const sim_kernel *k, u32 block_threads, u32 dyn_lds) {
    u32 waves = (block_threads + 31) / 32, lds = (k->lds + dyn_lds + 511) / 512 * 512;
    if (waves == 0 || k->lds + (u64)dyn_lds > SIM_LDS_MAX) return 0;
    u32 n = 4 * sim_waves_per_simd(k) / waves;
    if (lds && SIM_LDS_PER_WGP / lds < n) n = SIM_LDS_PER_WGP / lds;
    return n > 32 ? 32 : n;
}

static enum sim_result check_config(const sim_kernel *k, const sim_launch *c, sim_error *err) {
    u64 threads = 1, groups = 1;
    for (int i = 0; i < 3; i++) {
        if (c->grid[i] == 0 || c->block[i] == 0 || c->block[i] > 1024) {
            sim_fail(err, "kernel %s: grid %u x %u x %u of blocks %u x %u x %u: sizes must be 1 or more, blocks at most 1024", k->name,
                     c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2]);
            return SIM_BAD_CONFIG;
        }
        threads *= c->block[i];
        groups *= c->grid[i];
        if (groups > 0x7FFFFFFFull || (i && c->grid[i] > 65535)) {
            sim_fail(err, "kernel %s: too many workgroups (%u x %u x %u)", k->name, c->grid[0], c->grid[1], c->grid[2]);
            return SIM_BAD_CONFIG;
        }
    }
    u32 max = k->max_threads ? k->max_threads : 1024;
    if (threads > max) {
        sim_fail(err, "kernel %s: %llu threads a workgroup, compiled for at most %u", k->name, (unsigned long long)threads, max);
        return SIM_BAD_CONFIG;
    }
    if ((u64)k->lds + c->dyn_lds > SIM_LDS_MAX) {
        sim_fail(err, "kernel %s: %u + %u bytes of LDS, at most %u", k->name, k->lds, c->dyn_lds, SIM_LDS_MAX);
        return SIM_BAD_CONFIG;
    }
    u32 fit = sim_occupancy(k, (u32)threads, c->dyn_lds) * SIM_WGPS;
    if (c->cooperative && groups > fit) {
        sim_fail(err, "kernel %s: cooperative grid of %llu workgroups, but only %u of them can be resident", k->name,
                 (unsigned long long)groups, fit);
        return SIM_TOO_LARGE;
    }
    return SIM_OK;
}

/* ---- arguments ---- */

static void put_arg(u8 *to, const sim_arg *a, u64 v) { memcpy(to + a->offset, &v, a->size < 8 ? a->size : 8); }

static void hidden_args(const launch *l, u8 *to) {
    const sim_launch *c = l->cfg;
    for (u32 i = 0; i < l->k->n_args; i++) {
        const sim_arg *a = &l->k->args[i];
        switch (a->kind) {
        case SIM_ARG_BLOCK_COUNT_X: put_arg(to, a, c->grid[0]); break;
        case SIM_ARG_BLOCK_COUNT_Y: put_arg(to, a, c->grid[1]); break;
        case SIM_ARG_BLOCK_COUNT_Z: put_arg(to, a, c->grid[2]); break;
        case SIM_ARG_GROUP_SIZE_X: put_arg(to, a, c->block[0]); break;
        case SIM_ARG_GROUP_SIZE_Y: put_arg(to, a, c->block[1]); break;
        case SIM_ARG_GROUP_SIZE_Z: put_arg(to, a, c->block[2]); break;
        case SIM_ARG_GRID_DIMS: put_arg(to, a, c->grid[2] > 1 || c->block[2] > 1 ? 3 : c->grid[1] > 1 || c->block[1] > 1 ? 2 : 1); break;
        case SIM_ARG_PRIVATE_BASE: put_arg(to, a, SIM_PRIVATE_HI); break;
        case SIM_ARG_SHARED_BASE: put_arg(to, a, SIM_SHARED_HI); break;
        case SIM_ARG_DYN_LDS_SIZE: put_arg(to, a, c->dyn_lds); break;
        case SIM_ARG_DYN_LDS: put_arg(to, a, l->k->lds); break;
        case SIM_ARG_VALUE:
        case SIM_ARG_BUFFER: break;
        default: put_arg(to, a, 0); break; /* remainders, offsets, host services: zero */
        }
    }
}

static bool setup_arguments(launch *l, engine *e, const void *kernarg, size_t n) {
    sim_memory *mem = l->dev->mem;
    /* Compilers widen scalar loads of arguments up to the end of the 64-byte line, which the packet processor provides. */
    u64 need = ((u64)l->k->kernarg_size + 63) & ~63ull;
    if (!need) need = 64;
    if (e->kernarg_cap < need) {
        if (e->kernarg) sim_mfree(mem, e->kernarg);
        e->kernarg_cap = 0;
        e->kernarg = sim_malloc(mem, (need + 4095) & ~4095ull, "kernel arguments", l->err);
        if (!e->kernarg) return false;
        e->kernarg_cap = (need + 4095) & ~4095ull;
    }
    sim_resize(mem, e->kernarg, need);
    u8 *to = (u8 *)(uintptr_t)e->kernarg;
    memset(to, 0, need);
    if (n > need) n = need;
    if (n) memcpy(to, kernarg, n);
    hidden_args(l, to);
    sim_mark_written(mem, e->kernarg, need);
    l->kernarg = e->kernarg;
    if (!e->packet) e->packet = sim_malloc(mem, 64, "dispatch packet", l->err);
    if (!e->packet) return false;
    const sim_launch *c = l->cfg;
    struct {
        u16 header, setup, wg[3], pad;
        u32 grid[3], scratch, lds;
        u64 object, args, pad2, signal;
    } p = {0};
    p.setup = 3;
    for (int i = 0; i < 3; i++) {
        p.wg[i] = (u16)c->block[i];
        u64 items = (u64)c->grid[i] * c->block[i];
        p.grid[i] = items > 0xFFFFFFFFu ? 0xFFFFFFFFu : (u32)items;
    }
    p.scratch = l->k->scratch;
    p.lds = l->lds_size;
    p.args = l->kernarg;
    memcpy((void *)(uintptr_t)e->packet, &p, sizeof p);
    sim_mark_written(mem, e->packet, 64);
    l->packet = e->packet;
    return true;
}

/* ---- workgroups ---- */

static size_t scratch_of(const launch *l) {
    size_t s = l->k->scratch;
    if (l->k->dynamic_stack) s += 16384;
    return (s + 15) & ~(size_t)15;
}

static group *new_group(const launch *l) {
    u32 n = l->waves_per_group;
    group *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    size_t wb = l->prog->wave_bytes, sb = 32 * scratch_of(l);
    g->waves = calloc(n, sizeof *g->waves);
    u8 *mem = aligned_alloc(64, (n * (wb + sb) + l->lds_size + 127) & ~(size_t)63);
    if (!g->waves || !mem) {
        free(g->waves);
        free(g);
        free(mem);
        return NULL;
    }
    for (u32 i = 0; i < n; i++) {
        wave *w = g->waves[i] = (wave *)(void *)(mem + i * wb);
        memset(w, 0, wb);
        w->scratch = mem + n * wb + i * sb;
        w->scratch_size = (u32)scratch_of(l);
        if (l->prog->n_pool) memcpy((u8 *)w + l->prog->pool_off, l->prog->pool, 4 * l->prog->n_pool);
    }
    g->n_waves = n;
    g->lds = mem + n * (wb + sb);
    return g;
}

static void free_group(group *g) {
    if (!g) return;
    free(g->waves[0]);
    free(g->waves);
    free(g);
}

/* Poison for registers and LDS at the start: a recognisable NaN. */
#define POISON 0xFFF5A5A5u

static void start_wave(launch *l, group *g, u32 i) {
    wave *w = g->waves[i];
    const sim_kernel *k = l->k;
    for (u32 s = 0; s < 106; s++) w->s[s] = POISON;
    w->s[SLOT_VCC] = w->s[SLOT_VCC + 1] = 0;
    w->s[SLOT_M0] = 0;
    w->s[SLOT_SCC] = 0;
    u32 n = 0, p = k->props;
#define PUT64(v) (sput64(w, (u32)offsetof(wave, s) + 4 * n, (v)), n += 2)
    if (p & 2) PUT64(l->packet);
    if (p & 4) PUT64(0ull);
    if (p & 8) PUT64(l->kernarg);
    if (p & 16) PUT64(l->dev->serial);
    if (p & 64) w->s[n++] = k->scratch;
    for (u32 t = 0; t < 16; t++) w->s[SLOT_TTMP + t] = 0;
    w->s[SLOT_TTMP + 9] = g->id[0];
    w->s[SLOT_TTMP + 7] = g->id[1] | g->id[2] << 16;
    w->s[SLOT_TTMP + 8] = i << 25;
    u32 first = 32 * i, left = l->block_threads - first;
    w->lanes = left >= 32 ? ~0u : (1u << left) - 1;
    w->s[SLOT_EXEC] = w->lanes;
    w->s[SLOT_EXEC + 1] = 0;
    u32 nv = 32 * 8 * ((k->rsrc1 & 63) + 1);
    for (u32 v = 32; v < nv && v < 32 * l->prog->nv; v++) w->v[v] = POISON;
    const u32 *b = l->cfg->block;
    for (u32 lane = 0; lane < 32; lane++) {
        u32 t = first + lane;
        w->v[lane] = t % b[0] | t / b[0] % b[1] << 10 | t / (b[0] * b[1]) % b[2] << 20;
    }
    w->l = l;
    w->g = g;
    w->index = i;
    w->next = sim_uop_at(l->prog, k->entry);
    w->state = W_READY;
    w->bar_signalled = w->bar_complete = false;
    w->lds = g->lds;
    w->lds_size = l->lds_size;
    w->near = NULL;
    w->ran = 0;
    w->chk = NULL;
    w->slow = false;
    sim_set_mode(w, k->rsrc1 >> 12 & 0xFF);
}

static bool start_group(launch *l, group *g, u32 index) {
    const u32 *n = l->cfg->grid;
    g->index = index;
    g->id[0] = index % n[0];
    g->id[1] = index / n[0] % n[1];
    g->id[2] = index / n[0] / n[1];
    g->n_done = g->n_signalled = 0;
    u32 *lds = (u32 *)(void *)g->lds;
    for (u32 i = 0; i < l->lds_size / 4; i++) lds[i] = POISON;
    for (u32 i = 0; i < g->n_waves; i++) start_wave(l, g, i);
    return !l->chk || sim_check_group(g);
}

static void run_fast(wave *w, u64 quantum) {
    const uop *u = w->next;
    u64 n = quantum;
    do u = u->fn(w, u);
    while (u && --n);
    if (u) w->next = u;
    w->ran += quantum - n + (u == NULL);
}

/* One turn for each wave that can run; true when the workgroup is done or the launch has failed. */
static bool turn(launch *l, group *g, u64 quantum) {
    for (u32 i = 0; i < g->n_waves; i++) {
        wave *w = g->waves[i];
        if (w->state != W_READY) continue;
#if defined(__x86_64__)
        _mm_setcsr(w->csr32);
#endif
        u64 before = w->ran;
        if (l->chk) sim_run_checked(w, quantum);
        else run_fast(w, quantum);
        if (l->budget && __atomic_sub_fetch(&l->budget, w->ran - before, __ATOMIC_RELAXED) >> 63) {
            l->budget = 1;
            sim_fault(w, w->next, -1, "the launch ran more instructions than its limit of %llu",
                      (unsigned long long)l->dev->opt.limit);
        }
        if (w->state == W_FAULT || __atomic_load_n(&l->failed, __ATOMIC_ACQUIRE)) return true;
    }
    if (g->n_done == g->n_waves) return true;
    bool ready = false;
    for (u32 i = 0; i < g->n_waves; i++) ready |= g->waves[i]->state == W_READY;
    if (!ready) {
        for (u32 i = 0; i < g->n_waves; i++)
            if (g->waves[i]->state == W_BARRIER) {
                sim_fault(g->waves[i], g->waves[i]->next, -1, "deadlock: the barrier that this wave waits at cannot complete");
                break;
            }
        return true;
    }
    return false;
}

typedef struct {
    group **g;
    u32 n, cap;
    group *spare;
} group_list;

static bool add_group(launch *l, group_list *gl, u32 index) {
    group *g = gl->spare ? gl->spare : new_group(l);
    gl->spare = NULL;
    if (gl->n == gl->cap) {
        u32 cap = gl->cap ? 2 * gl->cap : 8;
        group **q = realloc(gl->g, cap * sizeof(group *));
        if (!q) {
            free_group(g);
            g = NULL;
        } else {
            gl->g = q;
            gl->cap = cap;
        }
    }
    if (!g || !start_group(l, g, index)) {
        free_group(g);
        u32 was = 0;
        if (__atomic_compare_exchange_n(&l->failed, &was, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            sim_fail(l->err, "simulator: out of memory for waves");
        return false;
    }
    gl->g[gl->n++] = g;
    return true;
}

/* Takes workgroups until none is left. At first one at a time; one that does not finish may be waiting for a later one, so
 * others join it, as many as would be resident. */
static void work(launch *l, u32 *next, u32 at_once, u32 most) {
    group_list gl = {0};
    u64 turns = 0;
    u64 quantum = at_once > 1 ? COOP_QUANTUM : QUANTUM;
    bool ok = true;
    for (;;) {
        while (ok && gl.n < at_once) {
            u32 i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
            if (i >= l->n_run) break;
            ok = add_group(l, &gl, (u32)((u64)i * l->n_groups / l->n_run));
        }
        if (!ok || gl.n == 0) break;
        bool ended = false;
        for (u32 i = 0; i < gl.n && !__atomic_load_n(&l->failed, __ATOMIC_ACQUIRE);) {
            group *g = gl.g[i];
            if (!turn(l, g, quantum)) {
                i++;
                continue;
            }
            ended = true;
            if (l->chk) sim_check_group_end(g);
            if (gl.spare) free_group(g);
            else gl.spare = g;
            for (u32 k = i + 1; k < gl.n; k++) gl.g[k - 1] = gl.g[k];
            gl.n--;
        }
        if (__atomic_load_n(&l->failed, __ATOMIC_ACQUIRE)) break;
        if (ended) {
            turns = 0;
            continue;
        }
        if (++turns % PATIENCE == 0 && at_once < most) {
            at_once = at_once * 2 < most ? at_once * 2 : most;
            __atomic_store_n(&l->time_sliced, true, __ATOMIC_RELAXED);
        }
    }
    for (u32 i = 0; i < gl.n; i++) {
        if (l->chk) sim_check_group_end(gl.g[i]);
        free_group(gl.g[i]);
    }
    free_group(gl.spare);
    free(gl.g);
}

/* ---- host threads ---- */

typedef struct {
    launch l;
    u32 next;
} job;

static void run_job(launch *l) {
    job *j = (job *)(void *)l;
#if defined(__x86_64__)
    u32 csr = _mm_getcsr();
#endif
    work(l, &j->next, 1, 64);
#if defined(__x86_64__)
    _mm_setcsr(csr);
#endif
}

static void *helper(void *arg) {
    engine *e = ((worker *)arg)->e;
    u64 seen = 0;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (!e->quit && e->job == seen) pthread_cond_wait(&e->wake, &e->lock);
        if (e->quit) break;
        seen = e->job;
        launch *l = e->current;
        pthread_mutex_unlock(&e->lock);
        run_job(l);
        pthread_mutex_lock(&e->lock);
        if (--e->busy == 0) pthread_cond_signal(&e->idle);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static engine *engine_of(sim_device *d) {
    if (d->exec) return d->exec;
    engine *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    pthread_cond_init(&e->idle, NULL);
    u32 n = d->opt.threads ? d->opt.threads - 1 : 0;
    e->workers = calloc(n + 1, sizeof *e->workers);
    for (u32 i = 0; e->workers && i < n; i++) {
        e->workers[i].e = e;
        if (pthread_create(&e->workers[i].id, NULL, helper, &e->workers[i])) break;
        e->n_threads++;
    }
    d->exec = e;
    return e;
}

void sim_device_close(sim_device *d) {
    sim_figures_close(d);
    engine *e = d->exec;
    if (!e) return;
    pthread_mutex_lock(&e->lock);
    e->quit = true;
    pthread_cond_broadcast(&e->wake);
    pthread_mutex_unlock(&e->lock);
    for (u32 i = 0; i < e->n_threads; i++) pthread_join(e->workers[i].id, NULL);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->wake);
    pthread_cond_destroy(&e->idle);
    free(e->workers);
    if (e->kernarg) sim_mfree(d->mem, e->kernarg);
    if (e->packet) sim_mfree(d->mem, e->packet);
    free(e);
    d->exec = NULL;
}

static void run_on_all(engine *e, launch *l) {
    pthread_mutex_lock(&e->lock);
    e->current = l;
    e->busy = e->n_threads;
    e->job++;
    pthread_cond_broadcast(&e->wake);
    pthread_mutex_unlock(&e->lock);
    run_job(l);
    pthread_mutex_lock(&e->lock);
    while (e->busy) pthread_cond_wait(&e->idle, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

static void run_in_order(launch *l, u32 at_once, u32 most) {
    u32 next = 0;
#if defined(__x86_64__)
    u32 csr = _mm_getcsr();
#endif
    work(l, &next, at_once, most);
#if defined(__x86_64__)
    _mm_setcsr(csr);
#endif
}

enum sim_result sim_run(sim_device *d, sim_module *m, sim_kernel *k, const sim_launch *c, const void *kernarg, size_t n,
                        sim_error *err) {
    enum sim_result r = check_config(k, c, err);
    if (r != SIM_OK) return r;
    if (!m->code) m->code = sim_translate(m, d->opt.level, err);
    engine *e = engine_of(d);
    if (!m->code || !e) {
        sim_fail(err, "simulator: out of memory");
        return SIM_FAULT;
    }
    if (!sim_uop_at(m->code, k->entry)) {
        sim_fail(err, "kernel %s: no instruction starts at its entry point 0x%llx", k->name, (unsigned long long)(k->entry - m->text_lo));
        return SIM_FAULT;
    }
    job j = {.next = 0};
    launch *l = &j.l;
    l->dev = d;
    l->mod = m;
    l->k = k;
    l->prog = m->code;
    l->cfg = c;
    l->err = err;
    l->n_groups = c->grid[0] * c->grid[1] * c->grid[2];
    l->block_threads = c->block[0] * c->block[1] * c->block[2];
    l->n_run = d->opt.stats && d->opt.sample && d->opt.sample < l->n_groups ? d->opt.sample : l->n_groups;
    l->waves_per_group = (l->block_threads + 31) / 32;
    l->lds_size = (k->lds + c->dyn_lds + 3) & ~3u;
    l->budget = d->opt.limit;
    d->serial++;
    if (!setup_arguments(l, e, kernarg, n) || !sim_check_launch(l)) return SIM_FAULT;
    u32 resident = sim_occupancy(k, l->block_threads, c->dyn_lds) * SIM_WGPS;
    if (resident == 0) resident = 1;
    if (c->cooperative) {
        l->time_sliced = true;
        run_in_order(l, l->n_groups, l->n_groups);
    } else if (l->chk || l->prog->ordered || e->n_threads == 0 || l->n_groups < 2) {
        run_in_order(l, 1, resident);
    } else {
        run_on_all(e, l);
    }
    if (l->chk) sim_check_launch_end(l);
    return l->failed ? SIM_FAULT : SIM_OK;
}
