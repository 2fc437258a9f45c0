#include <sys/mman.h>

#include "cpu.h"

#define HUGE_PAGE (2u << 20)
#define SMALL_PAGE 4096u

/* Large ranges begin at a multiple of 2 MB, so that huge pages can hold all of them. */
ie_status cpu_memory_get(cpu_memory *m, uint64_t bytes, const char *what, ie_error *err) {
    *m = (cpu_memory){0};
    if (!bytes) return IE_OK;
    uint64_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
    void *p = MAP_FAILED;
    if (bytes <= PTRDIFF_MAX - HUGE_PAGE)
        p = mmap(NULL, (size_t)(bytes + align), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return ie_fail(err, IE_E_NOMEM, "%s: no memory for %llu bytes", what, (unsigned long long)bytes);
    uint8_t *at = p;
    if (align) at += (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
#ifdef MADV_HUGEPAGE
    if (align) madvise(at, (size_t)bytes, MADV_HUGEPAGE); /* fewer TLB misses; refused where not compiled in */
#endif
    *m = (cpu_memory){.p = at, .bytes = bytes, .map = p, .map_bytes = bytes + align};
    return IE_OK;
}

void cpu_memory_touch(const cpu_memory *m, uint64_t bytes) {
    volatile uint8_t *p = m->p;
    for (uint64_t i = 0; i < m->bytes && i < bytes; i += SMALL_PAGE) p[i] = 0;
}

void cpu_memory_put(cpu_memory *m) {
    if (m->map) munmap(m->map, (size_t)m->map_bytes);
    *m = (cpu_memory){0};
}
