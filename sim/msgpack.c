#include "msgpack.h"

#include <string.h>

static u64 be(mp_reader *r, u32 n, bool *ok) {
    if ((u64)(r->end - r->p) < n) {
        *ok = false;
        return 0;
    }
    u64 v = 0;
    for (u32 i = 0; i < n; i++) v = v << 8 | *r->p++;
    return v;
}

static mp_value raw(mp_reader *r, enum mp_type t, u64 n) {
    if ((u64)(r->end - r->p) < n) return (mp_value){MP_BAD, 0, NULL};
    mp_value v = {t, n, (const char *)r->p};
    r->p += n;
    return v;
}

/* A count of elements: each takes at least a byte, so larger counts are malformed. */
static mp_value counted(mp_reader *r, enum mp_type t, u64 n, u32 per) {
    if (n * per > (u64)(r->end - r->p)) return (mp_value){MP_BAD, 0, NULL};
    return (mp_value){t, n, NULL};
}

static mp_value signed_int(u64 v, u32 bytes) {
    u32 sh = 64 - 8 * bytes;
    return (mp_value){MP_INT, (u64)((i64)(v << sh) >> sh), NULL};
}

mp_value mp_next(mp_reader *r) {
    const mp_value bad = {MP_BAD, 0, NULL};
    if (r->p >= r->end) return bad;
    u8 c = *r->p++;
    bool ok = true;
    u64 n;
    mp_value v = bad;
    if (c < 0x80) return (mp_value){MP_INT, c, NULL};
    if (c >= 0xE0) return signed_int(c, 1);
    if (c < 0x90) return counted(r, MP_MAP, c & 15u, 2);
    if (c < 0xA0) return counted(r, MP_ARRAY, c & 15u, 1);
    if (c < 0xC0) return raw(r, MP_STR, c & 31u);
    switch (c) {
    case 0xC0: return (mp_value){MP_NIL, 0, NULL};
    case 0xC2:
    case 0xC3: return (mp_value){MP_BOOL, c & 1u, NULL};
    case 0xC4:
    case 0xC5:
    case 0xC6: n = be(r, 1u << (c - 0xC4), &ok); v = raw(r, MP_OTHER, n); break;
    case 0xC7:
    case 0xC8:
    case 0xC9: n = be(r, 1u << (c - 0xC7), &ok); v = raw(r, MP_OTHER, n + 1); break;
    case 0xCA: v = raw(r, MP_OTHER, 4); break;
    case 0xCB: v = raw(r, MP_OTHER, 8); break;
    case 0xCC:
    case 0xCD:
    case 0xCE:
    case 0xCF: n = be(r, 1u << (c - 0xCC), &ok); v = (mp_value){MP_INT, n, NULL}; break;
    case 0xD0:
    case 0xD1:
    case 0xD2:
    case 0xD3: n = be(r, 1u << (c - 0xD0), &ok); v = signed_int(n, 1u << (c - 0xD0)); break;
    case 0xD4:
    case 0xD5:
    case 0xD6:
    case 0xD7:
    case 0xD8: v = raw(r, MP_OTHER, (1u << (c - 0xD4)) + 1); break;
    case 0xD9:
    case 0xDA:
    case 0xDB: n = be(r, 1u << (c - 0xD9), &ok); v = raw(r, MP_STR, n); break;
    case 0xDC:
    case 0xDD: n = be(r, c == 0xDC ? 2 : 4, &ok); v = counted(r, MP_ARRAY, n, 1); break;
    case 0xDE:
    case 0xDF: n = be(r, c == 0xDE ? 2 : 4, &ok); v = counted(r, MP_MAP, n, 2); break;
    default: break;
    }
    return ok ? v : bad;
}

static bool skip(mp_reader *r, u32 depth) {
    if (depth > 32) return false;
    mp_value v = mp_next(r);
    if (v.type == MP_BAD) return false;
    u64 n = v.type == MP_ARRAY ? v.num : v.type == MP_MAP ? 2 * v.num : 0;
    for (u64 i = 0; i < n; i++)
        if (!skip(r, depth + 1)) return false;
    return true;
}

bool mp_skip(mp_reader *r) { return skip(r, 0); }

bool mp_is(const mp_value *v, const char *s) {
    return v->type == MP_STR && v->num == strlen(s) && !memcmp(v->str, s, v->num);
}
