//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// What importers build of several ops, in MLIR files: "build.einsum"(%a, %b) {equation = "ij,jk"} and others become
// what lib/Import/Builder makes of them, so that tests can compile and run it.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/Einsum.h"
#include "lib/Import/Builder/Selection.h"
#include "lib/Import/Builder/Signals.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "test/passes/TestPasses.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::importer;

namespace {
struct TestCompositions : PassWrapper<TestCompositions, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestCompositions)

  StringRef getArgument() const override { return "test-compositions"; }
  StringRef getDescription() const override { return "Builds what importers make of several ops"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<nn::NnDialect, arith::ArithDialect, cf::ControlFlowDialect, linalg::LinalgDialect,
                    math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
  }

  using Build = llvm::SmallVector<Value> (*)(ModuleBuilder &, Operation *);

  static int64_t number(Operation *op, StringRef name) { return op->getAttrOfType<IntegerAttr>(name).getInt(); }
  static double real(Operation *op, StringRef name) { return op->getAttrOfType<FloatAttr>(name).getValueAsDouble(); }
  static std::optional<int64_t> axisOf(Operation *op) {
    return op->hasAttr("axis") ? std::optional(number(op, "axis")) : std::nullopt;
  }
  static Value operandOf(Operation *op, unsigned index) {
    return index < op->getNumOperands() ? op->getOperand(index) : Value();
  }

  static llvm::SmallVector<Value> buildEinsum(ModuleBuilder &graph, Operation *op) {
    StringRef equation = op->getAttrOfType<StringAttr>("equation");
    return {einsum(graph, op->getLoc(), equation, llvm::to_vector(op->getOperands()))};
  }
  static llvm::SmallVector<Value> buildNonzero(ModuleBuilder &graph, Operation *op) {
    return {nonzero(graph, op->getLoc(), op->getOperand(0))};
  }
  static llvm::SmallVector<Value> buildCompress(ModuleBuilder &graph, Operation *op) {
    return {compress(graph, op->getLoc(), op->getOperand(0), op->getOperand(1), axisOf(op))};
  }
  static llvm::SmallVector<Value> buildUnique(ModuleBuilder &graph, Operation *op) {
    Unique result = unique(graph, op->getLoc(), op->getOperand(0), axisOf(op), op->hasAttr("sorted"));
    return {result.values, result.indices, result.inverse, result.counts};
  }
  static llvm::SmallVector<Value> buildStft(ModuleBuilder &graph, Operation *op) {
    return {stft(graph, op->getLoc(), op->getOperand(0), operandOf(op, 1), number(op, "size"), number(op, "step"),
                 op->hasAttr("onesided"))};
  }
  static llvm::SmallVector<Value> buildIstft(ModuleBuilder &graph, Operation *op) {
    return {istft(graph, op->getLoc(), op->getOperand(0), operandOf(op, 1), number(op, "size"), number(op, "step"),
                  op->hasAttr("onesided"))};
  }
  static llvm::SmallVector<Value> buildImageNorm(ModuleBuilder &graph, Operation *op) {
    Value input = op->getOperand(0);
    return {graph.imageNorm(op->getLoc(), input, graph.shapeOf(op->getLoc(), input), operandOf(op, 1), operandOf(op, 2),
                            number(op, "groups"), real(op, "epsilon"), axisOf(op))};
  }
  static llvm::SmallVector<Value> buildBatchNorm(ModuleBuilder &graph, Operation *op) {
    BatchNorm norm = {op->getOperand(1), op->getOperand(2), op->getOperand(3), op->getOperand(4), real(op, "epsilon")};
    return {graph.batchNorm(op->getLoc(), op->getOperand(0), norm, axisOf(op))};
  }
  static llvm::SmallVector<Value> buildResponseNorm(ModuleBuilder &graph, Operation *op) {
    return {graph.responseNorm(op->getLoc(), op->getOperand(0), number(op, "axis"), number(op, "size"),
                               real(op, "alpha"), real(op, "beta"), real(op, "bias"))};
  }

  void runOnOperation() override {
    llvm::SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (op->getName().getDialectNamespace() == "build")
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      auto build = llvm::StringSwitch<Build>(op->getName().stripDialect())
                       .Case("einsum", buildEinsum)
                       .Case("nonzero", buildNonzero)
                       .Case("compress", buildCompress)
                       .Case("unique", buildUnique)
                       .Case("stft", buildStft)
                       .Case("istft", buildIstft)
                       .Case("image_norm", buildImageNorm)
                       .Case("batch_norm", buildBatchNorm)
                       .Case("response_norm", buildResponseNorm)
                       .Default(nullptr);
      Errors errors;
      ModuleBuilder graph(getOperation(), errors);
      graph.getBuilder().setInsertionPoint(op);
      llvm::SmallVector<Value> values = build ? build(graph, op) : llvm::SmallVector<Value>();
      if (!build || errors.any()) {
        op->emitError(build ? errors.message() : "is not built");
        return signalPassFailure();
      }
      for (auto [value, result] : llvm::zip_equal(values, op->getResults()))
        if (value.getType() != result.getType())
          value = tensor::CastOp::create(graph.getBuilder(), op->getLoc(), result.getType(), value);
      op->replaceAllUsesWith(values);
      op->erase();
    }
  }
};
} // namespace

void intarsia::testing::registerCompositions() { PassRegistration<TestCompositions>(); }
