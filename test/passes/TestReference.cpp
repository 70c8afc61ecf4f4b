//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Target/Target.h"
#include "lib/Target/Reference/ReferenceTarget.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "test/passes/TestPasses.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace intarsia;

namespace {
/// Prints which ops of nn have a reference.
struct TestReferenceModels : PassWrapper<TestReferenceModels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestReferenceModels)

  StringRef getArgument() const override { return "test-reference-models"; }
  StringRef getDescription() const override { return "Prints which ops of nn have a reference"; }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<nn::NnDialect>(); }

  void runOnOperation() override {
    for (RegisteredOperationName name : getContext().getRegisteredOperations())
      if (name.getDialectNamespace() == "nn")
        llvm::outs() << name << (name.hasInterface<ReferenceOpInterface>() ? " has a reference\n" : " has none\n");
  }
};

/// Compiles the kernels of a module for the reference device and writes the object to a file.
struct TestReferenceObject : PassWrapper<TestReferenceObject, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestReferenceObject)

  TestReferenceObject() = default;
  TestReferenceObject(const TestReferenceObject &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-reference-object"; }
  StringRef getDescription() const override { return "Writes the kernels as an object of the reference device"; }

  void getDependentDialects(DialectRegistry &registry) const override {
    reference::referenceTarget().addDialects(registry);
  }

  void runOnOperation() override {
    auto compilers = reference::referenceTarget().compilers({});
    std::vector<target::CompiledObject> objects;
    std::vector<target::NumberedKernel> kernels;
    for (auto [index, kernel] : llvm::enumerate(getOperation().getOps<rt::KernelOp>()))
      kernels.push_back({unsigned(index), kernel});
    llvm::Error error = compilers ? compilers->front()->compileKernels(getOperation(), kernels, triple, objects)
                                  : compilers.takeError();
    if (error) {
      getOperation().emitError() << llvm::toString(std::move(error));
      return signalPassFailure();
    }
    std::error_code code;
    llvm::raw_fd_ostream file(output, code);
    if (code) {
      getOperation().emitError() << output << ": " << code.message();
      return signalPassFailure();
    }
    file.write(objects.front().object.data(), objects.front().object.size());
  }

  Option<std::string> output{*this, "output", llvm::cl::desc("file to write")};
  Option<std::string> triple{*this, "triple", llvm::cl::desc("triple of the host"),
                             llvm::cl::init("x86_64-unknown-linux-gnu")};
};
} // namespace

void intarsia::testing::registerReference() {
  PassRegistration<TestReferenceModels>();
  PassRegistration<TestReferenceObject>();
}
