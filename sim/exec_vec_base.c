/* The vector operations for this level of host instructions. */
#define TABLE sim_ops_vec_base
#include "exec_vec.inc"
