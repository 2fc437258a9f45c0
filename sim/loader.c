/* AMD GPU code objects: 64-bit little-endian ELF shared objects for the amdhsa system, ABI versions 5 and 6 (ELF ABI bytes 3
 * and 4), with kernels described by a 64-byte descriptor (symbol NAME.kd) and MessagePack metadata in a note. */
#include <stdlib.h>
#include <string.h>

#include "msgpack.h"

#define MAX_IMAGE (1ull << 30)
#define EF_MACH_GFX1201 0x4Eu
#define EF_MACH_GFX12_GENERIC 0x59u

typedef struct {
    const u8 *d; /* the file */
    u64 n;
    sim_module *m;
    u64 lo, hi; /* link addresses of the image */
    u64 dyn_off, dyn_n;
    u64 note_off, note_n;
    u64 symtab, strtab, strsz, rela, relasz, hash, nsyms;
    sim_error *err;
} loader;

static u16 rd16(const u8 *p) { return (u16)(p[0] | p[1] << 8); }
static u32 rd32(const u8 *p) {
    u32 v;
    memcpy(&v, p, 4);
    return v;
}
static u64 rd64(const u8 *p) {
    u64 v;
    memcpy(&v, p, 8);
    return v;
}

/* Bytes [addr, addr + n) of the loaded image (link addresses), or NULL. */
static u8 *image_at(const loader *l, u64 addr, u64 n) {
    if (addr < l->lo || addr > l->hi || n > l->hi - addr) return NULL;
    return (u8 *)(uintptr_t)(l->m->base + (addr - l->lo));
}

static bool file_has(const loader *l, u64 off, u64 n) { return off <= l->n && n <= l->n - off; }

static bool read_header(loader *l) {
    if (l->n < 64 || memcmp(l->d, "\177ELF", 4)) return sim_fail(l->err, "code object: not an ELF file");
    const u8 *h = l->d;
    if (h[4] != 2 || h[5] != 1) return sim_fail(l->err, "code object: not a 64-bit little-endian ELF file");
    if (h[7] != 64) return sim_fail(l->err, "code object: OS/ABI is %u, expected 64 (amdhsa)", h[7]);
    if (h[8] != 3 && h[8] != 4)
        return sim_fail(l->err, "code object: ELF ABI version is %u, expected 3 (code object 5) or 4 (code object 6)", h[8]);
    if (rd16(h + 16) != 3) return sim_fail(l->err, "code object: ELF type is %u, expected 3 (shared object)", rd16(h + 16));
    if (rd16(h + 18) != 224) return sim_fail(l->err, "code object: ELF machine is %u, expected 224 (AMD GPU)", rd16(h + 18));
    u32 mach = rd32(h + 48) & 0xFF;
    if (mach != EF_MACH_GFX1201 && mach != EF_MACH_GFX12_GENERIC)
        return sim_fail(l->err, "code object: processor number is 0x%x, expected 0x4e (gfx1201) or 0x59 (gfx12-generic)", mach);
    l->m->abi = h[8] == 3 ? 5 : 6;
    return true;
}

static bool segment_range(loader *l, const u8 *ph, u32 n) {
    l->lo = ~0ull;
    for (u32 i = 0; i < n; i++, ph += 56) {
        u32 type = rd32(ph);
        u64 off = rd64(ph + 8), va = rd64(ph + 16), fsz = rd64(ph + 32), msz = rd64(ph + 40);
        if (type != 1 && type != 2 && type != 4) continue;
        if (!file_has(l, off, fsz)) return sim_fail(l->err, "code object: program header %u reaches past the end of the file", i);
        if (type == 2) {
            l->dyn_off = off;
            l->dyn_n = fsz;
        } else if (type == 4) {
            l->note_off = off;
            l->note_n = fsz;
        } else {
            if (msz < fsz || va > MAX_IMAGE || msz > MAX_IMAGE)
                return sim_fail(l->err, "code object: program header %u has address 0x%llx and size 0x%llx, at most 1 GiB", i,
                                (unsigned long long)va, (unsigned long long)msz);
            if (va < l->lo) l->lo = va;
            if (va + msz > l->hi) l->hi = va + msz;
        }
    }
    if (l->hi == 0 || l->lo >= l->hi) return sim_fail(l->err, "code object: nothing to load");
    l->lo &= ~0xFFFull;
    return true;
}

static bool load_segments(loader *l) {
    const u8 *h = l->d;
    u64 phoff = rd64(h + 32);
    u32 phn = rd16(h + 56);
    if (phn && rd16(h + 54) != 56) return sim_fail(l->err, "code object: program headers of %u bytes, expected 56", rd16(h + 54));
    if (!file_has(l, phoff, 56ull * phn)) return sim_fail(l->err, "code object: program headers past the end of the file");
    const u8 *ph = h + phoff;
    if (!segment_range(l, ph, phn)) return false;
    sim_module *m = l->m;
    m->size = l->hi - l->lo;
    m->link_base = l->lo;
    m->base = sim_malloc(m->mem, m->size, "code object", l->err);
    if (!m->base) return false;
    for (u32 i = 0; i < phn; i++, ph += 56) {
        if (rd32(ph) != 1) continue;
        u64 va = rd64(ph + 16), fsz = rd64(ph + 32), msz = rd64(ph + 40);
        u8 *to = image_at(l, va, msz);
        if (!to) return sim_fail(l->err, "code object: program header %u outside the image", i);
        if (fsz) memcpy(to, h + rd64(ph + 8), fsz);
        sim_mark_written(m->mem, (u64)(uintptr_t)to, msz);
        if (rd32(ph + 4) & 1) {
            if (m->text_hi) return sim_fail(l->err, "code object: two executable segments");
            if (va & 3) return sim_fail(l->err, "code object: executable segment at 0x%llx, must be a multiple of 4", (unsigned long long)va);
            m->text_lo = (u64)(uintptr_t)to;
            m->text_hi = m->text_lo + (fsz & ~3ull);
        }
    }
    return true;
}

static bool read_dynamic(loader *l) {
    for (u64 o = 0; o + 16 <= l->dyn_n; o += 16) {
        u64 tag = rd64(l->d + l->dyn_off + o), v = rd64(l->d + l->dyn_off + o + 8);
        if (tag == 0) break;
        if (tag == 4) l->hash = v;
        if (tag == 5) l->strtab = v;
        if (tag == 6) l->symtab = v;
        if (tag == 7) l->rela = v;
        if (tag == 8) l->relasz = v;
        if (tag == 10) l->strsz = v;
        if (tag == 17 || tag == 20 || tag == 23)
            return sim_fail(l->err, "code object: dynamic tag %llu (REL or PLT relocations) is not supported", (unsigned long long)tag);
    }
    if (!l->symtab) return true;
    const u8 *hash = l->hash ? image_at(l, l->hash, 8) : NULL;
    if (!hash) return sim_fail(l->err, "code object: no symbol hash table");
    l->nsyms = rd32(hash + 4);
    if (!image_at(l, l->symtab, 24 * l->nsyms) || !image_at(l, l->strtab, l->strsz) || l->strsz == 0 ||
        *image_at(l, l->strtab + l->strsz - 1, 1) != 0)
        return sim_fail(l->err, "code object: symbol table or its names outside the image");
    return true;
}

static const char *sym_name(const loader *l, const u8 *sym) {
    u32 o = rd32(sym);
    return o < l->strsz ? (const char *)image_at(l, l->strtab + o, 1) : "";
}

static bool read_symbols(loader *l) {
    sim_module *m = l->m;
    m->syms = calloc(l->nsyms ? l->nsyms : 1, sizeof *m->syms);
    if (!m->syms) return sim_fail(l->err, "simulator: out of memory");
    for (u64 i = 1; i < l->nsyms; i++) {
        const u8 *s = image_at(l, l->symtab + 24 * i, 24);
        u64 v = rd64(s + 8), size = rd64(s + 16);
        u32 shndx = rd16(s + 6);
        if (shndx == 0 || shndx == 0xFFF1) continue;
        if (!image_at(l, v, size)) return sim_fail(l->err, "code object: symbol %s outside the image", sym_name(l, s));
        sim_symbol *d = &m->syms[m->n_syms];
        d->name = strdup(sym_name(l, s));
        if (!d->name) return sim_fail(l->err, "simulator: out of memory");
        d->addr = m->base + (v - l->lo);
        d->size = size;
        d->func = (s[4] & 15) == 2;
        m->n_syms++;
    }
    return true;
}

/* Relocation types of the AMD GPU ABI that a linked object may still hold. */
static bool relocate(loader *l) {
    if (l->relasz == 0) return true;
    const u8 *r = image_at(l, l->rela, l->relasz);
    if (!r) return sim_fail(l->err, "code object: relocations outside the image");
    for (u64 i = 0; i + 24 <= l->relasz; i += 24) {
        u64 off = rd64(r + i), info = rd64(r + i + 8), add = rd64(r + i + 16), sym = info >> 32;
        u32 type = (u32)info;
        u64 s = 0;
        if (sym) {
            if (sym >= l->nsyms) return sim_fail(l->err, "code object: relocation %llu names symbol %llu of %llu",
                                                 (unsigned long long)(i / 24), (unsigned long long)sym, (unsigned long long)l->nsyms);
            const u8 *e = image_at(l, l->symtab + 24 * sym, 24);
            if (rd16(e + 6) == 0) {
                if (e[4] >> 4 != 2) return sim_fail(l->err, "code object: undefined symbol %s", sym_name(l, e));
            } else {
                s = l->m->base + (rd64(e + 8) - l->lo);
            }
        }
        u64 width = type == 3 || type == 5 || type == 13 ? 8 : 4;
        u8 *to = image_at(l, off, width);
        if (!to) return sim_fail(l->err, "code object: relocation %llu outside the image", (unsigned long long)(i / 24));
        u64 p = (u64)(uintptr_t)to, v;
        switch (type) {
        case 0: continue;
        case 1: v = (u32)(s + add); break;
        case 2: v = (s + add) >> 32; break;
        case 3: v = s + add; break;
        case 4:
        case 10: v = (u32)(s + add - p); break;
        case 5: v = s + add - p; break;
        case 6: v = (u32)(s + add); break;
        case 11: v = (s + add - p) >> 32; break;
        case 13: v = l->m->base + (add - l->lo); break;
        default: return sim_fail(l->err, "code object: relocation type %u is not supported", type);
        }
        memcpy(to, &v, (size_t)width);
    }
    return true;
}

static const struct {
    const char *name;
    enum sim_arg_kind kind;
} ARG_KINDS[] = {
    {"by_value", SIM_ARG_VALUE},
    {"global_buffer", SIM_ARG_BUFFER},
    {"dynamic_shared_pointer", SIM_ARG_DYN_LDS},
    {"image", SIM_ARG_BUFFER},
    {"sampler", SIM_ARG_BUFFER},
    {"pipe", SIM_ARG_BUFFER},
    {"queue", SIM_ARG_BUFFER},
    {"hidden_block_count_x", SIM_ARG_BLOCK_COUNT_X},
    {"hidden_block_count_y", SIM_ARG_BLOCK_COUNT_Y},
    {"hidden_block_count_z", SIM_ARG_BLOCK_COUNT_Z},
    {"hidden_group_size_x", SIM_ARG_GROUP_SIZE_X},
    {"hidden_group_size_y", SIM_ARG_GROUP_SIZE_Y},
    {"hidden_group_size_z", SIM_ARG_GROUP_SIZE_Z},
    {"hidden_remainder_x", SIM_ARG_REMAINDER_X},
    {"hidden_remainder_y", SIM_ARG_REMAINDER_Y},
    {"hidden_remainder_z", SIM_ARG_REMAINDER_Z},
    {"hidden_global_offset_x", SIM_ARG_OFFSET_X},
    {"hidden_global_offset_y", SIM_ARG_OFFSET_Y},
    {"hidden_global_offset_z", SIM_ARG_OFFSET_Z},
    {"hidden_grid_dims", SIM_ARG_GRID_DIMS},
    {"hidden_private_base", SIM_ARG_PRIVATE_BASE},
    {"hidden_shared_base", SIM_ARG_SHARED_BASE},
    {"hidden_dynamic_lds_size", SIM_ARG_DYN_LDS_SIZE},
};

static bool bad_metadata(loader *l) { return sim_fail(l->err, "code object: malformed kernel metadata"); }

static bool read_arg(loader *l, mp_reader *r, sim_arg *a) {
    mp_value map = mp_next(r);
    if (map.type != MP_MAP) return bad_metadata(l);
    a->kind = SIM_ARG_ZERO;
    bool hidden = true;
    for (u64 i = 0; i < map.num; i++) {
        mp_value key = mp_next(r);
        if (mp_is(&key, ".offset") || mp_is(&key, ".size")) {
            mp_value v = mp_next(r);
            if (v.type != MP_INT || v.num > 1u << 20) return bad_metadata(l);
            if (mp_is(&key, ".offset")) a->offset = (u32)v.num;
            else a->size = (u32)v.num;
        } else if (mp_is(&key, ".value_kind")) {
            mp_value v = mp_next(r);
            for (size_t k = 0; k < sizeof ARG_KINDS / sizeof *ARG_KINDS; k++)
                if (mp_is(&v, ARG_KINDS[k].name)) a->kind = ARG_KINDS[k].kind;
            hidden = v.type == MP_STR && v.num > 7 && !memcmp(v.str, "hidden_", 7);
            if (a->kind == SIM_ARG_ZERO && !hidden)
                return sim_fail(l->err, "code object: kernel argument of unknown kind '%.*s'", v.type == MP_STR ? (int)v.num : 0,
                                v.str);
        } else if (!mp_skip(r)) {
            return bad_metadata(l);
        }
    }
    return true;
}

static bool read_args(loader *l, mp_reader *r, sim_kernel *k) {
    mp_value arr = mp_next(r);
    if (arr.type != MP_ARRAY || arr.num > 4096) return bad_metadata(l);
    free(k->args);
    k->n_args = 0;
    k->n_explicit = 0;
    k->args = calloc(arr.num ? arr.num : 1, sizeof *k->args);
    if (!k->args) return sim_fail(l->err, "simulator: out of memory");
    for (u64 i = 0; i < arr.num; i++) {
        if (!read_arg(l, r, &k->args[i])) return false;
        k->n_args++;
        if (k->args[i].kind <= SIM_ARG_DYN_LDS) k->n_explicit = (u32)i + 1;
    }
    return true;
}

static bool add_kernel(loader *l, sim_kernel *k, const char *kd_name) {
    const sim_symbol *s = sim_module_symbol(l->m, kd_name);
    if (!s || s->size != 64) return sim_fail(l->err, "code object: kernel %s has no descriptor %s", k->name ? k->name : "?", kd_name);
    const u8 *d = (const u8 *)(uintptr_t)s->addr;
    k->lds = rd32(d);
    k->scratch = rd32(d + 4);
    k->kernarg_size = rd32(d + 8);
    k->entry = s->addr + rd64(d + 16);
    k->rsrc3 = rd32(d + 44);
    k->rsrc1 = rd32(d + 48);
    k->rsrc2 = rd32(d + 52);
    k->props = rd16(d + 56);
    k->dynamic_stack = k->props >> 11 & 1;
    if (!k->vgprs) k->vgprs = 8 * ((k->rsrc1 & 63) + 1);
    if (rd16(d + 58)) return sim_fail(l->err, "kernel %s: preloaded arguments are not supported", k->name);
    if (!(k->props >> 10 & 1)) return sim_fail(l->err, "kernel %s: compiled for waves of 64 lanes; only 32 are supported", k->name);
    if (k->lds > SIM_LDS_MAX) return sim_fail(l->err, "kernel %s: %u bytes of LDS, at most %u", k->name, k->lds, SIM_LDS_MAX);
    if (k->entry < l->m->text_lo || k->entry >= l->m->text_hi || k->entry & 3)
        return sim_fail(l->err, "kernel %s: its entry point lies outside the code", k->name);
    if (k->kernarg_size > 1u << 20 || k->scratch > 1u << 24)
        return sim_fail(l->err, "kernel %s: %u bytes of arguments and %u of scratch", k->name, k->kernarg_size, k->scratch);
    for (u32 i = 0; i < k->n_args; i++)
        if ((u64)k->args[i].offset + k->args[i].size > k->kernarg_size)
            return sim_fail(l->err, "kernel %s: argument %u lies outside its %u bytes", k->name, i, k->kernarg_size);
    return true;
}

static char *copy_str(const mp_value *v) {
    if (v->type != MP_STR || v->num > 65536) return NULL;
    return strndup(v->str, (size_t)v->num);
}

static bool read_kernel(loader *l, mp_reader *r, sim_kernel *k) {
    mp_value map = mp_next(r);
    if (map.type != MP_MAP) return bad_metadata(l);
    char *kd = NULL;
    bool ok = true;
    for (u64 i = 0; ok && i < map.num; i++) {
        mp_value key = mp_next(r);
        if (mp_is(&key, ".args")) {
            ok = read_args(l, r, k);
        } else if (mp_is(&key, ".name") || mp_is(&key, ".symbol")) {
            mp_value v = mp_next(r);
            char **to = mp_is(&key, ".name") ? &k->name : &kd;
            free(*to);
            *to = copy_str(&v);
            ok = *to || bad_metadata(l);
        } else if (mp_is(&key, ".vgpr_count") || mp_is(&key, ".sgpr_count") || mp_is(&key, ".kernarg_segment_align") ||
                   mp_is(&key, ".max_flat_workgroup_size")) {
            mp_value v = mp_next(r);
            u32 *to = key.str[1] == 'v' ? &k->vgprs : key.str[1] == 's' ? &k->sgprs : key.str[1] == 'k' ? &k->kernarg_align
                                                                                                        : &k->max_threads;
            ok = (v.type == MP_INT && v.num < 1u << 20) || bad_metadata(l);
            *to = (u32)v.num;
        } else {
            ok = mp_skip(r) || bad_metadata(l);
        }
    }
    if (ok && (!k->name || !kd)) ok = sim_fail(l->err, "code object: a kernel without name or symbol");
    if (ok) ok = add_kernel(l, k, kd);
    free(kd);
    return ok;
}

static bool read_metadata(loader *l, const u8 *p, u64 n) {
    mp_reader r = {p, p + n};
    mp_value top = mp_next(&r);
    if (top.type != MP_MAP) return bad_metadata(l);
    for (u64 i = 0; i < top.num; i++) {
        mp_value key = mp_next(&r);
        if (!mp_is(&key, "amdhsa.kernels")) {
            if (!mp_skip(&r)) return bad_metadata(l);
            continue;
        }
        mp_value arr = mp_next(&r);
        if (arr.type != MP_ARRAY || l->m->kernels) return bad_metadata(l);
        l->m->kernels = calloc(arr.num ? arr.num : 1, sizeof *l->m->kernels);
        if (!l->m->kernels) return sim_fail(l->err, "simulator: out of memory");
        for (u64 k = 0; k < arr.num; k++) {
            l->m->n_kernels++;
            if (!read_kernel(l, &r, &l->m->kernels[k])) return false;
        }
    }
    return true;
}

static bool read_notes(loader *l) {
    const u8 *p = l->d + l->note_off;
    for (u64 o = 0; o + 12 <= l->note_n;) {
        u64 name_n = rd32(p + o), desc_n = rd32(p + o + 4), type = rd32(p + o + 8);
        u64 name_o = o + 12, desc_o = name_o + ((name_n + 3) & ~3ull), end = desc_o + ((desc_n + 3) & ~3ull);
        if (desc_o + desc_n > l->note_n) return sim_fail(l->err, "code object: malformed note");
        if (type == 32 && name_n == 7 && !memcmp(p + name_o, "AMDGPU", 7)) return read_metadata(l, p + desc_o, desc_n);
        o = end;
    }
    return sim_fail(l->err, "code object: no kernel metadata");
}

/* .debug_line and its string sections, from the section headers; without them reports have no source lines. */
static void read_debug(loader *l) {
    const u8 *h = l->d, *sec[3] = {0};
    static const char *const NAMES[3] = {".debug_line", ".debug_str", ".debug_line_str"};
    u64 size[3] = {0}, shoff = rd64(h + 40);
    u32 n = rd16(h + 60), strndx = rd16(h + 62);
    if (rd16(h + 58) != 64 || !file_has(l, shoff, 64ull * n) || strndx >= n) return;
    const u8 *ss = h + shoff + 64ull * strndx;
    u64 so = rd64(ss + 24), sn = rd64(ss + 32);
    if (!file_has(l, so, sn) || sn == 0 || h[so + sn - 1]) return;
    for (u32 i = 0; i < n; i++) {
        const u8 *s = h + shoff + 64ull * i;
        u64 off = rd64(s + 24), sz = rd64(s + 32), name = rd32(s);
        if (name >= sn || rd32(s + 4) == 8 || rd64(s + 8) & 0x800 || !file_has(l, off, sz)) continue;
        for (int k = 0; k < 3; k++)
            if (!strcmp((const char *)h + so + name, NAMES[k])) {
                sec[k] = h + off;
                size[k] = sz;
            }
    }
    if (sec[0]) l->m->lines = sim_lines_read(sec[0], size[0], sec[1], size[1], sec[2], size[2]);
}

/* In a clang offload bundle, the entry for this processor; otherwise the bytes themselves. */
static bool unbundle(const u8 **d, u64 *n, sim_error *err) {
    static const char MAGIC[] = "__CLANG_OFFLOAD_BUNDLE__";
    if (*n < 32 || memcmp(*d, MAGIC, 24)) return true;
    u64 count = rd64(*d + 24), o = 32;
    for (u64 i = 0; i < count; i++) {
        if (o + 24 > *n) break;
        u64 off = rd64(*d + o), size = rd64(*d + o + 8), id = rd64(*d + o + 16);
        o += 24;
        if (id > *n - o) break;
        const char *s = (const char *)*d + o;
        bool mine = memmem(s, id, "gfx1201", 7) || memmem(s, id, "gfx12-generic", 13);
        o += id;
        if (!mine || size == 0) continue;
        if (off > *n || size > *n - off) return sim_fail(err, "offload bundle: entry %llu past the end", (unsigned long long)i);
        *d += off;
        *n = size;
        return true;
    }
    return sim_fail(err, "offload bundle: no entry for gfx1201");
}

sim_module *sim_module_load(sim_memory *mem, const void *image, u64 size, sim_error *err) {
    const u8 *d = image;
    if (!unbundle(&d, &size, err)) return NULL;
    sim_module *m = calloc(1, sizeof *m);
    if (!m) {
        sim_fail(err, "simulator: out of memory");
        return NULL;
    }
    m->mem = mem;
    loader l = {.d = d, .n = size, .m = m, .err = err};
    if (read_header(&l) && load_segments(&l) && read_dynamic(&l) && read_symbols(&l) && relocate(&l) && read_notes(&l)) {
        read_debug(&l);
        return m;
    }
    sim_module_free(m);
    return NULL;
}

void sim_module_free(sim_module *m) {
    if (!m) return;
    for (u32 i = 0; i < m->n_kernels; i++) {
        free(m->kernels[i].name);
        free(m->kernels[i].args);
    }
    for (u32 i = 0; i < m->n_syms; i++) free(m->syms[i].name);
    sim_code_free(m);
    free(m->kernels);
    free(m->syms);
    sim_lines_free(m->lines);
    if (m->base) sim_mfree(m->mem, m->base);
    free(m);
}

sim_kernel *sim_module_kernel(const sim_module *m, const char *name) {
    for (u32 i = 0; i < m->n_kernels; i++)
        if (!strcmp(m->kernels[i].name, name)) return &m->kernels[i];
    return NULL;
}

const sim_symbol *sim_module_symbol(const sim_module *m, const char *name) {
    for (u32 i = 0; i < m->n_syms; i++)
        if (!strcmp(m->syms[i].name, name)) return &m->syms[i];
    return NULL;
}

const sim_symbol *sim_symbol_at(const sim_module *m, u64 pc) {
    for (u32 i = 0; i < m->n_syms; i++)
        if (m->syms[i].func && pc >= m->syms[i].addr && pc - m->syms[i].addr < (m->syms[i].size ? m->syms[i].size : 1)) return &m->syms[i];
    return NULL;
}
