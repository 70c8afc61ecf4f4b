//===- MatrixWarpgroups.cpp - Products by matrix instructions of four warps --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/MatrixEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

/// Returns the descriptor of a tile's rows in shared memory (PTX ISA, "Matrix descriptor format"): the address, the
/// bytes from one group of eight rows to the next, both in units of 16 bytes, and the swizzle.
Value MatrixEmitter::matrixDescriptor(const MatrixTiles &tiles, Value pointer) {
  int64_t rowBytes = tiles.chunks * chunkBytes, swizzle = rowBytes == 128 ? 1 : 2;
  Value address = make<LLVM::PtrToIntOp>(b.getI64Type(), pointer);
  address = make<arith::AndIOp>(make<arith::ShRUIOp>(address, constant(4)), constant(0x3fff));
  return make<arith::OrIOp>(address, constant(int64_t(uint64_t(swizzle) << 62 | uint64_t(8 * rowBytes / 16) << 32)));
}

void MatrixEmitter::beginWarpgroupStage(const MatrixTiles &tiles, Value left, Value right,
                                        SmallVectorImpl<Value> &sums) {
  int64_t registers = tiles.columns / 2; // of a lane: its sums of 64 rows
  Type f32 = b.getF32Type();
  Type result = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(registers, f32));
  std::string text, constraints;
  llvm::raw_string_ostream out(text);
  out << "{.reg .pred p; setp.eq.u32 p, 0, 0; " << instruction.intrinsic << tiles.columns << instruction.overload
      << " {";
  for (int64_t i = 0; i != registers; ++i)
    out << (i ? ", " : "") << "$" << i;
  // The sums so far are added, neither factor is negated, and both have rows along the depth, as those of 8 bits always
  // have.
  out << "}, $" << 2 * registers << ", $" << 2 * registers + 1 << ", p, 1, 1"
      << (multipliesFloats8(instruction) ? ";}" : ", 0, 0;}");
  for (int64_t i = 0; i != registers; ++i)
    constraints += "=f,";
  for (int64_t i = 0; i != registers; ++i)
    constraints += std::to_string(i) + ",";
  constraints += "l,l";
  Value leftTile = matrixDescriptor(tiles, left), rightTile = matrixDescriptor(tiles, right);
  int64_t rowUnits = tiles.chunks; // of 16 bytes
  callIntrinsic("llvm.nvvm.wgmma.fence.sync.aligned", nullptr, {});
  for (int64_t step = 0; step != tiles.chunks / chunksOfStep(); ++step)
    for (int64_t i = 0; i != tiles.rows / instruction.m; ++i) {
      MutableArrayRef<Value> ofRows = MutableArrayRef(sums).slice(i * registers, registers);
      SmallVector<Value> operands(ofRows.begin(), ofRows.end());
      operands.push_back(add(leftTile, constant(i * instruction.m * rowUnits + step * chunksOfStep())));
      operands.push_back(add(rightTile, constant(step * chunksOfStep())));
      Value product = make<LLVM::InlineAsmOp>(result, operands, text, constraints, /*has_side_effects=*/true,
                                              /*is_align_stack=*/false, LLVM::TailCallKind::None,
                                              LLVM::AsmDialectAttr(), ArrayAttr())
                          .getRes();
      for (auto [number, sum] : llvm::enumerate(ofRows))
        sum = make<LLVM::ExtractValueOp>(product, int64_t(number));
    }
  callIntrinsic("llvm.nvvm.wgmma.commit_group.sync.aligned", nullptr, {});
}

} // namespace intarsia::gpu
