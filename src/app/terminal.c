/* Lines typed on a terminal, edited and with history, and the terminal's mode around them.
 *
 * From app_term_open to app_term_close the terminal neither echoes nor edits lines by itself (no ECHO, no ICANON), also while
 * nothing is being read: keys typed during the loading of a model or an answer wait and belong to the next line. Ctrl-C and
 * Ctrl-Z keep their meaning (ISIG). Signals that end or stop the program give the terminal back first.
 *
 * A signal that the line has to know of (Ctrl-C, a new size, the job resumed) sets its flag and writes to a pipe, which is
 * waited for together with the keyboard: it cannot get lost between a look at the flag and the wait. */
#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "app.h"

#define HISTORY_LINES 1000

/* One of these, since signal handlers have no other way to it. The editor lives to the end of the program: el_end would
 * throw away keys that were typed ahead and belong to the shell. */
static struct {
    volatile sig_atomic_t open, reading, resumed, redraw;
    struct termios before, between, editing; /* modes: the caller's, between two lines, while a line is edited */
    int wake[2];
    EditLine *editor;
    History *history;
    FILE *screen;
} term = {.wake = {-1, -1}};

/* A terminal that another job has in hand is not ours to set. */
static void set_mode(const struct termios *mode) {
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) tcsetattr(STDIN_FILENO, TCSANOW, mode);
}

static void handle(int sig, void (*handler)(int)) {
    struct sigaction act;
    memset(&act, 0, sizeof act);
    sigemptyset(&act.sa_mask);
    act.sa_handler = handler;
    sigaction(sig, &act, NULL);
}

/* The default action of a signal from within its handler. */
static void default_action(int sig) {
    sigset_t set;
    handle(sig, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, sig);
    raise(sig);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void on_end(int sig) {
    set_mode(&term.before);
    default_action(sig);
}

void app_term_wake(void) {
    int e = errno;
    if (term.wake[1] >= 0 && write(term.wake[1], "", 1) < 0) errno = e; /* a full pipe wakes as well */
    errno = e;
}

static void on_resize(int sig) {
    (void)sig;
    term.redraw = 1;
    app_term_wake();
}

static void on_continue(int sig) {
    int e = errno;
    term.resumed = 1;
    set_mode(term.reading ? &term.editing : &term.between);
    on_resize(sig);
    errno = e;
}

static void on_stop(int sig) {
    int e = errno;
    set_mode(&term.before);
    term.resumed = 0;
    default_action(sig); /* stops here until SIGCONT */
    handle(sig, on_stop);
    if (!term.resumed) on_continue(SIGCONT); /* nobody could resume this job, so that the stop was ignored */
    errno = e;
}

static const struct {
    int sig;
    void (*handler)(int);
} handlers[] = {{SIGINT, on_end},   {SIGTERM, on_end},      {SIGHUP, on_end},     {SIGQUIT, on_end},
                {SIGTSTP, on_stop}, {SIGCONT, on_continue}, {SIGWINCH, on_resize}};

static void install(bool ours) {
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        struct sigaction now;
        if (!sigaction(handlers[i].sig, NULL, &now) && now.sa_handler != SIG_IGN)
            handle(handlers[i].sig, ours ? handlers[i].handler : SIG_DFL);
    }
}

static char *prompt(EditLine *el) {
    static char text[] = "> ";
    (void)el;
    return text;
}

/* True when there is a key to read (or the terminal is gone); false, with EINTR, on Ctrl-C. */
static bool wait_for_key(EditLine *el) {
    struct pollfd on[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = term.wake[0], .events = POLLIN}};
    for (;;) {
        char bytes[64];
        while (read(term.wake[0], bytes, sizeof bytes) > 0) continue;
        if (app_interrupted()) {
            errno = EINTR;
            return false;
        }
        if (term.redraw) {
            term.redraw = 0;
            el_resize(el);
            el_set(el, EL_REFRESH);
        }
        if (poll(on, 2, -1) > 0 && !on[1].revents) return true;
    }
}

/* One character for the editor, in the locale's encoding: 1, 0 at the end of input, -1 on an error. Bytes that are no
 * character are dropped. */
static int get_char(EditLine *el, wchar_t *out) {
    char bytes[MB_LEN_MAX];
    size_t n = 0;
    if (!term.reading && !tcgetattr(STDIN_FILENO, &term.editing)) term.reading = 1;
    while (wait_for_key(el)) {
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return (int)got;
        mbstate_t state;
        memset(&state, 0, sizeof state);
        size_t k = mbrtowc(out, bytes, ++n, &state);
        if (k <= n) return 1;
        if (k == (size_t)-1 || n == sizeof bytes) n = 0;
    }
    return -1;
}

/* Ctrl-Z, where the editor's mode gives it as a key. */
static unsigned char suspend(EditLine *el, int key) {
    (void)el;
    (void)key;
    kill(getpid(), SIGTSTP);
    return CC_NORM;
}

static const char *const keys[][2] = {
    {"^Z", "suspend"},
    {"^R", "em-inc-search-prev"},
    {"\\e[1~", "ed-move-to-beg"},
    {"\\e[4~", "ed-move-to-end"},
    {"\\e[7~", "ed-move-to-beg"},
    {"\\e[8~", "ed-move-to-end"},
    {"\\e[H", "ed-move-to-beg"},
    {"\\e[F", "ed-move-to-end"},
    {"\\e[3~", "ed-delete-next-char"},
    {"\\e[1;5C", "em-next-word"},
    {"\\e[1;5D", "ed-prev-word"},
};

static ie_status start_editor(ie_error *err) {
    int out = dup(isatty(STDERR_FILENO) ? STDERR_FILENO : STDOUT_FILENO);
    HistEvent event;
    term.screen = out < 0 ? NULL : fdopen(out, "w");
    term.history = history_init();
    if (term.screen && term.history) term.editor = el_init("ie-run", stdin, term.screen, stderr);
    EditLine *el = term.editor;
    if (!el) return ie_fail(err, IE_E_IO, "chat: the line editor cannot start: %s", strerror(errno));
    history(term.history, &event, H_SETSIZE, HISTORY_LINES);
    el_set(el, EL_HIST, history, term.history);
    el_set(el, EL_PROMPT, prompt);
    el_set(el, EL_SIGNAL, 0);
    el_set(el, EL_GETCFN, get_char);
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_ADDFN, "suspend", "stop the program", suspend);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) el_set(el, EL_BIND, keys[i][0], keys[i][1], NULL);
    el_source(el, NULL); /* the user's ~/.editrc */
    el_set(el, EL_EDITMODE, 1);
    /* The mode between two lines; the editor derives its own from it. */
    el_set(el, EL_SETTY, "-x", "-echo", "-icanon", "-iexten", NULL);
    return IE_OK;
}

ie_status app_term_open(ie_error *err) {
    if (!isatty(STDIN_FILENO) || (!isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO))) return IE_OK;
    if (tcgetattr(STDIN_FILENO, &term.before) || pipe2(term.wake, O_NONBLOCK | O_CLOEXEC))
        return ie_fail(err, IE_E_IO, "chat: terminal: %s", strerror(errno));
    term.between = term.before;
    install(true);
    term.open = 1;
    ie_status st = start_editor(err);
    if (!st) tcgetattr(STDIN_FILENO, &term.between);
    if (st) app_term_close();
    return st;
}

bool app_term_is_open(void) { return term.open != 0; }

void app_term_close(void) {
    if (!term.open) return;
    term.open = 0;
    set_mode(&term.before);
    install(false);
}

char *app_term_line(ie_error *err) {
    int n = 0;
    const char *line = el_gets(term.editor, &n);
    term.reading = 0;
    if (!line || n <= 0) return NULL;
    char *copy = strdup(line);
    if (!copy) {
        ie_fail(err, IE_E_NOMEM, "chat: no memory for a line");
        return NULL;
    }
    copy[strcspn(copy, "\n")] = 0;
    HistEvent event;
    if (*copy) history(term.history, &event, H_ENTER, copy);
    return copy;
}
