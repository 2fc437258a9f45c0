/* The web page at /: one answer, put together from the files of page/, which the assembler takes into the binary. It asks for nothing
 * from outside, and its policy says so: the page's own style and script carry a nonce that is new with each answer, nothing
 * else runs, and it talks to this server only. */
#include <string.h>
#include <sys/random.h>

#include "serve.h"

#define EMBED(name, file)                                                                                                               \
    __asm__(".section .rodata\n.balign 8\n" #name ": .incbin \"src/serve/page/" file "\"\n" #name "_end: .byte 0\n.balign 8\n.previous\n");  \
    extern const char name[] __asm__(#name), name##_end[] __asm__(#name "_end")

EMBED(page_html, "index.html");
EMBED(page_style, "style.css");
EMBED(page_markdown, "markdown.js");
EMBED(page_script, "page.js");

#define NONCE_BYTES 16

typedef struct {
    const char *mark; /* stands in index.html for the text */
    const char *text;
    size_t n;
} insert;

static bool new_nonce(char out[2 * NONCE_BYTES + 1]) {
    unsigned char raw[NONCE_BYTES];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw) return false;
    for (size_t i = 0; i < sizeof raw; i++) snprintf(out + 2 * i, 3, "%02x", raw[i]);
    return true;
}

static bool fill_in(const char *nonce, ie_buf *out, ie_error *err) {
    const insert list[] = {{"@NONCE@", nonce, strlen(nonce)},
                           {"@STYLE@", page_style, (size_t)(page_style_end - page_style)},
                           {"@MARKDOWN@", page_markdown, (size_t)(page_markdown_end - page_markdown)},
                           {"@PAGE@", page_script, (size_t)(page_script_end - page_script)}};
    const char *from = page_html;
    bool ok = true;
    for (const char *at = from; ok && (at = strchr(at, '@')); at++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            if (strncmp(at, list[i].mark, strlen(list[i].mark))) continue;
            ok = ie_buf_add(out, from, (size_t)(at - from), err) && ie_buf_add(out, list[i].text, list[i].n, err);
            from = at + strlen(list[i].mark);
            at = from - 1;
            break;
        }
    return ok && ie_buf_add(out, from, (size_t)(page_html_end - from), err);
}

static void page(serve_call *c) {
    char nonce[2 * NONCE_BYTES + 1], policy[400];
    ie_buf b = {0};
    ie_error err;
    if (!new_nonce(nonce)) {
        ie_fail(&err, IE_E_IO, "no random bytes for the page's nonce");
        serve_reply_error(c, 0, &err);
        return;
    }
    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; connect-src 'self'; base-uri 'none'; "
             "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
             nonce, nonce);
    http_set_header(c->http, "Content-Security-Policy", policy);
    http_set_header(c->http, "X-Content-Type-Options", "nosniff");
    http_set_header(c->http, "Referrer-Policy", "no-referrer");
    http_set_header(c->http, "Cross-Origin-Opener-Policy", "same-origin");
    http_set_header(c->http, "Cache-Control", "no-store"); /* the nonce is for one answer */
    if (fill_in(nonce, &b, &err)) http_send(c->http, 200, "text/html; charset=utf-8", b.data, b.len);
    else serve_reply_error(c, 0, &err);
    ie_buf_free(&b);
}

const serve_route serve_routes_page[] = {
    {"GET", "/", page, ROUTE_OPEN | ROUTE_QUICK, "the web page"},
    {"GET", "/index.html", page, ROUTE_OPEN | ROUTE_QUICK, "the same"},
    {NULL, NULL, NULL, 0, NULL},
};
