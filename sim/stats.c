/* Figures of a launch. */
#include "check.h"
#include <stdlib.h>
bool sim_stats_launch(launch *l) { (void)l; return true; }
void sim_stats_uop(wave *w, const uop *u) { (void)w; (void)u; }
void sim_stats_access(wave *w, const uop *u, u32 ex, u32 space, u32 bytes) { (void)w; (void)u; (void)ex; (void)space; (void)bytes; }
void sim_stats_wait(wave *w, u32 left) { (void)w; (void)left; }
void sim_stats_end(launch *l) { (void)l; }
