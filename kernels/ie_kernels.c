/* All kernels of a code object. */
#include "attn.c"
#include "gdn.c"
#include "gemv.c"
#include "gemv_mma.c"
#include "gemv_stream.c"
#include "read.c"
#include "rows.c"
#include "sample.c"
