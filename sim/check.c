/* Stub of the checking modes. */
#include "mem.h"
bool sim_check_launch(launch *l) { (void)l; return true; }
bool sim_check_group(group *g) { (void)g; return true; }
void sim_check_group_end(group *g) { (void)g; }
void sim_check_launch_end(launch *l) { (void)l; }
void sim_run_checked(wave *w, u64 quantum) { (void)w; (void)quantum; }
bool sim_inactive_read(const wave *w, int lane) { (void)w; (void)lane; return false; }
bool sim_lane_written(const wave *w, const uop *u, int lane) { (void)w; (void)u; (void)lane; return true; }
bool sim_check_access(wave *w, const uop *u, u32 lane, u32 space, u64 addr, u32 bytes, enum mem_kind kind, u64 *ptr) { (void)w; (void)u; (void)lane; (void)space; (void)addr; (void)bytes; (void)kind; (void)ptr; return true; }
void sim_check_done(wave *w, const uop *u, u32 bytes, enum mem_kind kind) { (void)w; (void)u; (void)bytes; (void)kind; }
