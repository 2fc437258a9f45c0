/* A reader for the part of MessagePack that kernel metadata uses: maps, arrays, strings, integers, booleans, nil. It walks the
 * bytes in place and never allocates; every step checks the end. */
#ifndef SIM_MSGPACK_H
#define SIM_MSGPACK_H

#include "sim.h"

typedef struct {
    const u8 *p, *end;
} mp_reader;

enum mp_type { MP_BAD, MP_NIL, MP_BOOL, MP_INT, MP_STR, MP_ARRAY, MP_MAP, MP_OTHER };

typedef struct {
    enum mp_type type;
    u64 num;        /* value of MP_INT (two's complement) and MP_BOOL; count of elements or of pairs */
    const char *str; /* MP_STR: num bytes, not terminated */
} mp_value;

/* Reads one value; after MP_ARRAY and MP_MAP its elements follow. MP_BAD at malformed bytes or at the end. */
mp_value mp_next(mp_reader *r);
/* Steps over one value with all it holds; false when malformed or nested deeper than 32. */
bool mp_skip(mp_reader *r);
bool mp_is(const mp_value *v, const char *s);

#endif
