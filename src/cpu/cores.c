/* What the process may use of the machine: cores and memory (declared in pool.h). Linux: /proc, /sys. */
#include "pool.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a small file as one text; false when it cannot be read. */
static bool read_text(const char *path, char *buf, size_t size) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    size_t n = fread(buf, 1, size - 1, f);
    fclose(f);
    buf[n] = 0;
    return n > 0;
}

/* First number of the file; false for "max" and the like. */
static bool read_number(const char *path, int64_t *out) {
    char buf[64], *end;
    if (!read_text(path, buf, sizeof buf)) return false;
    errno = 0;
    long long v = strtoll(buf, &end, 10);
    if (end == buf || errno) return false;
    *out = v;
    return true;
}

/* ---- control groups ------------------------------------------------------------------------------------------------ */

/* Calls fn with every directory of this process's group of a controller, from the group itself up to the root. Version 2
 * is asked for with controller = "". Inside a container the path may not exist there; the root is always visited. */
static void each_group(const char *controller, void (*fn)(const char *dir, void *ctx), void *ctx) {
    char line[4200], path[4096] = "/", dir[4352];
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) return;
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *where = names ? strchr(names + 1, ':') : NULL;
        if (!where) continue;
        *where++ = 0;
        names++;
        if (!*controller) {
            found = !*names;
        } else {
            for (char *save = NULL, *t = strtok_r(names, ",", &save); t; t = strtok_r(NULL, ",", &save))
                found |= !strcmp(t, controller);
        }
        if (found) snprintf(path, sizeof path, "%.4000s", where);
    }
    fclose(f);
    if (!found || strstr(path, "..")) return;
    for (;;) {
        snprintf(dir, sizeof dir, "/sys/fs/cgroup%s%s%s", *controller ? "/" : "", controller, path);
        fn(dir, ctx);
        char *slash = strrchr(path, '/');
        if (!slash || !*path) break;
        *slash = 0; /* the last round has the empty path: the root */
    }
}

static void cpu_v2(const char *dir, void *ctx) {
    double *limit = ctx;
    char path[4400], buf[128];
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    long long quota, period;
    if (read_text(path, buf, sizeof buf) && sscanf(buf, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0 &&
        (double)quota / (double)period < *limit)
        *limit = (double)quota / (double)period;
}

static void cpu_v1(const char *dir, void *ctx) {
    double *limit = ctx;
    char path[4400];
    int64_t quota, period;
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
    if (!read_number(path, &quota) || quota <= 0) return;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    if (read_number(path, &period) && period > 0 && (double)quota / (double)period < *limit)
        *limit = (double)quota / (double)period;
}

static void memory_room(const char *dir, const char *max_name, const char *used_name, uint64_t *room) {
    char path[4400];
    int64_t max, used;
    snprintf(path, sizeof path, "%s/%s", dir, max_name);
    if (!read_number(path, &max)) return;
    snprintf(path, sizeof path, "%s/%s", dir, used_name);
    if (!read_number(path, &used)) return;
    uint64_t left = used < max ? (uint64_t)(max - used) : 0;
    if (left < *room) *room = left;
}

static void memory_v2(const char *dir, void *ctx) { memory_room(dir, "memory.max", "memory.current", ctx); }

static void memory_v1(const char *dir, void *ctx) {
    memory_room(dir, "memory.limit_in_bytes", "memory.usage_in_bytes", ctx);
}

/* ---- cores --------------------------------------------------------------------------------------------------------- */

/* Whether a lower-numbered processor of the mask shares cpu's core. */
static bool is_sibling(int cpu, const cpu_set_t *mask, size_t size) {
    char path[96], buf[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (!read_text(path, buf, sizeof buf)) return false;
    for (char *save = NULL, *t = strtok_r(buf, ",\n", &save); t; t = strtok_r(NULL, ",\n", &save)) {
        int a, b;
        int got = sscanf(t, "%d-%d", &a, &b);
        if (got < 1) return false;
        if (got == 1) b = a;
        for (int c = a; c <= b && c < cpu; c++)
            if (c >= 0 && CPU_ISSET_S((size_t)c, size, mask)) return true;
    }
    return false;
}

uint32_t ie_cores_available(void) {
    uint32_t cores = 0;
    enum { MAX_CPUS = 8192 };
    size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *mask = CPU_ALLOC(MAX_CPUS);
    if (mask) {
        CPU_ZERO_S(size, mask);
        if (sched_getaffinity(0, size, mask) == 0)
            for (int c = 0; c < MAX_CPUS; c++)
                if (CPU_ISSET_S((size_t)c, size, mask) && !is_sibling(c, mask, size)) cores++;
        CPU_FREE(mask);
    }
    if (!cores) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        cores = n > 0 ? (uint32_t)n : 1;
    }
    double quota = 1e9;
    each_group("", cpu_v2, &quota);
    each_group("cpu", cpu_v1, &quota);
    if (quota < (double)cores) {
        cores = (uint32_t)quota;
        if ((double)cores < quota) cores++;
    }
    return cores < 1 ? 1 : cores > IE_POOL_MAX ? IE_POOL_MAX : cores;
}

uint64_t ie_memory_available(void) {
    uint64_t room = UINT64_MAX;
    FILE *f = fopen("/proc/meminfo", "re");
    if (f) {
        char line[256];
        unsigned long long kb;
        while (fgets(line, sizeof line, f))
            if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1) room = (uint64_t)kb * 1024;
        fclose(f);
    }
    each_group("", memory_v2, &room);
    each_group("memory", memory_v1, &room);
    return room == UINT64_MAX ? 0 : room;
}
