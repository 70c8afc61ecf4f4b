//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_REFERENCE_OP_INTERFACE
#define INTARSIA_REFERENCE_OP_INTERFACE

include "mlir/IR/OpBase.td"

def ReferenceOpInterface : OpInterface<"ReferenceOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op that can be written as plain loops over `linalg`, `arith`, `math` and `tensor`, computed by the formula of its
    description in f64 and rounded once: slow, exact, nothing reordered. `registerReferenceModels` of `lib/Reference`
    loads the dialects of these loops.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the loops in front of the op, which stays. Returns a value for each result; one that is declared with fewer
      or more static sizes than the result is cast by the caller.
    }],
    "::llvm::SmallVector<::mlir::Value>", "buildReference", (ins "::intarsia::reference::ReferenceBuilder &":$builder)>
  ];
}

#endif
