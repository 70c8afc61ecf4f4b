//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// What the two files of the reference lowering share: loops over tensors as linalg.generic, written by their body.
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_REFERENCEBUILDER_H
#define INTARSIA_LIB_LOWER_REFERENCEBUILDER_H

#include "dialects/Nn/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace intarsia::lower {

using MixedSizes = llvm::SmallVector<mlir::OpFoldResult>;

/// Scalar arithmetic inside a loop body; everything is computed in f32.
class ScalarBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using mlir::ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  mlir::Value f32(float value) { return mlir::arith::ConstantOp::create(*this, getF32FloatAttr(value)); }
  mlir::Value i32(int32_t value) { return mlir::arith::ConstantOp::create(*this, getI32IntegerAttr(value)); }
  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(*this, value); }
  mlir::Value index(mlir::OpFoldResult value) { return mlir::getValueOrCreateConstantIndexOp(*this, getLoc(), value); }

  mlir::Value add(mlir::Value a, mlir::Value b) { return mlir::arith::AddFOp::create(*this, a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return mlir::arith::SubFOp::create(*this, a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return mlir::arith::MulFOp::create(*this, a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return mlir::arith::DivFOp::create(*this, a, b); }
  mlir::Value max(mlir::Value a, mlir::Value b) { return mlir::arith::MaximumFOp::create(*this, a, b); }
  mlir::Value min(mlir::Value a, mlir::Value b) { return mlir::arith::MinimumFOp::create(*this, a, b); }
  mlir::Value abs(mlir::Value a) { return mlir::math::AbsFOp::create(*this, a); }
  mlir::Value exp(mlir::Value a) { return mlir::math::ExpOp::create(*this, a); }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(*this, condition, a, b);
  }
  mlir::Value isEqual(mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpFOp::create(*this, mlir::arith::CmpFPredicate::OEQ, a, b);
  }
  mlir::Value isNan(mlir::Value a) { return mlir::arith::CmpFOp::create(*this, mlir::arith::CmpFPredicate::UNO, a, a); }
  mlir::Value bits(mlir::Value a) { return mlir::arith::BitcastOp::create(*this, getI32Type(), a); }
  mlir::Value fromBits(mlir::Value a) { return mlir::arith::BitcastOp::create(*this, getF32Type(), a); }

  /// A float of any width as f32.
  mlir::Value widen(mlir::Value value) {
    return value.getType().isF32() ? value : mlir::arith::ExtFOp::create(*this, getF32Type(), value).getResult();
  }
  /// An f32 rounded to `type`, ties to even.
  mlir::Value narrow(mlir::Value value, mlir::Type type) {
    return type.isF32() ? value : mlir::arith::TruncFOp::create(*this, type, value).getResult();
  }
};

/// Loops over tensors. Dimensions are those of the iteration space.
class ReferenceBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using mlir::ImplicitLocOpBuilder::ImplicitLocOpBuilder;
  using Body = llvm::function_ref<mlir::Value(ScalarBuilder &, mlir::ValueRange)>;

  MixedSizes sizesOf(mlir::Value tensor) { return mlir::tensor::getMixedSizes(*this, getLoc(), tensor); }
  mlir::Value empty(mlir::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type element) {
    return mlir::tensor::EmptyOp::create(*this, sizes, element);
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

  /// result[outer…] = body folded over the remaining dimensions, from `initial`, in f32. The dimensions of the result
  /// come first; `body` gets the inputs, then the value so far.
  mlir::Value reduce(mlir::ArrayRef<mlir::OpFoldResult> outer, unsigned reductions, float initial,
                     mlir::ArrayRef<std::pair<mlir::Value, mlir::AffineMap>> inputs, Body body) {
    unsigned rank = outer.size();
    mlir::Value start = mlir::arith::ConstantOp::create(*this, getF32FloatAttr(initial));
    mlir::Value init = mlir::linalg::FillOp::create(*this, start, empty(outer, getF32Type())).getResult(0);
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
          mlir::linalg::YieldOp::create(builder, location, body(scalars, arguments));
        });
    return generic.getResult(0);
  }
};

/// codes, scales and, where the op has them, zero points and the tensor scale.
llvm::SmallVector<mlir::Value> buildReference(ReferenceBuilder &builder, nn::QuantizeOp op);
mlir::Value buildReference(ReferenceBuilder &builder, nn::DequantizeOp op);
/// indices and weights.
llvm::SmallVector<mlir::Value> buildReference(ReferenceBuilder &builder, nn::RouteOp op);
mlir::Value buildReference(ReferenceBuilder &builder, nn::ExpertsOp op);
/// Softmax over the last dimension, in f32; a row of -inf gives zeros.
mlir::Value buildSoftmax(ReferenceBuilder &builder, mlir::Value input, mlir::Type element);

} // namespace intarsia::lower

#endif
