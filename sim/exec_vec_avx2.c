/* The vector operations for this level of host instructions. */
#define TABLE sim_ops_vec_avx2
#include "exec_vec.inc"
