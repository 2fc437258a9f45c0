/* UTF-8, as Unicode 15 table 3-7 defines it (no overlong forms, no surrogates, at most U+10FFFF). */
#ifndef IE_UTF8_H
#define IE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence at s (n >= 1 bytes are readable), 0 if there is none. */
static inline size_t ie_utf8_len(const unsigned char *s, size_t n) {
    if (s[0] < 0x80) return 1;
    size_t len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

/* Code point of the well-formed sequence of len bytes at s. */
static inline uint32_t ie_utf8_cp(const unsigned char *s, size_t len) {
    if (len == 1) return s[0];
    if (len == 2) return (uint32_t)(s[0] & 0x1F) << 6 | (s[1] & 0x3F);
    if (len == 3) return (uint32_t)(s[0] & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 | (s[2] & 0x3F);
    return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3F) << 12 | (uint32_t)(s[2] & 0x3F) << 6 | (s[3] & 0x3F);
}

/* Writes code point cp (at most U+10FFFF) to out, 1 to 4 bytes; returns their number. */
size_t ie_utf8_put(uint32_t cp, unsigned char out[4]);

#endif
