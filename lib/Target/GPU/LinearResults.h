//===- LinearResults.h - What kernels of linears do with their sums ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_LINEARRESULTS_H
#define INTARSIA_LIB_TARGET_GPU_LINEARRESULTS_H

#include "lib/Target/GPU/FunctionEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <limits>

namespace intarsia::gpu {

/// The most rows that a linear multiplies without matrix instructions and tiles.
inline constexpr int64_t mostOfFewRows = 4;

/// Numbers of rows that an emitter makes functions for: more than `above`, at most `most`.
struct RowRange {
  int64_t above = 0, most = std::numeric_limits<int64_t>::max();
};

/// Returns an expression that is 1 if there are at most so many rows, else 0.
inline mlir::AffineExpr isAtMost(mlir::AffineExpr rows, int64_t most) {
  mlir::AffineExpr one = mlir::getAffineConstantExpr(1, rows.getContext());
  mlir::AffineExpr limit = mlir::getAffineConstantExpr(most + 1, rows.getContext());
  return limit.floorDiv(rows + one).ceilDiv(limit);
}

/// A kernel of a linear: rows of its input are those of all results, however many dimensions these have. `Base` emits
/// the sums.
template <typename Base> class LinearResults : public Base {
public:
  template <typename... Arguments>
  explicit LinearResults(nn::LinearOp root, Arguments &&...arguments)
      : Base(std::forward<Arguments>(arguments)...), root(root) {}

protected:
  int64_t features() { return cast<mlir::RankedTensorType>(root.getWeight().getType()).getDimSize(0); }
  int64_t depth() { return cast<mlir::RankedTensorType>(root.getWeight().getType()).getDimSize(1); }

  mlir::AffineExpr rowsOfLinear() {
    return this->productExpression(mlir::ArrayRef<mlir::AffineExpr>(this->sizes.of(root.getResult())).drop_back());
  }

  /// Returns the indices of an element, or of neighbouring ones, of a row of a tensor.
  Indices indicesAt(mlir::Value tensor, mlir::Value row, mlir::Value last) {
    Indices at;
    for (mlir::Value index :
         this->delinearize(row, mlir::ArrayRef<mlir::AffineExpr>(this->sizes.of(tensor)).drop_back()))
      at.push_back({index});
    at.push_back({last, true});
    return at;
  }

  /// Returns sums of a row from a column on by the scales of both factors, where these are not in the sums.
  virtual mlir::Value scaled(mlir::Value sums, mlir::Value /*row*/, mlir::Value /*column*/, int64_t /*width*/) {
    return sums;
  }

  /// Stores `width` elements of the results from a column on, with the bias and all ops behind the linear. sums(column,
  /// width) returns sums of this row.
  template <typename Sums>
  llvm::LogicalResult storeResults(mlir::Value row, mlir::Value column, int64_t width, Sums sums) {
    this->bound[root.getResult()] = [&](llvm::ArrayRef<Index> at, int64_t count) -> Element {
      mlir::Value sum = scaled(sums(at.back().base, count), row, at.back().base, count);
      if (!root.getBias())
        return sum;
      Element bias = this->evaluate(root.getBias(), {Index{at.back().base, true}}, count);
      return failed(bias) ? bias : Element(mlir::arith::AddFOp::create(this->b, this->loc, sum, *bias).getResult());
    };
    llvm::LogicalResult stored = llvm::success();
    for (unsigned output = 0; succeeded(stored) && output != this->outputs.size(); ++output) {
      Indices at = indicesAt(this->yielded(output), row, column);
      Element element = this->evaluate(this->yielded(output), at, width);
      stored = llvm::LogicalResult(element);
      if (succeeded(stored))
        this->store(*element, this->outputs[output], at, width);
    }
    this->bound.erase(root.getResult());
    return stored;
  }

  nn::LinearOp root;
};

} // namespace intarsia::gpu

#endif
