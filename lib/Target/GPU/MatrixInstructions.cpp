//===- MatrixInstructions.cpp - The table of matrix instructions of GPUs ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/MatrixInstructions.h"

#include "intarsia/emulated_abi.h"
#include "lib/Target/GPU/Architecture.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace intarsia::gpu {

using enum MatrixFamily;
using enum MatrixElement;

// Shapes: PTX ISA, "Warp-level matrix instructions"; AMD's CDNA 2, 3, 4 and RDNA 3, 4 instruction set architecture
// manuals, "Matrix arithmetic instructions". Of the same family and element, the deepest comes first. Where no
// instruction multiplies f32, lanes do.
static constexpr MatrixInstruction instructions[] = {
    // Assembly, not an intrinsic. It has as many columns as one likes.
    {Wgmma, F16, 64, 8, 16, "wgmma.mma_async.sync.aligned.m64n", "k16.f32.f16.f16", /*emulated=*/0},
    {Wgmma, BF16, 64, 8, 16, "wgmma.mma_async.sync.aligned.m64n", "k16.f32.bf16.bf16", /*emulated=*/0},
    {Wgmma, E4M3, 64, 8, 32, "wgmma.mma_async.sync.aligned.m64n", "k32.f32.e4m3.e4m3", /*emulated=*/0},
    {Mma, F16, 16, 8, 16, "llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "", ITX_EMULATED_M16N8K16_F32_F16},
    {Mma, BF16, 16, 8, 16, "llvm.nvvm.mma.m16n8k16.row.col.bf16", "", ITX_EMULATED_M16N8K16_F32_BF16},
    {Mma, TF32, 16, 8, 8, "llvm.nvvm.mma.m16n8k8.row.col.tf32", "", ITX_EMULATED_M16N8K8_F32_TF32},
    {Mma, E4M3, 16, 8, 32, "llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "", ITX_EMULATED_M16N8K32_F32_E4M3},
    {Mma, MXFP4, 16, 8, 64, "llvm.nvvm.mma.block.scale.m16n8k64.row.col.mxf4.scale.2x.f32.e2m1.e2m1.f32.ue8m0", "",
     ITX_EMULATED_M16N8K64_F32_MXFP4},
    {Mma, NVFP4, 16, 8, 64, "llvm.nvvm.mma.block.scale.m16n8k64.row.col.mxf4nvf4.scale.4x.f32.e2m1.e2m1.f32.ue4m3", "",
     ITX_EMULATED_M16N8K64_F32_NVFP4},
    {Mma, I8, 16, 8, 32, "llvm.nvvm.mma.m16n8k32.row.col.s8", "", ITX_EMULATED_M16N8K32_I32_I8},
    {Mma, I8, 16, 8, 16, "llvm.nvvm.mma.m16n8k16.row.col.s8", "", ITX_EMULATED_M16N8K16_I32_I8},
    {Mfma, F16, 16, 16, 32, "llvm.amdgcn.mfma.f32.16x16x32.f16", "", ITX_EMULATED_MFMA_16X16X32_F32_F16},
    {Mfma, BF16, 16, 16, 32, "llvm.amdgcn.mfma.f32.16x16x32.bf16", "", ITX_EMULATED_MFMA_16X16X32_F32_BF16},
    {Mfma, F16, 16, 16, 16, "llvm.amdgcn.mfma.f32.16x16x16f16", "", ITX_EMULATED_MFMA_16X16X16_F32_F16},
    {Mfma, BF16, 16, 16, 16, "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", "", ITX_EMULATED_MFMA_16X16X16_F32_BF16},
    {Mfma, F32, 16, 16, 4, "llvm.amdgcn.mfma.f32.16x16x4f32", "", ITX_EMULATED_MFMA_16X16X4_F32_F32},
    {Mfma, E4M3, 16, 16, 32, "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", "", ITX_EMULATED_MFMA_16X16X32_F32_E4M3},
    {Mfma, E4M3FNUZ, 16, 16, 32, "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", "", ITX_EMULATED_MFMA_16X16X32_F32_E4M3FNUZ},
    {Mfma, MXFP4, 16, 16, 128, "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4", ".v4i32.v4i32",
     ITX_EMULATED_MFMA_SCALE_16X16X128_F32_MXFP4},
    {Mfma, I8, 16, 16, 32, "llvm.amdgcn.mfma.i32.16x16x32.i8", "", ITX_EMULATED_MFMA_16X16X32_I32_I8},
    {Mfma, I8, 16, 16, 16, "llvm.amdgcn.mfma.i32.16x16x16i8", "", ITX_EMULATED_MFMA_16X16X16_I32_I8},
    {WmmaRdna3, F16, 16, 16, 16, "llvm.amdgcn.wmma.f32.16x16x16.f16", ".v8f32.v16f16",
     ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_F16},
    {WmmaRdna3, BF16, 16, 16, 16, "llvm.amdgcn.wmma.f32.16x16x16.bf16", ".v8f32.v16i16",
     ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_BF16},
    {WmmaRdna3, I8, 16, 16, 16, "llvm.amdgcn.wmma.i32.16x16x16.iu8", ".v8i32.v4i32",
     ITX_EMULATED_WMMA_RDNA3_16X16X16_I32_I8},
    {WmmaRdna4, F16, 16, 16, 16, "llvm.amdgcn.wmma.f32.16x16x16.f16", ".v8f32.v8f16",
     ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_F16},
    {WmmaRdna4, BF16, 16, 16, 16, "llvm.amdgcn.wmma.f32.16x16x16.bf16", ".v8f32.v8i16",
     ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_BF16},
    {WmmaRdna4, E4M3, 16, 16, 16, "llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8", ".v8f32.v2i32",
     ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_E4M3},
    {WmmaRdna4, I8, 16, 16, 16, "llvm.amdgcn.wmma.i32.16x16x16.iu8", ".v8i32.v2i32",
     ITX_EMULATED_WMMA_RDNA4_16X16X16_I32_I8},
    {MultiplyAdds, F32, 16, 16, 4, "", "", /*emulated=*/0},
};

std::string nameOf(const MatrixInstruction &instruction) {
  static constexpr StringLiteral families[] = {"mma", "wgmma", "mfma", "wmma", "wmma", "multiply-adds"};
  static constexpr StringLiteral elements[] = {"f16",  "bf16",     "tf32",  "f32",  "i8",
                                               "e4m3", "e4m3fnuz", "mxfp4", "nvfp4"};
  return llvm::formatv("{0} m{1}n{2}k{3} {4}", families[int(instruction.family)], instruction.m, instruction.n,
                       instruction.k, elements[int(instruction.element)])
      .str();
}

/// Returns true if an architecture has an instruction.
static bool hasInstruction(const Architecture &architecture, const MatrixInstruction &instruction) {
  if (instruction.family == MultiplyAdds)
    return architecture.warpSize == 32;
  if (architecture.matrixFamily != instruction.family &&
      (architecture.matrixFamily != Wgmma || instruction.family != Mma))
    return false;
  // Floats of 8 bits came with Ada. Tensor cores of Hopper and of Blackwell's sm_100a multiply them for four warps
  // alone: what ptxas 13.0 makes of a warp's instruction there converts both factors to f16.
  if (instruction.family == Mma && instruction.element == E4M3)
    return architecture.name == "sm_89" || architecture.name == "sm_120a";
  // Elements of 4 bits with scales came with Blackwell: sm_100a multiplies them by tcgen05 alone, which reads tensor
  // memory (PTX ISA, "mma.sync with block scaling", target ISA notes).
  if (instruction.family == Mma && multipliesE2M1(instruction))
    return architecture.name == "sm_120a";
  if (instruction.family != Mfma)
    return true;
  // CDNA 3 has encodings of its own, CDNA 4 those of OCP.
  if (instruction.element == E4M3FNUZ)
    return architecture.name == "gfx942";
  if (instruction.element == E4M3 || instruction.element == MXFP4)
    return architecture.name == "gfx950";
  // CDNA 3 replaced the shorter one of 8 bits; the longer ones of 16 bits came with CDNA 4.
  if (instruction.element == I8)
    return (instruction.k == 16) == (architecture.name == "gfx90a");
  return instruction.k != 32 || architecture.name == "gfx950";
}

const MatrixInstruction *findMatrixInstruction(const Architecture &architecture, MatrixElement element, int64_t depth) {
  for (const MatrixInstruction &instruction : instructions)
    if (instruction.element == element && instruction.k <= depth && hasInstruction(architecture, instruction))
      return &instruction;
  return nullptr;
}

const MatrixInstruction *findWarpInstruction(const Architecture &architecture, MatrixElement element) {
  for (const MatrixInstruction &instruction : instructions)
    if (instruction.element == element && instruction.family != Wgmma && hasInstruction(architecture, instruction))
      return &instruction;
  return nullptr;
}

const MatrixInstruction *findMatrixInstruction(const Architecture &architecture, StringRef intrinsic) {
  for (const MatrixInstruction &instruction : instructions)
    if (hasInstruction(architecture, instruction) && intrinsic.starts_with(instruction.intrinsic) &&
        intrinsic.drop_front(instruction.intrinsic.size()) == instruction.overload)
      return &instruction;
  return nullptr;
}

/// Returns the element that a type is; nothing if matrix instructions do not multiply it.
static std::optional<MatrixElement> matrixElement(mlir::Type type) {
  if (type.isF16())
    return F16;
  if (type.isBF16())
    return BF16;
  if (isa<mlir::FloatTF32Type>(type))
    return TF32;
  if (type.isF32())
    return F32;
  if (type.isInteger(8))
    return I8;
  return std::nullopt;
}

const MatrixInstruction &matrixInstruction(const Architecture &architecture, mlir::Type precision) {
  if (isa<mlir::Float8E4M3FNType>(precision))
    for (MatrixElement element : {E4M3, E4M3FNUZ, F16})
      if (const MatrixInstruction *found = findMatrixInstruction(architecture, element))
        return *found;
  std::optional<MatrixElement> element = matrixElement(precision);
  const MatrixInstruction *found = element ? findMatrixInstruction(architecture, *element) : nullptr;
  return found ? *found : *findMatrixInstruction(architecture, F32);
}

} // namespace intarsia::gpu
