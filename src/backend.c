#include "backend.h"

#include <string.h>

typedef struct {
    const char *name;
    ie_backend *(*open)(const ie_backend_params *p, ie_error *err);
} backend_row;

/* In the order in which "auto" tries them. */
static const backend_row backends[] = {
    {"cpu", ie_cpu_open},
};

ie_backend *ie_backend_open(const char *name, const ie_backend_params *p, ie_error *err) {
    bool any = !name || strcmp(name, "auto") == 0;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (!any && strcmp(name, backends[i].name) != 0) continue;
        ie_backend *be = backends[i].open(p, err);
        if (be || !any) return be;
    }
    if (!any) ie_fail(err, IE_E_ARG, "backend '%.40s': must be auto or cpu", name);
    return NULL;
}
