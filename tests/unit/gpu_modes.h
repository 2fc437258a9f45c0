/* Tests of kernels in each of the simulator's modes. */
#ifndef GPU_MODES_H
#define GPU_MODES_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The simulator reads its modes once, so each is a process of its own. */
static inline int modes_one(const char *name, const char *value, int (*run_all)(void), bool *small) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv(name, value, 1);
        *small = true;
        int failed = run_all();
        fflush(NULL);
        _exit(failed ? 1 : 0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status) printf("%s=%s: failed\n", name, value);
    return status != 0;
}

/* run_all in each checking mode, with *small set, since these are slow; then without a mode. Not 0: something failed. */
static inline int modes_all(int (*run_all)(void), bool *small) {
    static const char *const modes[][2] = {{"IE_SIM_ULP", "1"},    {"IE_SIM_ULP", "2"},  {"IE_SIM_ULP", "3"},
                                           {"IE_SIM_STRICT", "1"}, {"IE_SIM_RACE", "1"}, {"IE_SIM_WEAK", "2"}};
    int failed = 0;
    if (getenv("IE_GPU_TEST") || getenv("IE_GPU_LIB")) return run_all(); /* a card has no modes */
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) failed |= modes_one(modes[i][0], modes[i][1], run_all, small);
    return failed | run_all();
}

#endif
