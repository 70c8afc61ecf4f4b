//===- QuantizeObserve.cpp - Makes a model say what its linears multiply -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/LinearInputs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZEOBSERVE
#include "lib/Quantize/Passes.h.inc"

namespace {
/// Names of linears that one glob may list in braces: more than large models have in all.
constexpr size_t kMostAlternatives = 1 << 16;

struct QuantizeObserve : impl::QuantizeObserveBase<QuantizeObserve> {
  using QuantizeObserveBase::QuantizeObserveBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(linears, kMostAlternatives);
    if (!pattern) {
      function.emitError() << "'" << linears << "' is no glob: " << llvm::toString(pattern.takeError());
      return signalPassFailure();
    }
    auto returnOp = cast<func::ReturnOp>(function.front().getTerminator());
    SmallVector<Value> results(returnOp.getOperands());
    SmallVector<Type> types(function.getResultTypes());
    SmallVector<std::string> names;
    for (const LinearInput &input : inputsOfLinears(function)) {
      if (llvm::none_of(input.linears, [&](nn::LinearOp linear) { return pattern->match(nameOf(linear)); }))
        continue;
      results.push_back(secondMoments(input.value, input.linears.front()));
      types.push_back(results.back().getType());
      names.push_back(secondMomentsPrefix.str() + nameOf(input.linears.front()));
    }
    if (names.empty()) {
      function.emitError() << "no linear of '" << function.getName() << "' with a weight of the model has a name that '"
                           << linears << "' matches";
      return signalPassFailure();
    }
    unsigned before = function.getNumResults();
    function.setType(FunctionType::get(&getContext(), function.getArgumentTypes(), types));
    for (auto [number, name] : llvm::enumerate(names))
      function.setResultAttr(before + number, "nn.name", StringAttr::get(&getContext(), name));
    returnOp.getOperandsMutable().assign(results);
  }

  /// Returns the sum of x xᵀ over rows x of a tensor [..., features].
  static Value secondMoments(Value input, nn::LinearOp linear) {
    OpBuilder builder(linear.getContext());
    builder.setInsertionPointAfterValue(input);
    Location location = linear.getLoc();
    auto type = cast<RankedTensorType>(input.getType());
    int64_t rank = type.getRank(), features = type.getShape().back();
    if (rank != 2) {
      SmallVector<ReassociationIndices> groups(2);
      llvm::append_range(groups[0], llvm::seq<int64_t>(0, rank - 1));
      groups[1] = {rank - 1};
      input = tensor::CollapseShapeOp::create(builder, location, input, groups);
      type = cast<RankedTensorType>(input.getType());
    }
    if (!type.getElementType().isF32())
      input = arith::ExtFOp::create(builder, location, type.clone(builder.getF32Type()), input);
    return nn::MatmulOp::create(builder, location, RankedTensorType::get({features, features}, builder.getF32Type()),
                                input, input, /*transpose_lhs=*/true, /*transpose_rhs=*/false,
                                /*precision=*/TypeAttr());
  }
};
} // namespace
} // namespace intarsia::quantize
