/* The architectures of this build: a new one is a file and a row here. */
#include <string.h>

#include "model.h"

static const ie_arch *const archs[] = {&ie_arch_llama, &ie_arch_qwen2, &ie_arch_qwen3, &ie_arch_qwen35};

const ie_arch *ie_arch_find(ie_str name) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strlen(archs[i]->name) == name.len && memcmp(archs[i]->name, name.s, name.len) == 0) return archs[i];
    return NULL;
}

const char *ie_arch_list(void) { return "llama, qwen2, qwen3, qwen35"; }
