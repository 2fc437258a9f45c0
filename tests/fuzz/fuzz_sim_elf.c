/* Code objects from outside: any bytes must give a module or an error. What loads is also decoded to threaded code, looked up and,
 * for each kernel, run for a short while. */
#include <stdlib.h>

#include "../../sim/exec.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t n);

int LLVMFuzzerTestOneInput(const u8 *data, size_t n) {
    static sim_device dev;
    if (!dev.mem) {
        dev.mem = sim_memory_new(false, NULL);
        if (!dev.mem) abort();
        dev.opt.threads = 1;
        dev.opt.limit = 2000;
    }
    sim_error err = {{0}};
    sim_module *m = sim_module_load(dev.mem, data, n, &err);
    if (!m) {
        if (!err.text[0]) abort(); /* an error must say something */
        return 0;
    }
    const char *file;
    u32 line;
    if (m->lines) sim_line_at(m->lines, m->link_base, &file, &line);
    for (u32 i = 0; i < m->n_kernels && i < 4; i++) {
        sim_kernel *k = &m->kernels[i];
        sim_launch c = {{1, 1, 1}, {33, 1, 1}, 0, false};
        u8 args[64] = {0};
        sim_error e = {{0}};
        if (sim_module_kernel(m, k->name) && k->scratch < 65536) sim_run(&dev, m, k, &c, args, sizeof args, &e);
    }
    sim_module_free(m);
    return 0;
}
