//===- MatrixInstructions.h - Matrix instructions of GPUs -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MATRIXINSTRUCTIONS_H
#define INTARSIA_LIB_TARGET_GPU_MATRIXINSTRUCTIONS_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <limits>

namespace intarsia::gpu {

struct Architecture;

/// Families of matrix instructions: how the lanes of a warp hold the elements of a matrix.
enum class MatrixFamily {
  Mma,   ///< NVIDIA's `mma.sync` (PTX ISA, "Warp-level matrix instructions")
  Wgmma, ///< Hopper's `wgmma.mma_async`: four warps read both factors from shared memory, 16 rows of A each; else Mma
  Mfma,  ///< CDNA's, warps of 64
  WmmaRdna3, ///< lanes 16 to 31 hold the same A and B as lanes 0 to 15
  WmmaRdna4,
  MultiplyAdds ///< no instruction: lanes multiply and add their parts of the sums, on warps of 32
};

/// The element types that matrix instructions multiply. Sums are in f32, those of I8 in i32. Bit patterns of E4M3FNUZ
/// mean half of what they mean in E4M3; that of -0 is its NaN (CDNA 3 ISA, "FP8 and BF8"). MXFP4 and NVFP4 are E2M1
/// with scales that the instruction takes: E8M0 for 32 elements along k, E4M3 for 16.
enum class MatrixElement { F16, BF16, TF32, F32, I8, E4M3, E4M3FNUZ, MXFP4, NVFP4 };

/// One matrix instruction, D = A * B + C, by a warp. Columns of B are rows of memory, as those of A are.
struct MatrixInstruction {
  MatrixFamily family;
  MatrixElement element;
  int64_t m, n, k;
  llvm::StringLiteral intrinsic; ///< LLVM's name without the types that it is overloaded for
  llvm::StringLiteral overload;  ///< the end of its name that tells it from others of the same name; else empty
  int32_t emulated;              ///< itx_emulated_mma_kind
};

/// Returns the instruction that an architecture multiplies elements of a type with, the deepest of at most `depth`;
/// null if it has none.
const MatrixInstruction *findMatrixInstruction(const Architecture &architecture, MatrixElement element,
                                               int64_t depth = std::numeric_limits<int64_t>::max());
/// Returns the one that a warp computes alone.
const MatrixInstruction *findWarpInstruction(const Architecture &architecture, MatrixElement element);
/// Returns the instruction of an architecture that LLVM names so; null if it is none.
const MatrixInstruction *findMatrixInstruction(const Architecture &architecture, llvm::StringRef intrinsic);
/// Returns what an instruction is called in IR: its shape and what it multiplies.
std::string nameOf(const MatrixInstruction &instruction);
/// Returns true if an instruction multiplies floats of 8 bits.
inline bool multipliesFloats8(const MatrixInstruction &instruction) {
  return instruction.element == MatrixElement::E4M3 || instruction.element == MatrixElement::E4M3FNUZ;
}

/// Returns true if an instruction multiplies E2M1 and takes scales.
inline bool multipliesE2M1(const MatrixInstruction &instruction) {
  return instruction.element == MatrixElement::MXFP4 || instruction.element == MatrixElement::NVFP4;
}

/// Returns what an architecture multiplies floats with that may be rounded to a type; f32, if it has nothing narrower.
/// Floats of 8 bits that it has no instructions for are multiplied as f16, which holds them.
const MatrixInstruction &matrixInstruction(const Architecture &architecture, mlir::Type precision);

} // namespace intarsia::gpu

#endif
