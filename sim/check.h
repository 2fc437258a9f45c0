/* The checking modes' state: strict mode (check.c), races (race.c), weak memory (weak.c), figures (stats.c). */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "mem.h"

/* One register range that an instruction reads or writes. */
typedef struct {
    u8 vgpr;   /* 1: VGPRs, 0: scalar slots */
    u8 n;
    u8 addr;   /* part of an address */
    u8 stored; /* goes to memory */
    u16 reg;
} reg_range;

typedef struct {
    reg_range r[9], w[4];
    u8 nr, nw;
    u8 counter;   /* of a load: CNT_* + 1, else 0 */
    u8 counter2;  /* flat loads have two */
    bool store;   /* counts in CNT_STORE */
    bool cross;   /* reads other lanes */
    bool ready;
} inst_info;

typedef struct wave_check {
    u32 vdef[256];              /* lanes of each VGPR that hold a value that was ever written */
    u8 sdef[SLOTS];
    u32 vpend[256], spend[SLOTS]; /* ticket of the load that will write the register, 0 = none */
    u8 vcnt[256];
    u32 issued[CNT_COUNT], retired[CNT_COUNT];
    u32 epoch;                  /* barriers passed */
    u32 global_id;              /* of all waves of the launch */
    u8 *scratch_def;            /* a byte for each dword of scratch of each lane */
    u32 in_def;                 /* of the running instruction: lanes whose sources are all written */
    struct store_queue *queue;  /* weak memory */
    u32 load_bytes[64];         /* of the last 64 loads by ticket (figures) */
    u64 now, load_at[64], ds_at, km_at; /* figures: cycles since the start, those when loads have come */
    u64 loaded;                 /* bytes */
    bool waited;                /* for loads */
    const uop *cur;
} wave_check;

typedef struct group_check {
    u8 *lds_written; /* a bit a byte */
    struct race_lds *race;
    struct weak_cache *cache[2];
    u32 clock;
    u32 *vc; /* race: clock of each other group that this one is ordered after */
} group_check;

typedef struct launch_check {
    bool strict, race, weak, stats, trace;
    inst_info *info; /* by instruction */
    struct race_state *races;
    struct stats *figures;
    u64 rng;
    u64 lds_conflicts;
} launch_check;

/* race.c */
bool sim_race_launch(launch *l);
bool sim_race_group(group *g);
bool sim_race_access(wave *w, const uop *u, u32 lane, u32 space, u64 addr, u32 bytes, enum mem_kind kind);
void sim_race_barrier(group *g);
void sim_race_group_end(group *g);
void sim_race_end(launch *l);

/* weak.c */
bool sim_weak_group(group *g);
bool sim_weak_access(wave *w, const uop *u, u32 lane, u64 addr, u32 bytes, enum mem_kind kind, u64 *ptr);
void sim_weak_done(wave *w, const uop *u, u32 bytes, enum mem_kind kind);
void sim_weak_store_wait(wave *w, u32 left); /* at most `left` stores may stay unseen */
void sim_weak_invalidate(wave *w);
void sim_weak_wave_end(wave *w);
void sim_weak_group_end(group *g);

/* stats.c */
bool sim_stats_launch(launch *l);
void sim_stats_uop(wave *w, const uop *u);
void sim_stats_access(wave *w, const uop *u, u32 lane, u32 space, u64 addr, u32 bytes, enum mem_kind kind);
void sim_stats_wait(wave *w, u32 counter, u32 left); /* at most `left` of a counter's may stay under way */
void sim_stats_barrier(group *g);
void sim_stats_group(launch *l, const group *g);
void sim_stats_end(launch *l);

u64 sim_random(u64 *state);

#endif
