//===- ReferenceModels.cpp - Which ops have a reference --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"
#include "intarsia/Reference/Reference.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"

using namespace mlir;

namespace intarsia::reference {

namespace {
template <typename Op> struct ReferenceModel : ReferenceOpInterface::ExternalModel<ReferenceModel<Op>, Op> {
  SmallVector<Value> lowerToReference(Operation *op, OpBuilder &builder) const {
    ReferenceBuilder references(op->getLoc(), builder);
    return {buildReference(references, cast<Op>(op))};
  }
};

template <typename Op> void attachModel(MLIRContext *context) {
  if constexpr (requires(ReferenceBuilder builder, Op op) { buildReference(builder, op); })
    Op::template attachInterface<ReferenceModel<Op>>(*context);
}

/// Attaches a model to each of the ops that `dialects/Nn/Ops/References.h` declares a reference of.
template <typename... Ops> void attachModels(MLIRContext *context, nn::NnDialect *) {
  (attachModel<Ops>(context), ...);
  // Bodies of loops are made while other passes run, when no dialect may be loaded any more.
  context->loadDialect<arith::ArithDialect, linalg::LinalgDialect, math::MathDialect, scf::SCFDialect,
                       tensor::TensorDialect>();
}
} // namespace

void registerReferenceModels(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, linalg::LinalgDialect, math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  bufferization::func_ext::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  registry.addExtension(&attachModels<
#define GET_OP_LIST
#include "dialects/Nn/NnOps.cpp.inc"
                        >);
}

} // namespace intarsia::reference
