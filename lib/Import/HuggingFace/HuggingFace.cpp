//===- HuggingFace.cpp - Import a Hugging Face model directory ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/HuggingFace.h"

#include "lib/Import/HuggingFace/Architectures/Encoder.h"
#include "lib/Import/HuggingFace/SafetensorsArchive.h"
#include "lib/Import/HuggingFace/SentenceTransformers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace mlir;

namespace intarsia::importer {
namespace {

/// Imports one directory, step by step; after an error in a step the rest is not done.
class HuggingFaceImport {
public:
  HuggingFaceImport(llvm::StringRef directory, const ImportOptions &options, MLIRContext *context, Errors &errors)
      : directory(directory), options(options), context(context), errors(errors) {}

  OwningOpRef<ModuleOp> run() {
    readSettings();
    if (!errors.any())
      openWeights();
    if (!errors.any())
      openQuantized();
    return errors.any() ? OwningOpRef<ModuleOp>() : build();
  }

private:
  void readSettings();
  void chooseClass();
  void openWeights();
  void chooseTypes();
  void openQuantized();
  OwningOpRef<ModuleOp> build();
  void buildEmbed(GraphBuilder &graph);
  void addTokenMetadata(OpBuilder &builder, llvm::SmallVectorImpl<NamedAttribute> &entries) const;
  DictionaryAttr metadata(OpBuilder &builder, bool withLabels, bool withPipeline) const;
  void nameTextFiles(ModuleOp module) const;
  std::string inFolder(llvm::StringRef file) const {
    llvm::SmallString<64> path(folder);
    llvm::sys::path::append(path, file);
    return std::string(path);
  }
  bool exists(llvm::StringRef file) const { return hasFile(directory, file, errors); }

  llvm::StringRef directory;
  const ImportOptions &options;
  MLIRContext *context;
  Errors &errors;
  std::unique_ptr<SentencePipeline> pipeline;
  std::string folder; // folder of the encoder, relative to the directory
  std::optional<Config> config;
  std::string modelType;
  std::unique_ptr<Architecture> architecture;
  ModelClass modelClass{"", Head::Base};
  std::unique_ptr<SafetensorsArchive> weights;
  std::unique_ptr<QuantizedCheckpoint> quantized; // null if no weights are quantized
  std::string base;                               // "bert" if the base model's keys begin with it, else ""
  std::string anchor;
  std::vector<std::string> remarks;
  Type dataType, activationType;
};

void HuggingFaceImport::readSettings() {
  if (!llvm::sys::fs::exists(directory))
    return errors.report(directory + ": no such directory");
  if (!llvm::sys::fs::is_directory(directory))
    return errors.report(directory + ": is not a directory");
  if (exists("modules.json")) {
    pipeline = SentencePipeline::read(directory, errors);
    if (!pipeline)
      return;
    folder = pipeline->transformerFolder().str();
  }
  std::string file = inFolder("config.json");
  if (!exists(file))
    return errors.report(directory + ": has no " + file + ": not a Hugging Face model directory");
  if (exists(inFolder("adapter_config.json")))
    return errors.report(
        "adapter_config.json: adapters are not supported; merge it into the model with merge_and_unload()");
  config = Config::read(directory, file, errors);
  if (!config)
    return;
  if (!config->value().getAsObject())
    return config->report("is not a JSON object");
  config->refuseIfSet("quantization",
                      "MLX quantized the weights, and its format is not imported; take the model that it "
                      "was made from, or a GGUF file of it");

  // The networks of diffusers have the name of their class, and directories of timm that of a model.
  llvm::StringRef setting = config->has("model_type") ? "model_type" : "_class_name";
  modelType = config->string(setting, !config->has(setting) && config->has("architecture") ? "timm_wrapper" : "");
  const RegisteredArchitecture *registered = llvm::find_if(
      registeredArchitectures(), [&](const RegisteredArchitecture &entry) { return entry.modelType == modelType; });
  if (registered == registeredArchitectures().end()) {
    std::string known = llvm::join(knownModelTypes(), ", ");
    return config->report(config->has(setting) ? setting + " '" + modelType + "' is not supported; supported: " + known
                                               : "has no model_type, _class_name or architecture; supported: " + known);
  }
  architecture = registered->make(*config, options);
  chooseClass();
  if (options.context && modelClass.head != Head::CausalLanguageModel)
    errors.report("--context=" + llvm::Twine(*options.context) + ": a model of type " + modelType +
                  " is no language model");
}

void HuggingFaceImport::chooseClass() {
  llvm::SmallVector<std::string> named = config->strings("architectures");
  llvm::ArrayRef<ModelClass> known = architecture->classes();
  // A directory that names no class is opened as the base class, as AutoModel does.
  if (named.empty()) {
    modelClass = known.front();
    return;
  }
  for (const ModelClass &candidate : known)
    if (candidate.name == named.front()) {
      modelClass = candidate;
      return;
    }
  llvm::SmallVector<llvm::StringRef> names;
  for (const ModelClass &candidate : known)
    names.push_back(candidate.name);
  config->refuse("architecture", named.front(), names);
}

void HuggingFaceImport::openWeights() {
  weights = SafetensorsArchive::open(directory, folder, errors);
  if (!weights)
    return;
  anchor = architecture->anchor().str();
  std::string missing = "has no tensor '" + anchor + "'";
  for (llvm::StringRef prefix : architecture->prefixes()) {
    std::string prefixed = (prefix + "." + architecture->anchor()).str();
    missing += " and no '" + prefixed + "'";
    if (weights->find(prefixed)) {
      base = prefix.str();
      anchor = prefixed;
      break;
    }
  }
  if (base.empty() && !weights->find(anchor)) {
    llvm::StringRef module = llvm::StringRef(anchor).rsplit('.').first;
    for (llvm::StringRef prefix : architecture->prefixes())
      for (llvm::StringRef suffix : {".weight_packed", ".qweight"})
        if (std::string key = (prefix + "." + module + suffix).str(); weights->find(key))
          return errors.report(weights->name() + ": '" + key +
                               "': quantized embeddings are not imported; quantize linears alone, and the embedding "
                               "with --quantize and --quantize-parts=embedding");
    return errors.report(weights->name() + ": " + missing + ": these are not the weights of a model of type " +
                         modelType);
  }
  chooseTypes();
}

/// Chooses the type of activations. Each weight has the type that it is stored in, and activations hold the values of
/// all: those of encoders have the type of the weights if that is one. Language models are computed in f32.
void HuggingFaceImport::chooseTypes() {
  SafetensorsArchive::Tensor tensor = *weights->find(anchor);
  dataType = floatType(tensor.entry->dtype, context);
  if (!dataType)
    return errors.report(tensor.file->name + ": tensor '" + anchor + "' is of dtype " + tensor.entry->dtype +
                         ", expected F32, BF16 or F16");
  llvm::SmallVector<const SafetensorsArchive *> archives{weights.get()};
  if (pipeline)
    llvm::append_range(archives, pipeline->archives());
  std::set<std::string> stored;
  for (const SafetensorsArchive *archive : archives)
    for (llvm::StringRef key : archive->keys(""))
      if (const std::string &dtype = archive->find(key)->entry->dtype; floatType(dtype, context))
        stored.insert(dtype);
  bool isEncoder = modelClass.head != Head::CausalLanguageModel;
  // Matrices that are quantized have values of f32.
  bool isUniform = stored.size() == 1 && !config->has("quantization_config");
  activationType = isEncoder && isUniform ? dataType : Float32Type::get(context);
  if (isEncoder && stored.size() > 1)
    remarks.push_back((weights->name() + ": weights are stored in several types (" + llvm::join(stored, ", ") +
                       "), so that activations are computed in f32")
                          .str());
  static const std::pair<llvm::StringRef, llvm::StringRef> names[] = {
      {"float32", "F32"}, {"bfloat16", "BF16"}, {"float16", "F16"}};
  llvm::StringRef setting = config->has("dtype") ? "dtype" : "torch_dtype";
  std::string named = config->string(setting, "");
  llvm::StringRef name = named;
  name.consume_front("torch.");
  if (!name.empty() && !llvm::is_contained(names, std::make_pair(name, llvm::StringRef(tensor.entry->dtype))))
    remarks.push_back(config->name() + ": " + setting.str() + " '" + named + "' has no effect: '" + anchor + "' is " +
                      tensor.entry->dtype + ", and weights keep the types that they are stored in");
}

void HuggingFaceImport::openQuantized() {
  // Architectures that import no such weights have refused the setting, or read it themselves.
  if (modelType == "gpt_oss")
    return;
  std::optional<Config> settings = config->section("quantization_config"), text = config->section("text_config");
  if (text)
    config->refuseIfDifferent("quantization_config", *text, "quantization_config");
  if (!settings && text)
    settings = text->section("quantization_config");
  if (settings && !settings->value().getAsObject()->empty())
    quantized = QuantizedCheckpoint::open(*settings, *weights, context);
}

/// Adds the tokens that begin and end texts. generation_config.json takes precedence over config.json, as in
/// transformers.
void HuggingFaceImport::addTokenMetadata(OpBuilder &builder, llvm::SmallVectorImpl<NamedAttribute> &entries) const {
  std::optional<Config> generation, text = config->section("text_config");
  if (exists(inFolder("generation_config.json")))
    generation = Config::read(directory, inFolder("generation_config.json"), errors);
  auto idsOf = [&](llvm::StringRef setting) {
    const Config &source = generation && generation->has(setting)                ? *generation
                           : text && text->has(setting) && !config->has(setting) ? *text
                                                                                 : *config;
    llvm::SmallVector<int64_t> ids;
    if (const llvm::json::Value *value = source.find(setting)) {
      llvm::json::Array one;
      one.push_back(*value);
      const llvm::json::Array *list = value->getAsArray();
      for (const llvm::json::Value &id : list ? *list : one) {
        std::optional<int64_t> number = id.getAsInteger();
        if (!number)
          source.report(setting + " is neither a token id nor a list of token ids");
        else if (*number < 0)
          source.report(setting + " is " + llvm::Twine(*number) + ", token ids are not negative: leave it out or " +
                        "null where there is no such token");
        else
          ids.push_back(*number);
      }
    }
    return ids;
  };
  llvm::SmallVector<int64_t> ends = idsOf("eos_token_id"), begins = idsOf("bos_token_id");
  entries.push_back(builder.getNamedAttr("eos_token_ids", builder.getI64ArrayAttr(ends)));
  if (!begins.empty())
    entries.push_back(builder.getNamedAttr("bos_token_id", builder.getI64IntegerAttr(begins.front())));
}

DictionaryAttr HuggingFaceImport::metadata(OpBuilder &builder, bool withLabels, bool withPipeline) const {
  llvm::SmallVector<NamedAttribute> entries;
  entries.push_back(builder.getNamedAttr("model_type", builder.getStringAttr(modelType)));
  entries.push_back(builder.getNamedAttr("architecture", builder.getStringAttr(modelClass.name)));
  if (withLabels) {
    llvm::SmallVector<std::string> labels = readLabels(*config);
    llvm::SmallVector<llvm::StringRef> names(labels.begin(), labels.end());
    entries.push_back(builder.getNamedAttr("labels", builder.getStrArrayAttr(names)));
    if (config->has("problem_type"))
      entries.push_back(
          builder.getNamedAttr("problem_type", builder.getStringAttr(config->string("problem_type", ""))));
  }
  if (modelClass.head == Head::CausalLanguageModel)
    addTokenMetadata(builder, entries);
  if (withPipeline)
    pipeline->addMetadata(builder, entries);
  return builder.getDictionaryAttr(entries);
}

void HuggingFaceImport::buildEmbed(GraphBuilder &graph) {
  Encoder *model = architecture->asEncoder();
  if (!model)
    return errors.report("modules.json: a model of type " + modelType + " is no encoder");
  graph.beginFunction("embed", model->inputs(graph));
  Value hidden;
  {
    GraphBuilder::Scope scope(graph, base);
    hidden = model->encode(graph);
  }
  pipeline->build(graph, hidden, model->features());
  graph.endFunction(architecture->sizeLimits(),
                    metadata(graph.getBuilder(), /*withLabels=*/false, /*withPipeline=*/true));
}

/// Names the files that text generation needs, as far as the directory has them.
void HuggingFaceImport::nameTextFiles(ModuleOp module) const {
  if (!exists("tokenizer.json")) {
    emitRemark(module.getLoc()) << "the directory has no tokenizer.json, so that the artifact gets no tokenizer: texts "
                                   "need one (intarsia generate --tokenizer), token ids do not";
    return;
  }
  llvm::SmallVector<std::string> names = {"tokenizer.json",    "tokenizer_config.json", "special_tokens_map.json",
                                          "added_tokens.json", "chat_template.jinja",   "chat_template.json",
                                          "calibration.json"};
  std::error_code code;
  llvm::SmallString<256> templates(directory);
  llvm::sys::path::append(templates, "additional_chat_templates");
  llvm::SmallVector<std::string> additional;
  for (llvm::sys::fs::directory_iterator file(templates, code), end; !code && file != end; file.increment(code))
    if (llvm::sys::path::extension(file->path()) == ".jinja")
      additional.push_back(("additional_chat_templates/" + llvm::sys::path::filename(file->path())).str());
  llvm::sort(additional);
  llvm::append_range(names, additional);
  llvm::erase_if(names, [&](const std::string &name) { return !exists(name); });
  llvm::SmallVector<llvm::StringRef> files(names.begin(), names.end());
  module->setAttr("nn.files", Builder(context).getStrArrayAttr(files));
}

OwningOpRef<ModuleOp> HuggingFaceImport::build() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(NameLoc::get(StringAttr::get(context, modelClass.name)));
  GraphBuilder graph(*module, *weights, dataType, activationType, errors);
  graph.setQuantized(quantized.get());
  bool withLabels = modelClass.head == Head::SequenceClassification || modelClass.head == Head::TokenClassification ||
                    modelClass.head == Head::ImageClassification || modelClass.head == Head::SemanticSegmentation;
  architecture->build(graph, modelClass, base,
                      [&](OpBuilder &builder) { return metadata(builder, withLabels, /*withPipeline=*/false); });
  if (pipeline && !errors.any())
    buildEmbed(graph);
  if (errors.any())
    return {};
  llvm::append_range(remarks, architecture->remarks());
  for (const std::string &remark : remarks)
    emitRemark(module->getLoc()) << remark;
  for (const std::string &remark : quantized ? quantized->remarks() : std::vector<std::string>())
    emitRemark(module->getLoc()) << remark;
  if (modelClass.head == Head::CausalLanguageModel)
    nameTextFiles(*module);
  return module;
}

} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> importHuggingFace(const ImportRequest &request) {
  request.context->loadDialect<nn::NnDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect,
                               tensor::TensorDialect, linalg::LinalgDialect>();
  Errors errors;
  OwningOpRef<ModuleOp> module = HuggingFaceImport(request.path, request.options, request.context, errors).run();
  // The settings were checked, so this is a fault of the importer; the verifier has said which op it is about.
  if (module && failed(verify(*module)))
    errors.report(request.path + ": the imported graph does not verify");
  if (errors.any())
    return llvm::createStringError(errors.message());
  return module;
}

} // namespace intarsia::importer
