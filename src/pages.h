/* The pool of KV pages of a context, and the prefixes that are kept in it.
 *
 * A page belongs to every sequence whose table names it and, while it is *kept*, to the cache: it is free when no one is left.
 * Kept pages form a tree: a page's key is the page before it and its own 32 tokens, so equal beginnings of token lists are
 * one path. A kept page may carry a recurrent state: that of a sequence standing behind its last position. When pages (or bytes
 * for states) run out, what was used least recently and by no sequence goes first, leaves before their parents. */
#ifndef IE_PAGES_H
#define IE_PAGES_H

#include "base.h"
#include "ie_core.h"

#define IE_NO_PAGE UINT32_MAX

typedef struct ie_pages ie_pages;

ie_pages *ie_pages_new(uint32_t n, uint64_t state_budget, ie_error *err);
void ie_pages_free(ie_pages *p); /* NULL is allowed */

uint32_t ie_pages_total(const ie_pages *p);
uint32_t ie_pages_free_count(const ie_pages *p);
uint32_t ie_pages_kept(const ie_pages *p);
/* Pages that ie_pages_take can give: free ones, and kept ones that no sequence uses. */
uint32_t ie_pages_available(const ie_pages *p);
/* A page with one user; IE_NO_PAGE when none is available. */
uint32_t ie_pages_take(ie_pages *p);
void ie_pages_ref(ie_pages *p, uint32_t page);
void ie_pages_unref(ie_pages *p, uint32_t page);
bool ie_pages_shared(const ie_pages *p, uint32_t page); /* others than one sequence need its content */

/* The kept page of these IE_PAGE tokens behind parent (IE_NO_PAGE: at the beginning), or IE_NO_PAGE. */
uint32_t ie_pages_find(const ie_pages *p, uint32_t parent, const int32_t *tokens);
/* Keeps a page that a sequence uses and that is not kept yet; parent is kept or IE_NO_PAGE, the key is new. */
void ie_pages_keep(ie_pages *p, uint32_t page, uint32_t parent, const int32_t *tokens);
/* Marks a path as used now: call once for each of its pages with the same stamp, from ie_pages_stamp. */
uint64_t ie_pages_stamp(ie_pages *p);
void ie_pages_touch(ie_pages *p, uint32_t page, uint64_t stamp);

/* A kept page's parent, its IE_PAGE tokens, and when it was used last (greater is later); false for pages that are not kept. */
bool ie_pages_get(const ie_pages *p, uint32_t page, uint32_t *parent, const int32_t **tokens, uint64_t *stamp);
/* Takes a kept page, and what hangs below it, out of the cache. */
void ie_pages_drop(ie_pages *p, uint32_t page);

/* State of a kept page: bytes owned by the pool, NULL if there is none. */
const void *ie_pages_state(const ie_pages *p, uint32_t page);
/* Room for a state of n bytes at a kept page (which has none), to be filled by the caller; NULL when the budget is too small or memory is out. */
void *ie_pages_state_new(ie_pages *p, uint32_t page, uint64_t n);
void ie_pages_state_drop(ie_pages *p, uint32_t page);
uint32_t ie_pages_states(const ie_pages *p, uint64_t *bytes);
uint64_t ie_pages_state_budget(const ie_pages *p);

#endif
