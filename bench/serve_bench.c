/* serve_bench MODEL [options]: ie-serve, and llama.cpp's server where --peer gives its path, under the same load in the same run.
 *
 *   --ours PATH     ie-serve (default: next to this program's folder)
 *   --peer PATH     llama-server; its libraries are looked for in its own folder
 *   --streams LIST  numbers of concurrent streams (default 1,8)
 *   --tokens N      tokens of each answer (default 128)
 *   --requests N    requests of each stream, one after the other (default 2)
 *   --rounds N      rounds; both servers run in each, figures are medians over rounds (default 3)
 *   --threads N     threads of each server (default 2)
 *   --ctx N         positions of each slot (default 8192)
 *   --long N        words of the long prompt, 0: without that part (default 4000)
 *
 * Prompts are mixed: 12 to 300 words, the same ones for both servers, without prefix caches. For each server and number of streams:
 * tokens a second over everything, time to the first token and gap between tokens at p50, p95, p99. Then what a short request's
 * first token takes when the server is idle and while a long prompt is being evaluated.
 *
 * One thread and poll(), so that the client takes little from the servers. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"

#define MAX_STREAMS 64
#define MAX_ROUNDS 32
#define MAX_LISTS 8
#define SHORT_PROBES 9
#define WAIT_S 300.0

typedef struct {
    const char *model, *ours, *peer;
    int streams[MAX_LISTS], n_streams, tokens, requests, rounds, threads, ctx, words_long;
} options;

typedef struct {
    const char *name;
    pid_t pid;
    int port;
} server;

typedef struct {
    double *v;
    size_t n, cap;
} list;

typedef struct {
    int fd;
    ie_buf in;       /* received, not looked at yet */
    double sent, last;
    bool first, done, ended, failed;
    long tokens;     /* as the server counts them at the end */
    list *ttft, *gap;
} stream;

typedef struct {
    double rate, ttft[3], gap[3]; /* tokens a second; seconds at p50, p95, p99 */
} figures;

static void die(const char *what, const char *name) {
    fprintf(stderr, "serve_bench: %s %s\n", what, name);
    exit(1);
}

/* ---- numbers --------------------------------------------------------------------------------------------------------- */

static void list_add(list *l, double v) {
    ie_error err;
    if (!ie_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v, "figures", &err)) die("no memory for", "figures");
    l->v[l->n++] = v;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(list *l, double p) {
    if (!l->n) return 0;
    qsort(l->v, l->n, sizeof *l->v, by_value);
    return l->v[(size_t)(p * (double)(l->n - 1) + 0.5)];
}

static void three(list *l, double out[3]) {
    static const double p[3] = {0.5, 0.95, 0.99};
    for (int i = 0; i < 3; i++) out[i] = percentile(l, p[i]);
    free(l->v);
    *l = (list){0};
}

/* ---- servers --------------------------------------------------------------------------------------------------------- */

static int free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) || getsockname(fd, (struct sockaddr *)&a, &n)) die("no free port:", strerror(errno));
    close(fd);
    return ntohs(a.sin_port);
}

static int dial(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

static void put_all(int fd, const char *s, size_t n) {
    for (ssize_t k; n; s += k, n -= (size_t)k)
        if ((k = send(fd, s, n, MSG_NOSIGNAL)) < 0) die("a server took no request:", strerror(errno));
}

static bool healthy(int port) {
    static const char ask[] = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char answer[64] = "";
    int fd = dial(port);
    if (fd < 0) return false;
    put_all(fd, ask, sizeof ask - 1);
    ssize_t n = recv(fd, answer, sizeof answer - 1, MSG_WAITALL);
    close(fd);
    return n > 12 && !strncmp(answer + 9, "200", 3);
}

static server start(const options *o, bool ours, int most) {
    server s = {.name = ours ? "ie-serve" : "llama-server", .port = free_port()};
    char port[16], threads[16], slots[16], ctx[16];
    const char *path = ours ? o->ours : o->peer;
    snprintf(port, sizeof port, "%d", s.port);
    snprintf(threads, sizeof threads, "%d", o->threads);
    snprintf(slots, sizeof slots, "%d", most);
    snprintf(ctx, sizeof ctx, "%d", ours ? o->ctx : o->ctx * most);
    s.pid = fork();
    if (s.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no server outlives the bench */
        int null = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++) dup2(null, i);
        if (ours) {
            execl(path, path, o->model, "--port", port, "-t", threads, "--parallel", slots, "--ctx", ctx, "--quiet", (char *)NULL);
        } else {
            char *copy = strdup(path);
            if (copy) setenv("LD_LIBRARY_PATH", dirname(copy), 1);
            execl(path, path, "-m", o->model, "--port", port, "-t", threads, "-np", slots, "-c", ctx, (char *)NULL);
        }
        _exit(127);
    }
    if (s.pid < 0) die("could not start", path);
    for (double end = ie_now() + WAIT_S; !healthy(s.port); usleep(20000))
        if (ie_now() > end || waitpid(s.pid, NULL, WNOHANG) == s.pid) die("did not become ready:", path);
    return s;
}

static void stop(server *s) {
    kill(s->pid, SIGTERM);
    waitpid(s->pid, NULL, 0);
}

/* ---- requests -------------------------------------------------------------------------------------------------------- */

static void send_request(stream *st, int port, uint32_t seed, int words, int tokens) {
    static const char *const word[] = {"the", "old", "road", "went", "on", "and", "a", "small", "bird", "sang", "over", "grey", "hills", "until", "night", "came"};
    ie_buf body = {0}, head = {0};
    ie_error err;
    bool ok = ie_buf_printf(&body, &err, "{\"prompt\": \"Story %u:", seed);
    for (int i = 0; i < words && ok; i++) {
        seed = seed * 1664525u + 1013904223u;
        ok = ie_buf_printf(&body, &err, " %s", word[seed >> 28]);
    }
    ok = ok && ie_buf_printf(&body, &err, "\", \"n_predict\": %d, \"temperature\": 0, \"ignore_eos\": true, \"stream\": true, \"cache_prompt\": false}", tokens);
    ok = ok && ie_buf_printf(&head, &err, "POST /completion HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", body.len);
    if (!ok) die("no memory for", "a request");
    st->fd = dial(port);
    if (st->fd < 0) die("could not connect:", strerror(errno));
    st->first = true;
    st->done = st->ended = st->failed = false;
    st->tokens = 0;
    st->in.len = 0;
    st->sent = ie_now();
    put_all(st->fd, head.data, head.len);
    put_all(st->fd, body.data, body.len);
    ie_buf_free(&body);
    ie_buf_free(&head);
}

/* Takes the events (lines that begin with "data:") out of what has come. */
static void look(stream *st, double now) {
    size_t at = 0;
    for (char *nl; at < st->in.len && (nl = memchr(st->in.data + at, '\n', st->in.len - at)); at = (size_t)(nl - st->in.data) + 1) {
        const char *line = st->in.data + at, *count;
        *nl = 0;
        if (strncmp(line, "data:", 5)) continue;
        if ((count = strstr(line, "\"tokens_predicted\":"))) st->tokens = strtol(count + 19, NULL, 10);
        if (strstr(line, "\"stop\":true")) { /* the last one carries no token */
            st->done = true;
            break;
        }
        list_add(st->first ? st->ttft : st->gap, now - (st->first ? st->sent : st->last));
        st->first = false;
        st->last = now;
    }
    memmove(st->in.data, st->in.data + at, st->in.len - at);
    st->in.len -= at;
}

static void receive(stream *st) {
    char part[16384];
    ie_error err;
    ssize_t n = recv(st->fd, part, sizeof part, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    double now = ie_now();
    if (n > 0) {
        if (!ie_buf_add(&st->in, part, (size_t)n, &err)) die("no memory for", "an answer");
        look(st, now);
        if (!st->done) return;
    }
    close(st->fd);
    st->fd = -1;
    st->ended = true;
    st->failed = !st->done;
}

/* Waits for something to read on any of n streams, and reads it. */
static void turn(stream *st, int n) {
    struct pollfd p[MAX_STREAMS] = {0};
    if (n < 1 || n > MAX_STREAMS) return;
    for (int i = 0; i < n; i++) p[i] = (struct pollfd){.fd = st[i].fd, .events = POLLIN};
    if (poll(p, (nfds_t)n, 1000) < 0 && errno != EINTR) die("poll:", strerror(errno));
    for (int i = 0; i < n; i++)
        if (st[i].fd >= 0 && p[i].revents) receive(&st[i]);
}

/* ---- measurements ---------------------------------------------------------------------------------------------------- */

static figures load(const options *o, const server *s, int n, uint32_t seed) {
    static const int words[] = {12, 150, 40, 300, 20, 80, 30, 200};
    stream st[MAX_STREAMS] = {0};
    int left[MAX_STREAMS], open = n;
    list ttft = {0}, gap = {0};
    long tokens = 0;
    uint32_t k = 0;
    double start = ie_now();
    for (int i = 0; i < n; i++) {
        st[i] = (stream){.fd = -1, .ttft = &ttft, .gap = &gap};
        left[i] = o->requests - 1;
        send_request(&st[i], s->port, seed + k, words[k % 8], o->tokens);
        k++;
    }
    while (open) {
        turn(st, n);
        for (int i = 0; i < n; i++) {
            if (!st[i].ended) continue;
            if (st[i].failed || !st[i].tokens) die("a request failed on", s->name);
            tokens += st[i].tokens;
            st[i].ended = false;
            if (left[i]-- > 0) send_request(&st[i], s->port, seed + k, words[k % 8], o->tokens), k++;
            else open--;
        }
    }
    figures f = {.rate = (double)tokens / (ie_now() - start)};
    three(&ttft, f.ttft);
    three(&gap, f.gap);
    for (int i = 0; i < n; i++) ie_buf_free(&st[i].in);
    return f;
}

static double probe(const server *s, stream *st, int n, uint32_t seed) {
    list ttft = {0}, gap = {0};
    st[0].ttft = &ttft;
    st[0].gap = &gap;
    send_request(&st[0], s->port, seed, 12, 2);
    while (!st[0].ended) turn(st, n);
    if (st[0].failed) die("a request failed on", s->name);
    double t = ttft.v[0];
    free(ttft.v);
    free(gap.v);
    return t;
}

/* First token of short requests when idle (median), and while a long prompt is being evaluated (median of as many as fit). */
static void beside_long(const options *o, const server *s, uint32_t seed, double *idle, double *busy, int *probes) {
    stream st[2] = {{.fd = -1}, {.fd = -1}};
    list a = {0}, b = {0}, ttft = {0}, gap = {0};
    for (int i = 0; i < SHORT_PROBES; i++) list_add(&a, probe(s, st, 1, seed + (uint32_t)i));
    *idle = percentile(&a, 0.5);
    st[1].ttft = &ttft;
    st[1].gap = &gap;
    send_request(&st[1], s->port, seed + 100, o->words_long, 2);
    usleep(50000);
    for (uint32_t i = 0; st[1].first && !st[1].ended; i++) {
        double t = probe(s, st, 2, seed + 200 + i);
        if (st[1].first && !st[1].ended) list_add(&b, t);
    }
    while (!st[1].ended) turn(st, 2);
    if (st[1].failed) die("the long request failed on", s->name);
    *busy = percentile(&b, 0.5);
    *probes = (int)b.n;
    free(a.v);
    free(b.v);
    free(ttft.v);
    free(gap.v);
    ie_buf_free(&st[0].in);
    ie_buf_free(&st[1].in);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void print_rows(const options *o, figures f[2][MAX_LISTS][MAX_ROUNDS], int servers) {
    puts("| streams | server | tokens/s | first token ms p50 | p95 | p99 | gap ms p50 | p95 | p99 |");
    puts("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (int k = 0; k < o->n_streams; k++) {
        double rate[2] = {0};
        for (int s = 0; s < servers; s++) {
            double v[7][MAX_ROUNDS];
            for (int r = 0; r < o->rounds; r++) {
                const figures *g = &f[s][k][r];
                v[0][r] = g->rate;
                for (int i = 0; i < 3; i++) v[1 + i][r] = g->ttft[i] * 1e3, v[4 + i][r] = g->gap[i] * 1e3;
            }
            rate[s] = median(v[0], o->rounds);
            printf("| %d | %s | %.1f |", o->streams[k], s ? "llama-server" : "ie-serve", rate[s]);
            for (int i = 1; i < 7; i++) printf(" %.1f |", median(v[i], o->rounds));
            putchar('\n');
        }
        if (servers == 2) printf("| %d | ratio | %.2f | | | | | | |\n", o->streams[k], rate[0] / rate[1]);
    }
}

static void run(const options *o) {
    static figures f[2][MAX_LISTS][MAX_ROUNDS];
    double idle[2][MAX_ROUNDS], busy[2][MAX_ROUNDS];
    int servers = o->peer ? 2 : 1, most = 2, probes[2] = {0};
    server s[2];
    for (int k = 0; k < o->n_streams; k++) most = o->streams[k] > most ? o->streams[k] : most;
    for (int i = 0; i < servers; i++) s[i] = start(o, i == 0, most);
    for (int i = 0; i < servers; i++) load(&(options){.requests = 1, .tokens = 8}, &s[i], most, 7); /* not measured: caches, clocks */
    for (int r = 0; r < o->rounds; r++)
        for (int i = 0; i < servers; i++) {
            for (int k = 0; k < o->n_streams; k++) {
                f[i][k][r] = load(o, &s[i], o->streams[k], 1000u * (uint32_t)(r + 1));
                fprintf(stderr, "round %d, %s, %d streams: %.1f tokens/s\n", r + 1, s[i].name, o->streams[k], f[i][k][r].rate);
            }
            int n = 0;
            if (o->words_long) beside_long(o, &s[i], 77000u + 1000u * (uint32_t)r, &idle[i][r], &busy[i][r], &n);
            probes[i] += n;
        }
    for (int i = 0; i < servers; i++) stop(&s[i]);
    print_rows(o, f, servers);
    for (int i = 0; i < servers && o->words_long; i++) {
        double a = median(idle[i], o->rounds), b = median(busy[i], o->rounds);
        printf("%s: first token of a short request %.1f ms when idle, %.1f ms beside a prompt of %d words (%.2f times, %d requests)\n", s[i].name, a * 1e3,
               b * 1e3, o->words_long, b / a, probes[i]);
    }
}

/* ---- options --------------------------------------------------------------------------------------------------------- */

static int number(const char *name, const char *v, int min, int max) {
    char *end;
    long n = strtol(v, &end, 10);
    if (*end || end == v || n < min || n > max) {
        fprintf(stderr, "serve_bench: %s is '%s', allowed are %d to %d\n", name, v, min, max);
        exit(2);
    }
    return (int)n;
}

static void numbers(options *o, const char *v) {
    char *copy = strdup(v), *save = NULL;
    o->n_streams = 0;
    for (char *p = copy ? strtok_r(copy, ",", &save) : NULL; p; p = strtok_r(NULL, ",", &save)) {
        if (o->n_streams == MAX_LISTS) die("too many numbers in --streams:", v);
        o->streams[o->n_streams++] = number("--streams", p, 1, MAX_STREAMS);
    }
    free(copy);
    if (!o->n_streams) die("no number in --streams:", v);
}

int main(int argc, char **argv) {
    options o = {.streams = {1, 8}, .n_streams = 2, .tokens = 128, .requests = 2, .rounds = 3, .threads = 2, .ctx = 8192, .words_long = 4000};
    const struct {
        const char *name;
        int *to, min, max;
    } ints[] = {{"--tokens", &o.tokens, 1, 100000},   {"--requests", &o.requests, 1, 1000}, {"--rounds", &o.rounds, 1, MAX_ROUNDS},
                {"--threads", &o.threads, 1, 1024}, {"--ctx", &o.ctx, 64, 1 << 20},       {"--long", &o.words_long, 0, 100000}};
    char here[4096], ours[sizeof here + 16];
    snprintf(here, sizeof here, "%s", argv[0]);
    snprintf(ours, sizeof ours, "%s/../ie-serve", dirname(here));
    o.ours = ours;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i < argc; i++) {
        const char *v = argv[i][0] == '-' && i + 1 < argc ? argv[i + 1] : NULL;
        bool known = !v && argv[i][0] != '-' && !o.model;
        if (known) o.model = argv[i];
        for (size_t k = 0; v && k < sizeof ints / sizeof *ints; k++)
            if (!strcmp(argv[i], ints[k].name)) *ints[k].to = number(argv[i], v, ints[k].min, ints[k].max), known = true;
        if (v && !strcmp(argv[i], "--ours")) o.ours = v, known = true;
        if (v && !strcmp(argv[i], "--peer")) o.peer = v, known = true;
        if (v && !strcmp(argv[i], "--streams")) numbers(&o, v), known = true;
        if (!known) die("unknown option, or no value for it:", argv[i]);
        if (v) i++;
    }
    if (!o.model) die("no model; usage: serve_bench MODEL.gguf [options], described in", "bench/serve_bench.c");
    run(&o);
    return 0;
}
