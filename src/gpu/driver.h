/* What the GPU backend needs of a vendor's driver: HIP's module API and CUDA's driver API have the same shapes, so one table of
 * entry points serves both. driver_hip.c and driver_cuda.c say how the libraries are found, which cards do, and what their
 * failures mean; driver.c is everything else. The libraries are opened at run time: nothing of ROCm or CUDA is needed to build
 * or to start.
 *
 * All calls but open and close may be made by any thread after gpu_bind in that thread. Failures: IE_E_NOMEM where memory is
 * short, else IE_E_DEVICE with the entry point's name and the driver's words. */
#ifndef IE_DRIVER_H
#define IE_DRIVER_H

#include "gpu.h"

typedef enum { GPU_HIP, GPU_CUDA, GPU_VENDORS } gpu_vendor;
typedef struct gpu_driver gpu_driver;
/* How a launch stands to the one before it in its stream. GPU_OVERLAP: it may begin while that one runs, and waits in the kernel (gpu.h of
 * the kernels: ie_dep_wait); where the card cannot, the same as GPU_PLAIN. Not right after a copy. */
typedef enum { GPU_PLAIN, GPU_COOPERATIVE, GPU_OVERLAP } gpu_launch_mode;
typedef void *gpu_stream, *gpu_event, *gpu_graph, *gpu_module, *gpu_function;

extern const char *const gpu_vendor_names[GPU_VENDORS]; /* "hip", "cuda" */

/* Opens a vendor's library and one of its devices, -1: the first that this engine can use. NULL with one line in *err: library
 * missing, no device, no permission, a card or driver that is too old. */
gpu_driver *gpu_driver_open(gpu_vendor v, int32_t device, ie_error *err);
void gpu_driver_close(gpu_driver *d); /* NULL is allowed; what was allocated has to be freed before */

/* One line for each device of a vendor: number, name, architecture, memory, and why it cannot be used where that is so; or why
 * there is none. */
ie_status gpu_driver_list(gpu_vendor v, ie_buf *out, ie_error *err);

gpu_vendor gpu_driver_vendor(const gpu_driver *d);
const gpu_card *gpu_driver_card(const gpu_driver *d);
ie_status gpu_bind(gpu_driver *d, ie_error *err); /* the device becomes the calling thread's */

/* ---- memory -------------------------------------------------------------------------------------------------------- */

ie_status gpu_mem_info(gpu_driver *d, uint64_t *free_bytes, uint64_t *total, ie_error *err);
/* Contents undefined; at least 256-byte aligned. IE_E_NOMEM names what, need and have. */
ie_status gpu_alloc(gpu_driver *d, uint64_t bytes, const char *what, gpu_ptr *out, ie_error *err);
void gpu_free(gpu_driver *d, gpu_ptr p); /* 0 is allowed */
ie_status gpu_host_alloc(gpu_driver *d, uint64_t bytes, void **out, ie_error *err); /* pinned */
void gpu_host_free(gpu_driver *d, void *p);
/* In stream order. From pinned memory they return at once; the memory must stay until the stream has passed them. */
ie_status gpu_upload(gpu_driver *d, gpu_ptr dst, const void *src, uint64_t bytes, gpu_stream s, ie_error *err);
ie_status gpu_download(gpu_driver *d, void *dst, gpu_ptr src, uint64_t bytes, gpu_stream s, ie_error *err);
ie_status gpu_copy(gpu_driver *d, gpu_ptr dst, gpu_ptr src, uint64_t bytes, gpu_stream s, ie_error *err);
ie_status gpu_fill(gpu_driver *d, gpu_ptr dst, uint8_t value, uint64_t bytes, gpu_stream s, ie_error *err);

/* ---- code ---------------------------------------------------------------------------------------------------------- */

/* Parts of a code: the kernels of a weight format (its number in the enum), and those of cards with copies; attention of a head size (gpu_attn_size), the
 * kernels that any card may launch and those of cards without copies; attention of any head; recurrent layers; dot4 of several
 * tokens, all formats; what every model needs. modules.h loads what is needed. */
enum {
    GPU_PART_STREAM = IE_F_COUNT,
    GPU_PART_ATTN = GPU_PART_STREAM + IE_F_COUNT,
    GPU_PART_ATTN_PLAIN = GPU_PART_ATTN + GPU_ATTN_SIZES,
    GPU_PART_ATTN_ANY = GPU_PART_ATTN_PLAIN + GPU_ATTN_SIZES,
    GPU_PART_GDN,
    GPU_PART_DOT4,
    GPU_PART_REST,
    GPU_PARTS,
    GPU_PART_ALL = GPU_PARTS
};
uint32_t gpu_kernel_part(const char *kernel, size_t n); /* by a kernel's name, n bytes */
/* Whether the driver can be given a code by parts: text that it compiles. */
bool gpu_in_parts(const gpu_driver *d, const void *image);
/* image: a code object (HIP), PTX text with its NUL (CUDA), which the driver compiles, or what has been compiled for the card; part: which kernels
 * of it, GPU_PART_ALL where it cannot be given by parts; name: for messages. */
ie_status gpu_module_load(gpu_driver *d, const void *image, uint32_t part, const char *name, gpu_module *out, ie_error *err);
void gpu_module_unload(gpu_driver *d, gpu_module m);
ie_status gpu_function_get(gpu_driver *d, gpu_module m, const char *name, gpu_function *out, ie_error *err);
/* The kernel's one argument is a struct by value: l->args. Cooperative: all workgroups are resident at once. */
ie_status gpu_launch_run(gpu_driver *d, gpu_function f, const gpu_launch *l, gpu_launch_mode mode, gpu_stream s, ie_error *err);

/* ---- order and time -------------------------------------------------------------------------------------------------- */

ie_status gpu_stream_new(gpu_driver *d, gpu_stream *out, ie_error *err);
void gpu_stream_free(gpu_driver *d, gpu_stream s);
ie_status gpu_stream_sync(gpu_driver *d, gpu_stream s, ie_error *err);
ie_status gpu_stream_wait(gpu_driver *d, gpu_stream s, gpu_event e, ie_error *err);
ie_status gpu_event_new(gpu_driver *d, gpu_event *out, ie_error *err);
void gpu_event_free(gpu_driver *d, gpu_event e);
ie_status gpu_event_record(gpu_driver *d, gpu_event e, gpu_stream s, ie_error *err);
ie_status gpu_event_sync(gpu_driver *d, gpu_event e, ie_error *err);
ie_status gpu_event_ms(gpu_driver *d, gpu_event from, gpu_event to, float *ms, ie_error *err);

/* Between begin and end the stream's launches and copies are recorded instead of run. */
ie_status gpu_capture_begin(gpu_driver *d, gpu_stream s, ie_error *err);
ie_status gpu_capture_end(gpu_driver *d, gpu_stream s, gpu_graph *out, ie_error *err);
ie_status gpu_graph_launch(gpu_driver *d, gpu_graph g, gpu_stream s, ie_error *err);
void gpu_graph_free(gpu_driver *d, gpu_graph g);

#endif
