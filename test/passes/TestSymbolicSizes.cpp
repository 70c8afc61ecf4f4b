//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "test/passes/TestPasses.h"

using namespace mlir;
using namespace intarsia;

namespace {
/// Writes what SymbolicSizes knows onto each op, for tests: `test_sizes`, a string for each result. Functions get the
/// sizes of their arguments in `test_arguments`, what is left to check in `test_checks`.
struct TestSymbolicSizes : PassWrapper<TestSymbolicSizes, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestSymbolicSizes)

  StringRef getArgument() const override { return "test-symbolic-sizes"; }
  StringRef getDescription() const override { return "Writes the symbolic sizes of all results as attributes"; }

  void runOnOperation() override {
    getOperation().walk([&](FunctionOpInterface function) {
      SymbolicSizes sizes(function);
      function.walk([&](Operation *op) { annotate(op, sizes); });
      annotateFunction(function, sizes);
    });
  }

  static std::string text(Value value, const SymbolicSizes &sizes) {
    std::string text;
    for (AffineExpr size : sizes.of(value))
      text += (text.empty() ? "" : ", ") + sizes.toString(size);
    return "[" + text + "]";
  }

  void annotateFunction(FunctionOpInterface function, const SymbolicSizes &sizes) {
    SmallVector<Attribute> arguments, checks;
    Builder builder(function->getContext());
    for (BlockArgument argument : function.getArguments())
      arguments.push_back(builder.getStringAttr(text(argument, sizes)));
    for (const SizeConstraint &constraint : sizes.constraints())
      checks.push_back(builder.getStringAttr(
          sizes.toString(constraint.left) + (constraint.relation == SizeConstraint::Relation::Equal ? " == " : " <= ") +
          sizes.toString(constraint.right)));
    for (auto [number, name] : llvm::enumerate(sizes.names()))
      if (std::optional<int64_t> limit = sizes.limit(number))
        checks.push_back(builder.getStringAttr(name + " <= " + Twine(*limit)));
    function->setDiscardableAttr("test_arguments", builder.getArrayAttr(arguments));
    function->setDiscardableAttr("test_checks", builder.getArrayAttr(checks));
  }

  void annotate(Operation *op, const SymbolicSizes &sizes) {
    SmallVector<Attribute> texts;
    Builder builder(op->getContext());
    for (Value result : op->getResults()) {
      if (auto type = dyn_cast<ShapedType>(result.getType()); type && type.hasRank()) {
        texts.push_back(builder.getStringAttr(text(result, sizes)));
      } else if (AffineExpr value = sizes.ofIndex(result)) {
        texts.push_back(builder.getStringAttr(sizes.toString(value)));
      }
    }
    if (!texts.empty())
      op->setDiscardableAttr("test_sizes", builder.getArrayAttr(texts));
  }
};
} // namespace

void intarsia::testing::registerSymbolicSizes() { PassRegistration<TestSymbolicSizes>(); }
