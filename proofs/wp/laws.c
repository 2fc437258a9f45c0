/* What Frama-C reads: the core and the laws, with the contracts written beside their functions. */
#include "ie_laws_bits.h"
#include "ie_laws_layout.h"
