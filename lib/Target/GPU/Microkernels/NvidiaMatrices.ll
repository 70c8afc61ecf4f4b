; Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
; SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
;
; Matrix instructions of NVIDIA's GPUs, which clang has no builtins for. Registers are elements of vectors.

target triple = "nvptx64-nvidia-cuda"

define <4 x float> @itx_mma_f16(<4 x i32> %a, <2 x i32> %b, <4 x float> %c) {
  %x = bitcast <4 x i32> %a to <8 x half>
  %a0 = shufflevector <8 x half> %x, <8 x half> poison, <2 x i32> <i32 0, i32 1>
  %a1 = shufflevector <8 x half> %x, <8 x half> poison, <2 x i32> <i32 2, i32 3>
  %a2 = shufflevector <8 x half> %x, <8 x half> poison, <2 x i32> <i32 4, i32 5>
  %a3 = shufflevector <8 x half> %x, <8 x half> poison, <2 x i32> <i32 6, i32 7>
  %y = bitcast <2 x i32> %b to <4 x half>
  %b0 = shufflevector <4 x half> %y, <4 x half> poison, <2 x i32> <i32 0, i32 1>
  %b1 = shufflevector <4 x half> %y, <4 x half> poison, <2 x i32> <i32 2, i32 3>
  %c0 = extractelement <4 x float> %c, i32 0
  %c1 = extractelement <4 x float> %c, i32 1
  %c2 = extractelement <4 x float> %c, i32 2
  %c3 = extractelement <4 x float> %c, i32 3
  %d = call {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.f32.f32(<2 x half> %a0, <2 x half> %a1,
      <2 x half> %a2, <2 x half> %a3, <2 x half> %b0, <2 x half> %b1, float %c0, float %c1, float %c2, float %c3)
  %r = call <4 x float> @vectorOf({float, float, float, float} %d)
  ret <4 x float> %r
}

define <4 x float> @itx_mma_bf16(<4 x i32> %a, <2 x i32> %b, <4 x float> %c) {
  %a0 = extractelement <4 x i32> %a, i32 0
  %a1 = extractelement <4 x i32> %a, i32 1
  %a2 = extractelement <4 x i32> %a, i32 2
  %a3 = extractelement <4 x i32> %a, i32 3
  %b0 = extractelement <2 x i32> %b, i32 0
  %b1 = extractelement <2 x i32> %b, i32 1
  %c0 = extractelement <4 x float> %c, i32 0
  %c1 = extractelement <4 x float> %c, i32 1
  %c2 = extractelement <4 x float> %c, i32 2
  %c3 = extractelement <4 x float> %c, i32 3
  %d = call {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32 %a0, i32 %a1, i32 %a2, i32 %a3,
      i32 %b0, i32 %b1, float %c0, float %c1, float %c2, float %c3)
  %r = call <4 x float> @vectorOf({float, float, float, float} %d)
  ret <4 x float> %r
}

define internal <4 x float> @vectorOf({float, float, float, float} %d) {
  %d0 = extractvalue {float, float, float, float} %d, 0
  %d1 = extractvalue {float, float, float, float} %d, 1
  %d2 = extractvalue {float, float, float, float} %d, 2
  %d3 = extractvalue {float, float, float, float} %d, 3
  %r0 = insertelement <4 x float> poison, float %d0, i32 0
  %r1 = insertelement <4 x float> %r0, float %d1, i32 1
  %r2 = insertelement <4 x float> %r1, float %d2, i32 2
  %r3 = insertelement <4 x float> %r2, float %d3, i32 3
  ret <4 x float> %r3
}

define <4 x i32> @itx_ldmatrix(ptr addrspace(3) %row) {
  %d = call {i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %row)
  %r = call <4 x i32> @wordsOf({i32, i32, i32, i32} %d)
  ret <4 x i32> %r
}

define <4 x i32> @itx_ldmatrix_transposed(ptr addrspace(3) %row) {
  %d = call {i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3(ptr addrspace(3) %row)
  %r = call <4 x i32> @wordsOf({i32, i32, i32, i32} %d)
  ret <4 x i32> %r
}

define internal <4 x i32> @wordsOf({i32, i32, i32, i32} %d) {
  %d0 = extractvalue {i32, i32, i32, i32} %d, 0
  %d1 = extractvalue {i32, i32, i32, i32} %d, 1
  %d2 = extractvalue {i32, i32, i32, i32} %d, 2
  %d3 = extractvalue {i32, i32, i32, i32} %d, 3
  %r0 = insertelement <4 x i32> poison, i32 %d0, i32 0
  %r1 = insertelement <4 x i32> %r0, i32 %d1, i32 1
  %r2 = insertelement <4 x i32> %r1, i32 %d2, i32 2
  %r3 = insertelement <4 x i32> %r2, i32 %d3, i32 3
  ret <4 x i32> %r3
}

declare {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.f32.f32(<2 x half>, <2 x half>, <2 x half>,
    <2 x half>, <2 x half>, <2 x half>, float, float, float, float)
declare {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32, i32, i32, i32, i32, i32, float, float,
    float, float)
declare {i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
declare {i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3(ptr addrspace(3))
