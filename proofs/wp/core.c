/* What Frama-C reads for the contracts of the core's own functions. */
#include "ie_launch.h"
#include "ie_layout.h"
