; What Debian's clang 19.1.7 makes at -O3 of a wave's sum followed by a store of lane 0:
;
;     float x = a[TID_X];
;     x += DPP_F(x, 0x161); x += DPP_F(x, 0x162); x += DPP_F(x, 0x164); x += DPP_F(x, 0x168);
;     x += other_row(x);
;     if (TID_X == 0) o[0] = x;
;
; It is wrong: v_permlanex16_b32 has been moved below the branch, where the lane that it reads is off (fixed in LLVM 21). Kept as
; that compiler's output, so that the test does not need it; tests/e2e/test_sim_faults.py has the machine words.
	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"
	.amdhsa_code_object_version 5
	.globl	wave_total
	.p2align	8
	.type	wave_total,@function
wave_total:
	s_load_b128 s[0:3], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_wait_kmcnt 0x0
	global_load_b32 v1, v1, s[0:1]
	s_mov_b32 s0, exec_lo
	s_wait_loadcnt 0x0
	v_add_f32_dpp v1, v1, v1 row_xmask:1 row_mask:0xf bank_mask:0xf bound_ctrl:1
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_f32_dpp v1, v1, v1 row_xmask:2 row_mask:0xf bank_mask:0xf bound_ctrl:1
	v_add_f32_dpp v1, v1, v1 row_xmask:4 row_mask:0xf bank_mask:0xf bound_ctrl:1
	s_delay_alu instid0(VALU_DEP_1)
	v_mov_b32_dpp v2, v1 row_xmask:8 row_mask:0xf bank_mask:0xf bound_ctrl:1
	v_cmpx_eq_u32_e32 0, v0
	s_cbranch_execz .LBB0_2
; lane 0 alone from here on
	s_delay_alu instid0(VALU_DEP_2) | instskip(SKIP_1) | instid1(VALU_DEP_1)
	v_add_f32_e32 v0, v1, v2
	s_mov_b32 s0, 0x76543210
	v_dual_mov_b32 v2, 0 :: v_dual_mov_b32 v1, v0
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_permlanex16_b32 v1, v1, s0, 0xfedcba98
	v_add_f32_e32 v0, v0, v1
	global_store_b32 v2, v0, s[2:3]
.LBB0_2:
	s_nop 0
	s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel wave_total
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 16
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_wavefront_size32 1
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 3
		.amdhsa_next_free_sgpr 4
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_float_denorm_mode_16_64 3
		.amdhsa_workgroup_processor_mode 1
		.amdhsa_memory_ordered 1
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	wave_total, .Lfunc_end0-wave_total
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .address_space:  generic
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  generic
        .offset:         8
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: 1024
    .name:           wave_total
    .private_segment_fixed_size: 0
    .sgpr_count:     4
    .sgpr_spill_count: 0
    .symbol:         wave_total.kd
    .uses_dynamic_stack: false
    .vgpr_count:     3
    .vgpr_spill_count: 0
    .wavefront_size: 32
    .workgroup_processor_mode: 1
amdhsa.target:   amdgcn-amd-amdhsa--gfx1201
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
