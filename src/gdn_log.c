#include "gdn_log.h"

#include <stdlib.h>

ie_status ie_gdn_shape_check(const ie_gdn_shape *s, ie_error *err) {
    if (!s->hd || s->hd % 32u || s->hd > IE_GDN_MAX_HD || !s->n_k || !s->n_v || s->n_v % s->n_k || ie_gdn_channels(s) > IE_MAX_K)
        return ie_fail(err, IE_E_UNSUPPORTED, "recurrent layers: %u value heads for %u key heads of size %u", s->n_v, s->n_k, s->hd);
    return IE_OK;
}

ie_status ie_gdn_log_new(ie_gdn_log *g, uint32_t n_seq, ie_error *err) {
    g->n_seq = n_seq;
    g->at = ie_calloc(n_seq, sizeof *g->at, "recurrent state", err);
    return g->at ? IE_OK : IE_E_NOMEM;
}

void ie_gdn_log_free(ie_gdn_log *g) {
    free(g->at);
    g->at = NULL;
}

static bool is_gdn(const ie_op *op) { return op->kind == OP_CONV || op->kind == OP_GDN; }

static ie_status find_blocks(ie_gdn_log *g, const ie_step *s, ie_error *err) {
    for (uint32_t t = 0, n; t < s->n; t += n) {
        for (n = 1; t + n < s->n && s->seq[t + n] == s->seq[t];) n++;
        uint32_t seq = (uint32_t)s->seq[t], pos = (uint32_t)s->pos[t];
        ie_gdn_place at = pos ? g->at[seq] : (ie_gdn_place){0, 0};
        if (pos < at.base || pos > at.end)
            return ie_fail(err, IE_E_ARG, "sequence %u: position %u; its recurrent state can go on from %u to %u", seq, pos, at.base, at.end);
        if (pos > at.base) g->n_replay = g->n_block + 1u;
        g->block[g->n_block++] = (ie_gdn_block){seq, t, n, pos, at.base, ie_log_next(at.base, pos, n, s->phase != IE_PREFILL)};
    }
    return IE_OK;
}

ie_status ie_gdn_log_prepare(ie_gdn_log *g, const ie_oplist *l, uint32_t first, uint32_t last, const ie_step *s, ie_error *err) {
    g->n_block = g->n_replay = 0;
    g->last = false;
    uint32_t op0 = l->n, op1 = 0;
    for (uint32_t i = 0; i < l->n; i++)
        if (is_gdn(&l->ops[i])) op1 = i, op0 = op0 < i ? op0 : i;
    if (op0 >= last || op1 < first) return IE_OK;
    g->last = op1 < last;
    if (op0 >= first) g->open = false;
    else if (!g->open) return ie_fail(err, IE_E_ARG, "list '%s': recurrent layers can only run from the first on", l->name ? l->name : "");
    return find_blocks(g, s, err);
}

void ie_gdn_log_commit(ie_gdn_log *g, bool ok) {
    if (!g->n_block) return;
    g->open = ok && !g->last;
    for (uint32_t b = 0; b < g->n_block && !g->open; b++) {
        const ie_gdn_block *k = &g->block[b];
        /* After a failure some layers have moved on: the sequence has to begin anew. */
        g->at[k->seq] = ok ? (ie_gdn_place){k->next, k->pos + k->n} : (ie_gdn_place){0, 0};
    }
}

ie_status ie_gdn_log_rewind(ie_gdn_log *g, uint32_t seq, uint32_t pos, ie_error *err) {
    ie_gdn_place *at = &g->at[seq];
    if (pos == 0) *at = (ie_gdn_place){0, 0};
    if (pos < at->base || pos > at->end)
        return ie_fail(err, IE_E_UNSUPPORTED, "sequence %u cannot go back to position %u; its recurrent state reaches %u to %u", seq, pos,
                       at->base, at->end);
    at->end = pos;
    return IE_OK;
}
