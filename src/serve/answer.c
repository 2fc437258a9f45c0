/* Splits a model's text into parts. */
#include "answer.h"

#include <stdlib.h>
#include <string.h>

#include "serve.h"

#define THINK "<think>"
#define THINK_END "</think>"

typedef enum { BEGINNING, THINKING, TEXT, CALL } place;

struct answer {
    answer_form form;
    answer_sink sink;
    answer_part *part;
    size_t n, cap;
    bool open;      /* the last part is not done yet */
    bool called;    /* a call was given */
    bool failed;
    bool trim;      /* the text that follows loses its leading white space */
    place at;
    ie_buf rest;    /* not given out yet */
    ie_buf blank;   /* white space that is given only if more text follows */
    tool_call call;
    size_t given;   /* of the call's arguments */
    bool begun;     /* the call has been given in part */
};

answer *answer_new(const answer_form *form, const answer_sink *sink, ie_error *err) {
    answer *a = ie_calloc(1, sizeof *a, "answer", err);
    if (!a) return NULL;
    a->form = *form;
    a->sink = *sink;
    a->at = form->think == THINK_OPEN ? THINKING : form->think == THINK_MAYBE ? BEGINNING : TEXT;
    a->trim = form->think == THINK_OPEN;
    return a;
}

void answer_free(answer *a) {
    if (!a) return;
    for (size_t i = 0; i < a->n; i++) {
        ie_buf_free(&a->part[i].name);
        ie_buf_free(&a->part[i].text);
    }
    free(a->part);
    ie_buf_free(&a->rest);
    ie_buf_free(&a->blank);
    tool_call_free(&a->call);
    free(a);
}

const answer_part *answer_parts(const answer *a, uint32_t *n) {
    *n = (uint32_t)a->n;
    return a->part;
}

bool answer_thinks(const answer *a) { return a->at == THINKING; }
bool answer_has_calls(const answer *a) { return a->called; }
bool answer_failed(const answer *a) { return a->failed; }

/* ---- parts ------------------------------------------------------------------------------------------------------------------- */

static void close_part(answer *a) {
    if (!a->open) return;
    a->open = false;
    if (a->sink.done) a->sink.done(a->sink.user, &a->part[a->n - 1], (uint32_t)a->n - 1);
}

static answer_part *new_part(answer *a, part_kind kind) {
    close_part(a);
    if (!ie_grow(&a->part, &a->cap, a->n + 1, sizeof *a->part, "answer", NULL)) return a->failed = true, NULL;
    a->part[a->n] = (answer_part){.kind = kind};
    a->open = true;
    return &a->part[a->n++];
}

/* n bytes more of a part of that kind. */
static void give(answer *a, part_kind kind, const char *s, size_t n) {
    if (!n) return;
    bool first = !a->open || a->part[a->n - 1].kind != kind;
    answer_part *p = first ? new_part(a, kind) : &a->part[a->n - 1];
    if (!p || !ie_buf_add(&p->text, s, n, NULL)) {
        a->failed = true;
        return;
    }
    a->sink.more(a->sink.user, p, (uint32_t)a->n - 1, first, s, n);
}

/* Text or thinking: white space at its end waits, and is dropped where a call or nothing follows. */
static void give_text(answer *a, part_kind kind, const char *s, size_t n) {
    size_t from = a->trim ? tool_blank(s, n, 0) : 0, to = n;
    while (to > from && tool_blank(s, to, to - 1) == to) to--;
    if (to > from) {
        a->trim = false;
        give(a, kind, a->blank.data ? a->blank.data : "", a->blank.len);
        a->blank.len = 0;
        give(a, kind, s + from, to - from);
    }
    if (n > to && !a->trim && !ie_buf_add(&a->blank, s + to, n - to, NULL)) a->failed = true;
}

/* What has been given is taken from the rest. */
static void took(answer *a, size_t n) {
    memmove(a->rest.data, a->rest.data + n, a->rest.len - n);
    a->rest.len -= n;
}

/* ---- calls ---------------------------------------------------------------------------------------------------------------------- */

static void begin_call(answer *a) {
    answer_part *p = new_part(a, PART_CALL);
    if (!p) return;
    a->begun = true;
    a->called = true;
    serve_new_id(a->form.call_id ? a->form.call_id : "call_", p->id);
    if (!ie_buf_add(&p->name, a->call.name.data, a->call.name.len, NULL)) a->failed = true;
    a->sink.more(a->sink.user, p, (uint32_t)a->n - 1, true, "", 0);
}

static void give_arguments(answer *a) {
    if (!a->begun) begin_call(a);
    if (!a->failed) give(a, PART_CALL, a->call.args.data + a->given, a->call.args.len - a->given);
    a->given = a->call.args.len;
}

static void end_call(answer *a) {
    close_part(a);
    tool_call_free(&a->call);
    a->given = 0;
    a->begun = false;
    a->at = TEXT;
    bool text = false;
    for (size_t i = 0; i < a->n && !text; i++) text = a->part[i].kind == PART_TEXT;
    if (!text) { /* what stands before and between calls is no beginning of a text */
        a->trim = true;
        a->blank.len = 0;
    }
}

/* True: something was read. */
static bool read_call(answer *a, bool end) {
    const tool_style *style = a->form.style;
    size_t open = strlen(style->open);
    a->call.tools = a->form.tools;
    call_state st = style->scan(&a->call, style, a->rest.data + open, a->rest.len - open, end);
    bool early = a->form.sure && a->call.named && a->call.args.len > a->given; /* also of a call that breaks off: the cuts of the text do not matter */
    if (st == CALL_DONE || early) give_arguments(a);
    if (st == CALL_MORE) return false;
    if (st == CALL_DONE) {
        took(a, open + a->call.used);
        end_call(a);
    } else if (a->begun) { /* cut off inside */
        took(a, end ? a->rest.len : open + a->call.at);
        end_call(a);
    } else {
        tool_call_free(&a->call);
        a->at = TEXT;
        give_text(a, PART_TEXT, style->open, open); /* what stands behind it may hold the next call */
        took(a, open);
    }
    return true;
}

/* ---- the text -------------------------------------------------------------------------------------------------------------------- */

static bool beginning(answer *a, bool end) {
    size_t at = tool_blank(a->rest.data, a->rest.len, 0);
    int is = at < a->rest.len ? tool_word(a->rest.data, a->rest.len, at, THINK) : 0;
    if (is == 0 && !end) return false;
    a->at = is == 1 ? THINKING : TEXT;
    a->trim = is == 1;
    if (is == 1) took(a, at + strlen(THINK));
    return true;
}

/* Gives text up to the mark, or what cannot belong to it. True: the mark was met. */
static bool up_to(answer *a, part_kind kind, const char *mark, bool end) {
    const char *at = mark ? memmem(a->rest.data, a->rest.len, mark, strlen(mark)) : NULL;
    size_t n = at ? (size_t)(at - a->rest.data) : a->rest.len - (mark && !end ? tool_tail(a->rest.data, a->rest.len, mark) : 0);
    give_text(a, kind, a->rest.data, n);
    took(a, n);
    return at != NULL;
}

static bool step(answer *a, bool end) {
    switch (a->at) {
    case BEGINNING: return beginning(a, end);
    case THINKING:
        if (!up_to(a, PART_THINKING, THINK_END, end)) return false;
        took(a, strlen(THINK_END));
        a->blank.len = 0;
        a->trim = true;
        a->at = TEXT;
        return true;
    case TEXT:
        if (!up_to(a, PART_TEXT, a->form.style ? a->form.style->open : NULL, end)) return false;
        a->at = CALL;
        return true;
    case CALL: return read_call(a, end);
    }
    return false;
}

static void run(answer *a, bool end) {
    while (!a->failed && a->rest.len && step(a, end)) {}
}

void answer_add(answer *a, const char *s, size_t n) {
    if (!n || a->failed) return;
    if (!ie_buf_add(&a->rest, s, n, NULL)) a->failed = true;
    run(a, false);
}

void answer_end(answer *a) {
    run(a, true);
    bool last_text = a->at == TEXT && (!a->n || a->part[a->n - 1].kind == PART_TEXT);
    if (last_text && !a->failed && !a->trim) give(a, PART_TEXT, a->blank.data ? a->blank.data : "", a->blank.len);
    close_part(a);
}
