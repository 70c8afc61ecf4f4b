//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LOWER_PASSES
#define INTARSIA_LOWER_PASSES

include "mlir/Pass/PassBase.td"

def LowerGroupsToKernels : Pass<"lower-groups-to-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups become kernels, functions become host programs";
  let description = [{
    Each `nn.group` becomes an `rt.kernel`; groups of the same structure (types, attributes, which sizes are equal, how
    weights lie in memory; locations do not count) share one. Functions become straight lines over memrefs: sizes are
    computed from the function's symbols and compared where an op would otherwise leave its operands (`rt.check`), results are `rt.output`s that their last kernel writes in place, values in
    between `rt.alloc`s, weights `rt.constant_data`. A kernel starts after the kernels whose results it reads.

    `scf.if`, `scf.for` and `scf.while` stay and pass integers alone: tensors that they give or carry lie in buffers that
    are made before the outermost of them. All work is done where a region begins and where it ends. `tensor.extract` is a
    wait and a `memref.load` in the host's memory. States are passed on as they are: all versions of a state lie in the
    memory of its argument. Integers that kernels use as indices are checked as inputs of the call (`nn.range`,
    `nn.below`), or by `rt.check_indices` if a kernel computes them.

    A weight becomes an `rt.constant` whose recipe is a copy of the ops that make it, in the layout that the device's
    target chooses by the ops that read it: of the CPU `#rt.panels<32>` for a matrix that a linear multiplies by, else
    `#rt.row_major`. A weight that is needed in two layouts is packed twice.
  }];
  let dependentDialects = ["::intarsia::rt::RtDialect", "::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def LowerPlanBuffers : Pass<"lower-plan-buffers", "::mlir::func::FuncOp"> {
  let summary = "Buffers of a call get slots in one workspace";
  let description = [{
    Each `rt.alloc` becomes a view into the call's one `rt.workspace`. A slot is used again once the last consumer of
    its buffer has been started; the new writer then waits for that consumer. Sizes are symbolic: a slot whose size is
    provably enough is preferred, otherwise one is grown to the larger of both at run time. Offsets are multiples of 64
    bytes.
  }];
  let dependentDialects = ["::intarsia::rt::RtDialect", "::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect"];
}

def LowerVerify : Pass<"lower-verify", "::mlir::ModuleOp"> {
  let summary = "Says what may leave the lower phase";
  let description = [{
    Kernels hold tensor programs without groups or weights, or are compiled. Functions are one block of `rt` ops, integer
    arithmetic, memref views, and control flow that holds the same; work writes no constant and no input; buffers are dense, made before the first kernel starts and after all sizes are checked, and each
    result has one. Dynamic sizes of arguments have names that calls give (`rt.symbols`), results are described. The
    sizes of a launch are those of its buffers and meet what the ops in its kernel need: by the sizes of a call alone,
    or because an `rt.check` says so.
  }];
}

#endif
