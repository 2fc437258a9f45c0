#include <sys/mman.h>

#include "cpu.h"

ie_status cpu_memory_get(cpu_memory *m, uint64_t bytes, const char *what, ie_error *err) {
    *m = (cpu_memory){0};
    if (!bytes) return IE_OK;
    void *p = MAP_FAILED;
    if (bytes <= PTRDIFF_MAX)
        p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return ie_fail(err, IE_E_NOMEM, "%s: no memory for %llu bytes", what, (unsigned long long)bytes);
#ifdef MADV_HUGEPAGE
    if (bytes >= 2u << 20) madvise(p, (size_t)bytes, MADV_HUGEPAGE); /* fewer TLB misses; refused where not compiled in */
#endif
    *m = (cpu_memory){p, bytes};
    return IE_OK;
}

void cpu_memory_put(cpu_memory *m) {
    if (m->p) munmap(m->p, (size_t)m->bytes);
    *m = (cpu_memory){0};
}
