/* Addresses of memory operations. sim_mem_prep turns the operands of a global, flat, scratch or DS instruction into one host
 * pointer a lane (wave.addr), after the checks; the operation itself is then the same for all spaces. */
#ifndef SIM_MEM_H
#define SIM_MEM_H

#include "exec.h"

enum mem_kind { MEM_READ, MEM_WRITE, MEM_ATOMIC };

/* False after a fault. Lanes off have no pointer. */
bool sim_mem_prep(wave *w, const uop *u, u32 bytes, enum mem_kind kind);
/* The same for a DS instruction with the byte offset given apart from the instruction. */
bool sim_lds_prep(wave *w, const uop *u, u32 offset, u32 bytes, enum mem_kind kind);
/* After the operation has written through the pointers; does nothing but in the checking modes. */
void sim_mem_done(wave *w, const uop *u, u32 bytes, enum mem_kind kind);

/* check.c: the checking path. space: 0 global, 1 LDS, 2 scratch. May replace *ptr. */
bool sim_check_access(wave *w, const uop *u, u32 lane, u32 space, u64 addr, u32 bytes, enum mem_kind kind, u64 *ptr);
void sim_check_done(wave *w, const uop *u, u32 bytes, enum mem_kind kind);

#define LANE_PTR(l) ((void *)(uintptr_t)w->addr[l])

#endif
