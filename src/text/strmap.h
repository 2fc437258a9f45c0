/* A hash map from byte strings to their indices in an array of strings that the caller owns.
 *
 * Keys come from files, so the hash (SipHash-1-3) has a random key: no file can be built to make look-ups slow. Results
 * never depend on that key. */
#ifndef IE_STRMAP_H
#define IE_STRMAP_H

#include "../gguf.h"

typedef struct {
    uint64_t key[2];
    uint32_t *slot; /* index + 1, or 0; open addressing, at most half full */
    uint32_t *hash; /* upper half of the hash of each slot's string */
    size_t mask;    /* slots - 1, slots a power of two */
} ie_strmap;

/* Room for n strings, n < 2^31. */
bool ie_strmap_init(ie_strmap *m, size_t n, ie_error *err);
void ie_strmap_free(ie_strmap *m);
/* Index of a string, -1 if it is not there. all: the array that the indices refer to. */
int32_t ie_strmap_get(const ie_strmap *m, const ie_str *all, const char *s, size_t len);
/* Adds all[index], which must not exceed the room; an equal string's index is replaced. */
void ie_strmap_put(ie_strmap *m, const ie_str *all, uint32_t index);

/* Two random words. */
void ie_random_key(uint64_t key[2]);

#endif
