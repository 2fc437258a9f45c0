/* ie-serve: options, loading, signals, the end. */
#include <errno.h>
#include <malloc.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../app/opt.h"
#include "../app/start.h"
#include "../text/template.h"
#include "serve.h"

#define AT(field) offsetof(serve_opts, field)
#define LAST_S 1.0 /* at the end, for the answers of requests that were not let finish */
#define KEY_FILE_MAX (1u << 20)
#define EXTRA_THREADS 8 /* connection threads beyond those of running and waiting requests */

static const option table[] = {
    {O_GROUP, "Server", 0, 0, 0, 0, 0, 0},
    {O_STR, "--host", 0, "ADDR", AT(host), 0, 0, "address to listen on (default 127.0.0.1)"},
    {O_INT, "--port", "-p", "N", AT(port), 0, 65535, "port (default 8080; 0: any that is free, printed)"},
    {O_STR, "--api-key", 0, "KEY", AT(api_key), 0, 0, "requests need this key: Authorization: Bearer KEY"},
    {O_STR, "--api-key-file", 0, "FILE", AT(api_key_file), 0, 0, "keys, one a line; read again on SIGHUP"},
    {O_STR, "--cors-origins", 0, "LIST", AT(cors_origins), 0, 0, "origins that browsers may call from, by commas; * is any"},
    {O_STR, "--alias", 0, "NAME", AT(alias), 0, 0, "the model's name for clients (default: the one in the file)"},
    {O_INT, "--queue", 0, "N", AT(queue), 1, 10000, "requests that may wait for a slot; beyond: 503 (default 64)"},
    {O_INT, "--max-body", 0, "MB", AT(max_body_mb), 1, 1024, "largest request (default 32)"},
    {O_FLOAT, "--read-timeout", 0, "S", AT(read_s), 0.1, 3600, "time that a request may take to arrive, besides 1 s for each 64 KB (default 30)"},
    {O_INT, "--drain", 0, "SECONDS", AT(drain_s), 0, 86400, "time for running requests after SIGTERM (default 30)"},
    {O_STR, "--log-format", 0, "FORM", AT(log_format), 0, 0, "text or json (default text)"},
    {O_FLAG, "--quiet", "-q", 0, AT(quiet), 0, 0, "no line for each request"},
    {O_GROUP, "Model", 0, 0, 0, 0, 0, 0},
    {O_INT, "--parallel", "-np", "N", AT(parallel), 1, 64, "slots: requests that run at once (default 8)"},
    {O_INT, "--ctx", "-c", "N", AT(ctx), 1, 1048576, "positions of each slot (default: the model's, at most 8192)"},
    {O_INT, "--max-tokens", "-n", "N", AT(max_tokens), -1, 1048576, "a request's limit where it names none (default -1: the context)"},
    {O_STR, "--chat-template-file", 0, "FILE", AT(template_file), 0, 0, "use this chat template instead of the model's"},
    {O_STR, "--system", 0, "TEXT", AT(system), 0, 0, "system message for chats that have none"},
    {O_STR, "--pooling", 0, "HOW", AT(pooling), 0, 0, "embeddings by mean or last token (default: the file's, else mean)"},
    {O_GROUP, "Engine", 0, 0, 0, 0, 0, 0},
    {O_STR, "--backend", 0, "NAME", AT(backend), 0, 0, "auto, cpu, gpu, hip or cuda (default auto)"},
    {O_INT, "--threads", "-t", "N", AT(threads), 1, 1024, "threads of the engine (default: the cores that the process may use)"},
    {O_INT, "--chunk", 0, "N", AT(chunk), 1, 512, "prompt tokens per step at most (default 512)"},
    {O_FLOAT, "--slice", 0, "MS", AT(slice_ms), 1, 10000, "time that a slice of prompts may take (default 40)"},
    {O_FLAG, "--no-cache", 0, 0, AT(no_cache), 0, 0, "reuse no prefixes"},
    {O_INT, "--cache-states", 0, "MB", AT(cache_mb), 0, 1048576, "memory for recurrent states of prefixes (default 512)"},
    {O_STR, "--cache-dir", 0, "DIR", AT(cache_dir), 0, 0, "save prefixes there at the end, restore them at the start"},
    {O_INT, "--cache-file", 0, "MB", AT(cache_file_mb), 1, 1048576, "size of the file in --cache-dir at most (default 2048)"},
    {O_FLAG, "--version", 0, 0, AT(version), 0, 0, "print the version"},
    {O_FLAG, "--help", "-h", 0, AT(help), 0, 0, "this text"},
};
static const opt_table options = {"ie-serve", table, sizeof table / sizeof *table, AT(model)};

/* What goes into JSON as it is. */
static ie_status text_option(const char *name, const char *value, ie_error *err) {
    json_t *text = value ? json_string(value) : NULL;
    bool ok = !value || text;
    json_decref(text);
    return ok ? IE_OK : ie_fail(err, IE_E_ARG, "option %s is '%s', allowed is text in UTF-8", name, value);
}

static ie_status host_option(const char *host, ie_error *err) {
    struct addrinfo *list = NULL, want = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    int code = *host ? getaddrinfo(host, NULL, &want, &list) : EAI_NONAME;
    if (list) freeaddrinfo(list);
    return code ? ie_fail(err, IE_E_ARG, "option --host is '%s', allowed are addresses and names of this machine: %s", host, gai_strerror(code)) : IE_OK;
}

static ie_status parse(int argc, char **argv, serve_opts *o, ie_error *err) {
    *o = (serve_opts){.host = "127.0.0.1", .port = 8080, .queue = 64, .max_body_mb = 32, .drain_s = 30, .read_s = 30, .log_format = "text", .parallel = 8,
                      .max_tokens = -1, .backend = "auto", .slice_ms = 40, .cache_mb = 512, .cache_file_mb = 2048};
    ie_status st = opt_parse(&options, argc, argv, o, err);
    if (st || o->help || o->version) return st;
    if (!o->model) return ie_fail(err, IE_E_ARG, "no model file given; usage: ie-serve MODEL.gguf [options], ie-serve --help for more");
    if (o->cache_dir && access(o->cache_dir, W_OK | X_OK))
        return ie_fail(err, IE_E_IO, "option --cache-dir: '%s': %s", o->cache_dir, strerror(errno));
    if (strcmp(o->log_format, "text") && strcmp(o->log_format, "json"))
        return ie_fail(err, IE_E_ARG, "option --log-format is '%s', allowed are text and json", o->log_format);
    if (o->pooling && strcmp(o->pooling, "mean") && strcmp(o->pooling, "last"))
        return ie_fail(err, IE_E_ARG, "option --pooling is '%s', allowed are mean and last", o->pooling);
    if (o->no_cache && o->cache_dir) return ie_fail(err, IE_E_ARG, "--cache-dir keeps prefixes, --no-cache reuses none: only one of them can be given");
    if (o->alias && !*o->alias) return ie_fail(err, IE_E_ARG, "option --alias is empty, allowed is a name for the model");
    st = text_option("--alias", o->alias, err);
    if (!st) st = text_option("--system", o->system, err);
    return st ? st : host_option(o->host, err);
}

static ie_status read_text(const char *path, size_t max, ie_buf *out, ie_error *err) {
    FILE *f = fopen(path, "rb");
    char part[4096];
    if (!f) return ie_fail(err, IE_E_IO, "file '%s': %s", path, strerror(errno));
    bool ok = ie_buf_add(out, "", 0, err);
    for (size_t n; ok && (n = fread(part, 1, sizeof part, f)) > 0;) ok = out->len <= max && ie_buf_add(out, part, n, err);
    if (ferror(f)) ok = false;
    fclose(f);
    return ok ? IE_OK : ie_fail(err, IE_E_IO, "file '%s' could not be read, or is larger than %zu bytes", path, max);
}

/* The keys of --api-key and --api-key-file. On failure those in use stay. */
static ie_status read_keys(serve *s, ie_error *err) {
    ie_buf b = {0};
    if (!s->opts.api_key && !s->opts.api_key_file) return IE_OK;
    ie_status st = s->opts.api_key_file ? read_text(s->opts.api_key_file, KEY_FILE_MAX, &b, err) : IE_OK;
    if (!st && s->opts.api_key && !ie_buf_printf(&b, err, "\n%s\n", s->opts.api_key)) st = IE_E_NOMEM;
    if (!st && strspn(b.data, " \t\r\n") == b.len)
        st = ie_fail(err, IE_E_ARG, "%s%s holds no key", s->opts.api_key_file ? "file " : "option --api-key", s->opts.api_key_file ? s->opts.api_key_file : "");
    if (st) {
        ie_buf_free(&b);
        return st;
    }
    pthread_mutex_lock(&s->key_lock);
    free(s->keys);
    s->keys = b.data;
    pthread_mutex_unlock(&s->key_lock);
    return IE_OK;
}

/* The file of kept prefixes: named after the model's file, so that models share a folder. */
static ie_status cache_path(const serve *s, ie_buf *out, ie_error *err) {
    const char *slash = strrchr(s->opts.model, '/');
    return ie_buf_printf(out, err, "%s/%s.prefixes", s->opts.cache_dir, slash ? slash + 1 : s->opts.model) ? IE_OK : IE_E_NOMEM;
}

/* What cannot be restored is not needed: the log says why. */
static void restore_prefixes(serve *s, ie_ctx *c) {
    ie_error err;
    ie_buf path = {0};
    int32_t n = 0;
    if (s->opts.no_cache || !s->opts.cache_dir || cache_path(s, &path, &err)) return;
    if (ie_prefix_load(c, path.data, &n, &err)) serve_log(s, err.code == IE_E_IO ? "info" : "warn", "no prefixes restored: %s", err.msg);
    else serve_log(s, "info", "%d pages of prefixes restored from '%s'", n, path.data);
    ie_buf_free(&path);
}

static void save_prefixes(serve *s) {
    ie_error err;
    ie_buf path = {0};
    int32_t n = 0;
    if (s->opts.no_cache || !s->opts.cache_dir || !s->sched || cache_path(s, &path, &err)) return;
    if (serve_sched_save(s->sched, path.data, (uint64_t)s->opts.cache_file_mb << 20, &n, &err)) serve_log(s, "error", "prefixes not saved: %s", err.msg);
    else serve_log(s, "info", "%d pages of prefixes saved to '%s'", n, path.data);
    ie_buf_free(&path);
}

#define DEFAULT_CTX 8192

/* ie_progress_fn: loading can take minutes, and the signals are blocked. */
static int end_wanted(void *user, const char *what, double fraction) {
    sigset_t waiting;
    (void)user, (void)what, (void)fraction;
    return !sigpending(&waiting) && (sigismember(&waiting, SIGTERM) == 1 || sigismember(&waiting, SIGINT) == 1);
}

static ie_status load(serve *s, ie_error *err) {
    serve_opts *o = &s->opts;
    ie_buf t = {0};
    if (o->template_file) {
        ie_status st = read_text(o->template_file, 16u << 20, &t, err);
        if (st) return st;
        s->template_text = t.data;
        s->template_len = t.len;
        ie_template *parsed = ie_template_new(t.data, t.len, err);
        if (!parsed) return err->code;
        ie_template_free(parsed);
    }
    s->model = ie_model_open(o->model, &(ie_model_params){.backend = o->backend, .threads = o->threads, .progress = end_wanted}, err);
    if (!s->model) return err->code;
    ie_model_get_info(s->model, &s->info);
    const char *name = o->alias ? o->alias : s->info.name;
    if (!(s->name = serve_json_text(name, strlen(name)))) return ie_fail(err, IE_E_NOMEM, "no memory for the model's name");
    s->model_id = json_string_value(s->name);
    int32_t n = o->ctx ? o->ctx : s->info.n_ctx_train < DEFAULT_CTX ? s->info.n_ctx_train : DEFAULT_CTX;
    ie_ctx_params p = {.n_ctx = n, .n_seq = o->parallel, .chunk = o->chunk, .cache_bytes = (uint64_t)o->cache_mb << 20};
    ie_ctx *c = ie_ctx_new(s->model, &p, err);
    if (!c) return err->code;
    s->n_ctx = ie_ctx_size(c);
    restore_prefixes(s, c);
    s->sched = serve_sched_new(s, c, err);
    return s->sched ? IE_OK : err->code;
}

static ie_status listen_now(serve *s, ie_error *err) {
    const serve_opts *o = &s->opts;
    http_config h = {.host = o->host, .port = o->port, .max_header = 64u << 10, .max_body = (size_t)o->max_body_mb << 20,
                     .threads = o->parallel + o->queue + EXTRA_THREADS, .waiting = 2 * o->queue, .connections = 4096, .read_s = o->read_s, .idle_s = 75,
                     .write_s = 60, .quick = serve_quick, .handle = serve_handle, .user = s};
    s->http = http_start_server(&h, err);
    return s->http ? IE_OK : err->code;
}

/* Until SIGTERM or SIGINT; then what runs may end, until the time is up or a second signal comes. */
static void wait_for_end(serve *s, const sigset_t *set) {
    ie_error err;
    for (int sig = 0; sigwait(set, &sig) == 0 && sig == SIGHUP;) {
        if (read_keys(s, &err)) serve_log(s, "error", "keys not read again: %s", err.msg);
        else serve_log(s, "info", "keys read again");
    }
    serve_log(s, "info", "shutting down: no new requests, running ones may end within %d s", s->opts.drain_s);
    s->phase = SERVE_DRAINING;
    serve_sched_drain(s->sched);
    double end = ie_now() + s->opts.drain_s;
    struct timespec step = {.tv_nsec = 50000000};
    while (http_busy(s->http) && ie_now() < end)
        if (sigtimedwait(set, NULL, &step) > 0) break;
    http_stop_listening(s->http);
}

/* Those whose requests have just been ended are told so. */
static void wait_for_answers(serve *s, double end) {
    struct timespec step = {.tv_nsec = 5000000};
    while (s->http && http_busy(s->http) && ie_now() < end) nanosleep(&step, NULL);
}

static ie_status run(serve *s, ie_error *err) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* all threads; wait_for_end takes them */
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    mallopt(M_ARENA_MAX, 4); /* connection threads need no heaps of their own */
    s->started = (int64_t)time(NULL);
    ie_status st = read_keys(s, err);
    if (!st) st = listen_now(s, err);
    bool six = strchr(s->opts.host, ':') != NULL;
    if (!st) printf("listening on http://%s%s%s:%d\n", six ? "[" : "", s->opts.host, six ? "]" : "", http_port(s->http)), fflush(stdout);
    if (!st) st = load(s, err);
    if (st == IE_E_CANCELLED) {
        serve_log(s, "info", "told to end while the model was loading");
        st = IE_OK;
    } else if (!st) {
        s->phase = SERVE_READY;
        serve_log(s, "info", "%s is ready: %d slots of %d positions, %s", s->model_id, s->opts.parallel, s->n_ctx, s->info.backend);
        wait_for_end(s, &set);
    }
    /* Handlers wait for the scheduler's last events: it ends first, but is freed after them. */
    serve_sched_stop(s->sched);
    wait_for_answers(s, ie_now() + LAST_S);
    http_free_server(s->http);
    save_prefixes(s);
    serve_sched_free(s->sched);
    serve_grammars_free(s);
    ie_model_close(s->model);
    free(s->template_text);
    json_decref(s->name);
    free(s->keys);
    return st;
}

int main(int argc, char **argv) {
    ie_error err = {0};
    serve s = {.key_lock = PTHREAD_MUTEX_INITIALIZER, .grammars.lock = PTHREAD_MUTEX_INITIALIZER};
    app_start();
    ie_status st = parse(argc, argv, &s.opts, &err);
    if (!st && s.opts.help) {
        puts("usage: ie-serve MODEL.gguf [options]");
        opt_help(&options, stdout);
    } else if (!st && s.opts.version) {
        puts("ie-serve " IE_VERSION);
    } else if (!st) {
        st = run(&s, &err);
    }
    if (!st && (s.opts.help || s.opts.version)) st = app_flush(&err);
    if (st) fprintf(stderr, "ie-serve: %s\n", err.msg);
    return st ? 1 : 0;
}
