//===- LinearResults.cpp - What kernels of linears do with their sums ---------------------------------------------
//===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/LinearResults.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

Indices LinearResults::indicesAt(Value tensor, Value row, Value last) {
  return kernel::indicesOf(function.delinearize(row, ArrayRef(function.sizes.of(tensor)).drop_back()), last);
}

LogicalResult LinearResults::storeResults(Value row, Value column, int64_t width,
                                          function_ref<Value(Value column, int64_t width)> sums) {
  tensors.bound[root->getResult(0)] = [&](ArrayRef<Index> at, int64_t count) -> Element {
    Value sum = sums(at.back().base, count);
    if (scaled)
      sum = scaled(sum, row, at.back().base, count);
    if (!root.getBias())
      return sum;
    Element bias = tensors.evaluate(root.getBias(), {Index{at.back().base, true}}, count);
    return failed(bias) ? bias : Element(make<arith::AddFOp>(sum, *bias).getResult());
  };
  LogicalResult stored = success();
  for (unsigned output = 0; succeeded(stored) && output != function.outputs.size(); ++output) {
    // Outputs may have other leading dimensions than each other.
    stored = tensors.storeOutputs(output, indicesAt(function.yielded(output), row, column), width);
  }
  tensors.bound.erase(root->getResult(0));
  return stored;
}

} // namespace intarsia::gpu
