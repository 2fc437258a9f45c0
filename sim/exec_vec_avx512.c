/* The vector operations for this level of host instructions. */
#define TABLE sim_ops_vec_avx512
#include "exec_vec.inc"
