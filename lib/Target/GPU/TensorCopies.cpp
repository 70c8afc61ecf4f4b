//===- TensorCopies.cpp - Tensor copies, and the barriers in shared memory that count them ----------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/TensorCopies.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace intarsia::gpu {

Operation *emitAssembly(OpBuilder &b, Location loc, StringRef text, StringRef constraints, ValueRange operands,
                        Type result) {
  std::string all = constraints.empty() ? "~{memory}" : (constraints + ",~{memory}").str();
  return LLVM::InlineAsmOp::create(b, loc, result ? TypeRange(result) : TypeRange(), operands, text, all,
                                   /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                                   LLVM::AsmDialectAttr(), ArrayAttr());
}

static Value number(OpBuilder &b, Location loc, int32_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
}

void initMbarrier(OpBuilder &b, Location loc, Value barrier, int32_t arrivals) {
  emitAssembly(b, loc, "mbarrier.init.shared::cta.b64 [$0], $1;", "l,n", {barrier, number(b, loc, arrivals)});
}

void fenceProxy(OpBuilder &b, Location loc) { emitAssembly(b, loc, "fence.proxy.async.shared::cta;"); }

void arrive(OpBuilder &b, Location loc, Value barrier) {
  emitAssembly(b, loc, "mbarrier.arrive.shared::cta.b64 _, [$0];", "l", barrier);
}

void arriveExpecting(OpBuilder &b, Location loc, Value barrier, int32_t bytes) {
  emitAssembly(b, loc, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "l,n",
               {barrier, number(b, loc, bytes)});
}

void waitForPhase(OpBuilder &b, Location loc, Value barrier, Value parity) {
  // A thread that tries may sleep for a while, and is woken before the phase has ended. Labels are local in braces.
  emitAssembly(
      b, loc,
      "{.reg .pred p; wait: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; @p bra done; bra wait; done:}", "l,r",
      {barrier, parity});
}

void copyBox(OpBuilder &b, Location loc, Value destination, Value map, Value column, Value row, Value barrier) {
  emitAssembly(
      b, loc, "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3}], [$4];",
      "l,l,r,r,l", {destination, map, column, row, barrier});
}

Value electThread(OpBuilder &b, Location loc) {
  Operation *elected = emitAssembly(b, loc, "{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 $0, 1, 0, p;}", "=r",
                                    {}, b.getI32Type());
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, elected->getResult(0), number(b, loc, 0));
}

void setRegisters(OpBuilder &b, Location loc, bool areFewer, int32_t registers) {
  emitAssembly(b, loc, areFewer ? "setmaxnreg.dec.sync.aligned.u32 $0;" : "setmaxnreg.inc.sync.aligned.u32 $0;", "n",
               number(b, loc, registers));
}

} // namespace intarsia::gpu
