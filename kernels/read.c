/* ie_read: reads n times 16 bytes and nothing else: what gemv_bench compares with. Launch: 256 lanes, x = any number of workgroups; each lane
 * has 8 loads under way. *out takes a value that the data do not have, so that the loads are needed. */
#include "gpu.h"

IE_KERNEL(256) ie_read(ie_abi_read a) {
    ie_dep();
    uint32_t at = ie_wg_x() * 256u + ie_tid(), step = a.groups * 256u, acc = 0;
    for (; at + 7u * step < a.n; at += 8u * step) {
        ie_u4 v[8];
#pragma unroll
        for (uint32_t k = 0; k < 8u; k++) v[k] = ie_load16(a.p + (uint64_t)(at + k * step) * 4u);
#pragma unroll
        for (uint32_t k = 0; k < 8u; k++) acc |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    for (; at < a.n; at += step) {
        ie_u4 v = ie_load16(a.p + (uint64_t)at * 4u);
        acc |= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (acc == a.never) *a.out = acc;
}
