#include "cpu/simd_portable.h"
#define FORMS forms_portable
#include "forms_level.h"
