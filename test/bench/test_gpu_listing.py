# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops and their instructions, read from listings of nvdisasm and llvm-objdump."""

from __future__ import annotations

import pytest
from gpu.listing import Instruction, kind_of, loops_of, main_loops, parse_amd, parse_sass

# Two loops of one function, the second inside of a third; a branch forwards; a label that nothing branches back to.
SASS = """
	.section	.text.other,"ax",@progbits
.text.other:
        /*0000*/                   EXIT ;
	.section	.text.gemm,"ax",@progbits
.text.gemm:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_3:
        /*0010*/                   LDG.E.128 R4, [R2.64] ;
        /*0020*/               @P0 BRA `(.L_x_3) ;
.L_x_2:
        /*0030*/                   LDGSTS.E.BYPASS.LTC128B.128 [R241], [R10.64], P4 ;
.L_x_1:
        /*0040*/                   LDSM.16.M88.4 R132, [R196] ;
        /*0050*/                   HMMA.16816.F32 R4, R132.reuse, R2, R4 ;
        /*0060*/              @!P0 BRA `(.L_x_4) ;
        /*0070*/                   HMMA.16816.F32 R8, R132.reuse, R2, R8 ;
.L_x_4:
        /*0080*/                   IADD3 R0, R0, 0x1, RZ ;
        /*0090*/               @P1 BRA `(.L_x_1) ;
        /*00a0*/               @P2 BRA `(.L_x_2) ;
        /*00b0*/                   STG.E [R2.64], R4 ;
        /*00c0*/                   EXIT ;
.L_x_5:
        /*00d0*/                   BRA `(.L_x_5);
"""

AMD = """
k.hsaco:	file format elf64-amdgpu

Disassembly of section .text:

0000000000001700 <gemm>:
	s_load_dwordx8 s[4:11], s[0:1], 0x8                        // 000000001700: C00E0100 00000008
	global_load_dwordx4 v[2:5], v1, s[4:5]                     // 000000001708: DC5C8000 02040001
	ds_read2_b64 v[6:9], v1 offset1:1                          // 000000001710: D8EE0100 06000001
	v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]// 000000001718: D3CC0000 04022510
	s_cbranch_scc1 65530                                       // 000000001720: BF85FFFA <gemm+0x8>
	ds_bpermute_b32 v1, v2, v3                                 // 000000001724: D87E0000 01000302
	s_cbranch_scc0 65528                                       // 00000000172C: BF84FFF4 <gemm>
	s_endpgm                                                   // 000000001730: BF810000
"""


def test_nvidia() -> None:
    functions = parse_sass(SASS)
    assert list(functions) == ["other", "gemm"]
    gemm = functions["gemm"]
    assert [one.address for one in gemm] == list(range(0, 0xE0, 16))
    loops = loops_of(gemm, "nvidia")
    assert [(loop.instructions[0].address, loop.instructions[-1].address) for loop in loops] == [
        (0x10, 0x20),
        (0x40, 0x90),
    ]
    (main,) = main_loops(gemm, "nvidia")
    assert main is not loops[0]
    assert dict(main.kinds) == {"shared": 1, "matrix": 2, "other": 3}
    # Without matrix instructions it is the loop that loads.
    (copies,) = main_loops([one for one in gemm if not one.name.startswith("HMMA")], "nvidia")
    assert (copies.loaded_bytes(), copies.row_bytes()) == (16, 16)


def test_amd() -> None:
    (gemm,) = parse_amd(AMD).values()
    (loop,) = main_loops(gemm, "amd")
    assert [one.name for one in loop.instructions] == [
        "global_load_dwordx4", "ds_read2_b64", "v_mfma_f32_32x32x8_f16", "s_cbranch_scc1",
    ]  # fmt: skip
    assert dict(loop.kinds) == {"global": 1, "shared": 1, "matrix": 1, "other": 1}
    assert gemm[-2].target == gemm[0].address


@pytest.mark.parametrize(
    ("vendor", "name", "kind", "moved"),
    [
        ("nvidia", "LDG.E.U16", "global", 2),
        ("nvidia", "LDG.E.64.CONSTANT", "global", 8),
        ("nvidia", "STG.E", "global", 4),
        ("nvidia", "LDS.128", "shared", 16),
        ("nvidia", "LDL", "local", 4),
        ("nvidia", "HGMMA.64x128x16.F32", "matrix", 4),
        ("nvidia", "FFMA", "fma", 4),
        ("nvidia", "LDC.64", "other", 8),
        ("amd", "global_load_ushort", "global", 2),
        ("amd", "global_load_b128", "global", 16),
        ("amd", "buffer_load_dword", "global", 4),
        ("amd", "scratch_store_dwordx2", "local", 8),
        ("amd", "ds_load_b64", "shared", 8),
        ("amd", "v_wmma_f32_16x16x16_f16", "matrix", 4),
        ("amd", "v_pk_fma_f32", "fma", 4),
    ],
)
def test_kinds(vendor: str, name: str, kind: str, moved: int) -> None:
    instruction = Instruction(0, name, name)
    assert kind_of(instruction, vendor) == kind
    if kind not in ("matrix", "fma", "other"):
        assert instruction.bytes_moved() == moved
