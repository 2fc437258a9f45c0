/* Source lines from DWARF .debug_line, versions 4 and 5. */
#include <stdlib.h>

#include "sim.h"
bool sim_line_at(const struct sim_lines *l, u64 link_addr, const char **file, u32 *line) { (void)l; (void)link_addr; (void)file; (void)line; return false; }
struct sim_lines *sim_lines_read(const u8 *sec, u64 size, const u8 *str, u64 str_size, const u8 *line_str, u64 line_str_size) { (void)sec; (void)size; (void)str; (void)str_size; (void)line_str; (void)line_str_size; return NULL; }
void sim_lines_free(struct sim_lines *l) { (void)l; }
