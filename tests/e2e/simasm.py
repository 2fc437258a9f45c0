"""Modules of gfx1201 assembly: from the instructions of kernels to a source with descriptors and metadata.

A kernel's arguments begin with two pointers and two words (rows of inputs, rows of results, EXEC of the case, a word more). They are in s[0:1]; a row
of 32 bytes belongs to each lane, lane numbers counted over all waves: `LOAD` brings it."""

# v31: lane. v30: 32 * lane. {more}: further instructions before the loads are waited for.
LOAD = """
  v_and_b32_e32 v31, 0x3ff, v0
  s_wait_kmcnt 0x0
  v_lshl_add_u32 v31, ttmp9, 5, v31
  v_lshlrev_b32_e32 v30, 5, v31
  global_load_b128 v[0:3], v30, s[4:5]
  global_load_b128 v[4:7], v30, s[4:5] offset:16{more}
  s_wait_loadcnt 0x0"""
STORE = """
  global_store_b128 v30, v[8:11], s[6:7]
  global_store_b128 v30, v[12:15], s[6:7] offset:16
  s_endpgm"""
KERNEL = """
.globl {name}
.p2align 8
.type {name},@function
{name}:{body}
.L{name}_end:
.size {name}, .L{name}_end-{name}
.rodata
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_kernarg_size {bytes}
  .amdhsa_user_sgpr_count 2
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
{more}  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr {sgprs}
{modes}  .amdhsa_wavefront_size32 1
.end_amdhsa_kernel
.text
"""
META = """  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {bytes}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 32
    .sgpr_count: {sgprs}
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 32
    .args:
{args}"""
POINTER = "      - {{.offset: {}, .size: 8, .value_kind: global_buffer, .address_space: global}}\n"
WORD = "      - {{.offset: {}, .size: 4, .value_kind: by_value}}\n"


def module(bodies, vgprs, sgprs, lds=0, scratch=0, denormals=False, pointer=False):
    """Assembly of kernels k0, k1, ... with these bodies. denormals: f32 ones are kept from the start. pointer: the arguments end
    with one more pointer."""
    args = POINTER.format(0) + POINTER.format(8) + WORD.format(16) + WORD.format(20) + (POINTER.format(24) if pointer else "")
    more = f"  .amdhsa_group_segment_fixed_size {lds}\n" if lds else ""
    if scratch:
        more += f"  .amdhsa_private_segment_fixed_size {scratch}\n  .amdhsa_enable_private_segment 1\n"
    modes = "  .amdhsa_float_denorm_mode_32 3\n  .amdhsa_float_denorm_mode_16_64 3\n" if denormals else ""
    sizes = {"bytes": 32 if pointer else 24, "lds": lds, "scratch": scratch, "vgprs": vgprs, "sgprs": sgprs, "args": args, "more": more, "modes": modes}
    text = '.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"\n.amdhsa_code_object_version 5\n.text\n'
    meta = "---\namdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--gfx1201\namdhsa.kernels:\n"
    for i, body in enumerate(bodies):
        text += KERNEL.format(name=f"k{i}", body=body, **sizes)
        meta += META.format(name=f"k{i}", **sizes)
    return text + ".amdgpu_metadata\n" + meta + "...\n.end_amdgpu_metadata\n"
