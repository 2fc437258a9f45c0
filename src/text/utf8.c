#include "utf8.h"

#include "tokenizer.h"

size_t ie_utf8_put(uint32_t cp, unsigned char out[4]) {
    if (cp < 0x80) {
        out[0] = (unsigned char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (unsigned char)(0xC0 | cp >> 6);
        out[1] = (unsigned char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (unsigned char)(0xE0 | cp >> 12);
        out[1] = (unsigned char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (unsigned char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (unsigned char)(0xF0 | cp >> 18);
    out[1] = (unsigned char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (unsigned char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (unsigned char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t ie_utf8_complete(const char *text, size_t len) {
    const unsigned char *s = (const unsigned char *)text;
    /* Only a lead byte among the last three can begin a sequence that is cut off. */
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const unsigned char *p = s + len - back;
        if ((p[0] & 0xC0) == 0x80) continue;
        size_t want = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
        if (p[0] < 0xC2 || p[0] > 0xF4 || want <= back) return len;
        /* Fill up with the continuation bytes that would make it well-formed: if even they cannot, it is invalid. */
        unsigned char full[4] = {p[0], 0x80, 0x80, 0x80};
        if (p[0] == 0xE0) full[1] = 0xA0;
        if (p[0] == 0xF0) full[1] = 0x90;
        for (size_t i = 1; i < back; i++) full[i] = p[i];
        return ie_utf8_len(full, want) ? len - back : len;
    }
    return len;
}
