//===- GgufImport.cpp - Import a GGUF file ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Gguf/GgufImport.h"

#include "lib/Import/Gguf/GgufSettings.h"
#include "lib/Import/HuggingFace/Registry.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

/// Returns the architecture of the file; reports and returns null if it is not supported.
const GgufArchitecture *findArchitecture(const GgufArchive &archive, Errors &errors) {
  std::vector<std::string> known;
  for (const GgufArchitecture &architecture : ggufArchitectures())
    known.push_back(architecture.name.str());
  const gguf::Value *value = archive.first().metadata("general.architecture");
  std::optional<std::string_view> name = value ? value->string() : std::nullopt;
  if (!name) {
    errors.report(archive.name() + ": has no general.architecture; supported: " + llvm::join(known, ", "));
    return nullptr;
  }
  for (const GgufArchitecture &architecture : ggufArchitectures())
    if (architecture.name == llvm::StringRef(*name))
      return &architecture;
  std::string shown; // escaped, since the file may hold any bytes
  llvm::raw_string_ostream stream(shown);
  llvm::printEscapedString(llvm::StringRef(*name).take_front(64), stream);
  errors.report(archive.name() + ": general.architecture '" + shown +
                "' is not supported; supported: " + llvm::join(known, ", "));
  return nullptr;
}

/// Reports tensors that the graph does not read: the model would compute something else with them.
void checkAllAreRead(ModuleOp module, const GgufArchive &archive, const GgufArchitecture &architecture,
                     Errors &errors) {
  llvm::StringSet<> read;
  module.walk([&](nn::WeightOp weight) { read.insert(weight.getKey()); });
  for (llvm::StringRef name : {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})
    read.insert(name); // read with the settings
  for (llvm::StringRef name : archive.storedNames())
    if (!read.contains(name))
      errors.report(archive.name() + ": has tensor '" + name + "', which models of architecture " + architecture.name +
                    " with this metadata do not read: leaving it out would change the model");
}

/// Refuses experts that are tensors of their own, "blk.0.ffn_gate.3.weight".
void refuseExpertsApart(const GgufArchive &archive, Errors &errors) {
  const llvm::Regex apart("^blk\\.[0-9]+\\.ffn_(gate|up|down)\\.[0-9]+\\.");
  for (llvm::StringRef name : archive.storedNames())
    if (apart.match(name))
      return errors.report(archive.name() + ": has tensor '" + name +
                           "': experts that are stored apart, as converters did before April 2024, are not imported; "
                           "convert the model again, which makes one tensor of those of a layer");
}

OwningOpRef<ModuleOp> importFile(llvm::StringRef path, const ImportOptions &options, MLIRContext *context,
                                 Errors &errors) {
  std::unique_ptr<GgufArchive> archive = GgufArchive::open(path, errors);
  if (!archive)
    return {};
  const GgufArchitecture *source = findArchitecture(*archive, errors);
  if (!source)
    return {};
  refuseExpertsApart(*archive, errors);
  archive->nameTensors(*source);
  llvm::json::Object settings = readGgufSettings(*archive, *source, errors);
  GgufTokens tokens = readGgufTokens(*archive, errors);
  if (errors.any())
    return {};
  errors.setTerms([source](llvm::StringRef message) { return inTermsOfGguf(message, *source); });
  // Mixtral is Llama with experts, Mistral with a window.
  llvm::StringRef modelType = source->modelType;
  if (modelType == "llama" && settings.getInteger("num_local_experts"))
    modelType = "mixtral";
  else if (modelType == "llama" && settings.getInteger("sliding_window"))
    modelType = "mistral";
  const RegisteredArchitecture *registered = llvm::find_if(
      registeredArchitectures(), [&](const RegisteredArchitecture &entry) { return entry.modelType == modelType; });
  Config config = Config::of(std::move(settings), archive->name(), errors);
  std::unique_ptr<Architecture> architecture = registered->make(config, options);
  const ModelClass *modelClass = llvm::find_if(
      architecture->classes(), [](const ModelClass &each) { return each.head == Head::CausalLanguageModel; });
  if (errors.any())
    return {};

  OwningOpRef<ModuleOp> module = ModuleOp::create(NameLoc::get(StringAttr::get(context, archive->name())));
  Type f32 = Float32Type::get(context);
  GraphBuilder graph(*module, *archive, f32, f32, errors);
  architecture->build(graph, *modelClass, architecture->prefix(), [&](OpBuilder &builder) {
    llvm::SmallVector<NamedAttribute> entries = {
        builder.getNamedAttr("model_type", builder.getStringAttr(modelType)),
        builder.getNamedAttr("architecture", builder.getStringAttr(modelClass->name)),
        builder.getNamedAttr("eos_token_ids", builder.getI64ArrayAttr(tokens.ends))};
    if (tokens.begin)
      entries.push_back(builder.getNamedAttr("bos_token_id", builder.getI64IntegerAttr(*tokens.begin)));
    return builder.getDictionaryAttr(entries);
  });
  if (!errors.any())
    checkAllAreRead(*module, *archive, *source, errors);
  if (errors.any())
    return {};
  for (const std::string &remark : architecture->remarks())
    emitRemark(module->getLoc()) << remark;
  if (!tokens.unnamed.empty())
    emitRemark(module->getLoc()) << "answers also end at " << tokens.unnamed
                                 << ": no key says so, but tokens with these spellings do in llama.cpp";
  llvm::StringRef file = llvm::sys::path::filename(path);
  if (archive->first().metadata("tokenizer.ggml.model"))
    (*module)->setAttr("nn.files", OpBuilder(context).getStrArrayAttr(file));
  else
    emitRemark(module->getLoc()) << "has no tokenizer.ggml.model, so that the artifact gets no tokenizer: texts need "
                                    "one (intarsia generate --tokenizer), token ids do not";
  return module;
}

} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> importGguf(const ImportRequest &request) {
  request.context->loadDialect<nn::NnDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect,
                               tensor::TensorDialect, linalg::LinalgDialect>();
  Errors errors;
  OwningOpRef<ModuleOp> module = importFile(request.path, request.options, request.context, errors);
  // The metadata were checked, so this is a fault of the importer; the verifier has said which op it is about.
  if (module && failed(verify(*module)))
    errors.report(request.path + ": the imported graph does not verify");
  if (errors.any())
    return llvm::createStringError(errors.message());
  return module;
}

} // namespace intarsia::importer
