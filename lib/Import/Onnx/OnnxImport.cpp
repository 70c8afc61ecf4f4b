//===- OnnxImport.cpp - Import an ONNX file -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OnnxImport.h"

#include "lib/Import/Onnx/GraphBuilder.h"
#include "lib/Import/Onnx/OpTable.h"
#include "lib/Support/FileVersions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include <map>

using namespace mlir;

namespace intarsia::importer {

/// Versions of the format that are known, with what came with each: https://onnx.ai/onnx/repo-docs/Versioning.html.
static constexpr int64_t oldestFormat = 3, newestFormat = 14;

/// Reports a model of versions that are not known.
static void checkVersions(const onnx::Model &model, Errors &errors) {
  if (model.irVersion < oldestFormat || model.irVersion > newestFormat)
    return errors.report("ir_version is " + llvm::Twine(model.irVersion) + ", must be " + llvm::Twine(oldestFormat) +
                         " to " + llvm::Twine(newestFormat));
  for (const onnx::OperatorSet &set : model.operatorSets)
    if (set.domain.empty() && (set.version < 1 || set.version > onnx::newestVersion))
      return errors.report("the version of the operator set is " + llvm::Twine(set.version) + ", must be 1 to " +
                           llvm::Twine(onnx::newestVersion));
  std::map<std::string_view, int64_t> versions;
  for (const onnx::OperatorSet &set : model.operatorSets)
    if (auto [first, isNew] = versions.try_emplace(set.domain, set.version); !isNew && first->second != set.version)
      return errors.report("the operator set '" + llvm::StringRef(set.domain.data(), set.domain.size()) +
                           "' has the versions " + llvm::Twine(first->second) + " and " + llvm::Twine(set.version));
}

/// Returns an error whose text can be printed, whatever names the file has.
static llvm::Error printable(llvm::StringRef message) {
  std::string text = llvm::json::fixUTF8(message);
  for (char &c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f)
      c = '?';
  return llvm::createStringError(text);
}

std::vector<ImportReport::Op> knownOnnxOps() {
  std::vector<ImportReport::Op> ops;
  for (const onnx::OpRow *row : onnx::allOps()) {
    ImportReport::Op &op = ops.emplace_back();
    op.name = row->name;
    op.domain = row->domain;
    op.version = row->since;
  }
  return ops;
}

llvm::Expected<OwningOpRef<ModuleOp>> importOnnx(const ImportRequest &request) {
  MLIRContext *context = request.context;
  context->loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, linalg::LinalgDialect,
                       math::MathDialect, nn::NnDialect, scf::SCFDialect, tensor::TensorDialect>();
  if (request.options.context)
    return llvm::createStringError("--context is for language models of a model directory or a GGUF file");
  FileVersions::note(request.path.str());
  std::string name = llvm::sys::path::filename(request.path).str();
  std::unique_ptr<onnx::File> file;
  if (Status status = onnx::File::open(request.path.str(), name, file); !status.ok())
    return printable(status.message());
  Errors errors;
  onnx::Refusals refusals;
  auto report = llvm::make_scope_exit([&] {
    if (!request.report)
      return;
    onnx::countOps(file->model(), refusals, *request.report);
    request.report->problem = llvm::toString(printable(errors.message()));
  });
  checkVersions(file->model(), errors);
  onnx::GivenInputs given(request.options, file->model().graph, errors);
  OwningOpRef<ModuleOp> module = ModuleOp::create(NameLoc::get(StringAttr::get(context, name)));
  ModuleBuilder builder(*module, errors);
  if (!errors.any())
    onnx::GraphBuilder(builder, *file, given, refusals).build();
  if (errors.any())
    return printable(name + ": " + errors.message());
  if (refusals.any())
    return printable(name + ": " + refusals.text());
  if (failed(verify(*module)))
    return llvm::createStringError(name + ": the graph cannot be imported");
  onnx::noteDeviceConfigurations(file->model(), *module);
  return module;
}

} // namespace intarsia::importer
