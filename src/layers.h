/* Which layer a weight belongs to, and how many layers a memory holds (--gpu-layers). */
#ifndef IE_LAYERS_H
#define IE_LAYERS_H

#include "model/weights.h"

/* The layer in a tensor's name, "blk.N....", -1 outside layers. */
int32_t ie_layer_of(const char *name);
/* The largest N such that the placed weights of the first N layers take at most `bytes`. */
uint32_t ie_layers_fitting(const ie_weights *w, uint64_t bytes);

#endif
