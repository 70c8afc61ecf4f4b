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
  Indices at;
  for (Value index : function.delinearize(row, ArrayRef(function.sizes.of(tensor)).drop_back()))
    at.push_back({index});
  at.push_back({last, true});
  return at;
}

LogicalResult LinearResults::storeResults(Value row, Value column, int64_t width,
                                          function_ref<Value(Value column, int64_t width)> sums) {
  tensors.bound[root.getResult()] = [&](ArrayRef<Index> at, int64_t count) -> Element {
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
    Indices at = indicesAt(function.yielded(output), row, column);
    Element element = tensors.evaluate(function.yielded(output), at, width);
    stored = LogicalResult(element);
    if (succeeded(stored))
      tensors.store(*element, function.outputs[output], at, width);
  }
  tensors.bound.erase(root.getResult());
  return stored;
}

} // namespace intarsia::gpu
