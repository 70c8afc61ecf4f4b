//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// Loops over tensors as linalg.generic, written by their body: what references of ops are made of.
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_INTERFACES_REFERENCEBUILDER_H
#define INTARSIA_DIALECTS_INTERFACES_REFERENCEBUILDER_H

#include "dialects/Interfaces/ScalarBuilder.h"

namespace intarsia::reference {

using MixedSizes = llvm::SmallVector<mlir::OpFoldResult>;

using intarsia::Integer;
using intarsia::ScalarBuilder;

/// Loops over tensors. Dimensions are those of the iteration space.
class ReferenceBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using mlir::ImplicitLocOpBuilder::ImplicitLocOpBuilder;
  using Body = llvm::function_ref<mlir::Value(ScalarBuilder &, mlir::ValueRange)>;

  /// The type that loops add up in: f64, so that results are rounded once. In loops that kernels are made of it is f32.
  mlir::Type sumType = getF64Type();

  MixedSizes sizesOf(mlir::Value tensor) { return mlir::tensor::getMixedSizes(*this, getLoc(), tensor); }
  mlir::Value empty(mlir::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type element) {
    return mlir::tensor::EmptyOp::create(*this, sizes, element);
  }
  /// Returns values as results of an op that they replace: cast where an op declares other static sizes.
  llvm::SmallVector<mlir::Value> castToResults(mlir::ValueRange values, mlir::Operation *op) {
    llvm::SmallVector<mlir::Value> results(values);
    for (auto [value, type] : llvm::zip_equal(results, op->getResultTypes()))
      if (value.getType() != type)
        value = mlir::tensor::CastOp::create(*this, type, value);
    return results;
  }
  /// `size / divisor * factor + more`, static where the size is.
  mlir::OpFoldResult scaled(mlir::OpFoldResult size, int64_t divisor, int64_t factor, int64_t more = 0) {
    if (std::optional<int64_t> number = mlir::getConstantIntValue(size))
      return getIndexAttr(*number / divisor * factor + more);
    ScalarBuilder b(getLoc(), *this);
    Integer number(b, b.index(size));
    number = divisor == 1 ? number : number / divisor;
    number = factor == 1 ? number : number * factor;
    return mlir::Value(more == 0 ? number : number + more);
  }
  /// `function` of a size, an int64_t where it is static, else an Integer.
  template <typename Function> mlir::OpFoldResult computed(mlir::OpFoldResult size, Function function) {
    if (std::optional<int64_t> number = mlir::getConstantIntValue(size))
      return getIndexAttr(function(*number));
    ScalarBuilder b(getLoc(), *this);
    return mlir::Value(function(Integer(b, b.index(size))));
  }
  /// A tensor [values] of constants.
  mlir::Value table(mlir::ArrayRef<float> values) { return ScalarBuilder(getLoc(), *this).table(values); }
  /// A tensor whose elements are all `value`.
  mlir::Value filled(mlir::ArrayRef<mlir::OpFoldResult> sizes, mlir::TypedAttr value) {
    mlir::Value element = mlir::arith::ConstantOp::create(*this, value);
    return mlir::linalg::FillOp::create(*this, element, empty(sizes, value.getType())).getResult(0);
  }
  mlir::AffineMap map(unsigned dimensions, mlir::ArrayRef<unsigned> results) {
    return mlir::AffineMap::getMultiDimMapWithTargets(dimensions, results, getContext());
  }
  /// The first `count` dimensions.
  mlir::AffineMap leading(unsigned dimensions, unsigned count) {
    return mlir::AffineMap::get(dimensions, 0, identity(dimensions).getResults().take_front(count), getContext());
  }
  mlir::AffineMap identity(unsigned dimensions) {
    return mlir::AffineMap::getMultiDimIdentityMap(dimensions, getContext());
  }

  /// result[d…] = body(inputs at their maps). Iterates over the result.
  mlir::Value parallel(mlir::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type element,
                       mlir::ArrayRef<std::pair<mlir::Value, mlir::AffineMap>> inputs, Body body) {
    unsigned rank = sizes.size();
    return loop(empty(sizes, element), identity(rank), inputs, rank, body);
  }

  /// result[outer…] = body folded over the remaining dimensions, from `initial`, in the `sumType`. The dimensions of
  /// the result come first; `body` gets the inputs, then the value so far.
  mlir::Value reduce(mlir::ArrayRef<mlir::OpFoldResult> outer, unsigned reductions, double initial,
                     mlir::ArrayRef<std::pair<mlir::Value, mlir::AffineMap>> inputs, Body body) {
    return fold(filled(outer, getFloatAttr(sumType, initial)), reductions, inputs, body);
  }
  /// As `reduce`, in f32: for scales, which formats define so.
  mlir::Value reduceF32(mlir::ArrayRef<mlir::OpFoldResult> outer, unsigned reductions, float initial,
                        mlir::ArrayRef<std::pair<mlir::Value, mlir::AffineMap>> inputs, Body body) {
    return fold(filled(outer, getF32FloatAttr(initial)), reductions, inputs, body);
  }

  /// As `reduce`, from the elements of `init` and of its type.
  mlir::Value fold(mlir::Value init, unsigned reductions,
                   mlir::ArrayRef<std::pair<mlir::Value, mlir::AffineMap>> inputs, Body body) {
    unsigned rank = mlir::cast<mlir::RankedTensorType>(init.getType()).getRank();
    return loop(init, leading(rank + reductions, rank), inputs, rank, body);
  }

private:
  mlir::Value loop(mlir::Value init, mlir::AffineMap initMap,
                   mlir::ArrayRef<std::pair<mlir::Value, mlir::AffineMap>> inputs, unsigned parallels, Body body) {
    llvm::SmallVector<mlir::Value> values;
    llvm::SmallVector<mlir::AffineMap> maps;
    for (auto [value, valueMap] : inputs) {
      values.push_back(value);
      maps.push_back(valueMap);
    }
    maps.push_back(initMap);
    llvm::SmallVector<mlir::utils::IteratorType> iterators(initMap.getNumDims(), mlir::utils::IteratorType::reduction);
    std::fill_n(iterators.begin(), parallels, mlir::utils::IteratorType::parallel);
    auto generic = mlir::linalg::GenericOp::create(
        *this, init.getType(), values, init, maps, iterators,
        [&](mlir::OpBuilder &builder, mlir::Location location, mlir::ValueRange arguments) {
          ScalarBuilder scalars(location, builder);
          scalars.sumType = sumType;
          mlir::linalg::YieldOp::create(builder, location, body(scalars, arguments));
        });
    return generic.getResult(0);
  }
};

} // namespace intarsia::reference

#endif
