//===- CompressedTensors.cpp - Weights quantized by llm-compressor -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Source of all names, defaults and formulas: the package compressed-tensors, quantization/quant_config.py,
// quant_args.py, quantization/lifecycle/{apply,forward}.py, compressors/, utils/match.py (versions 0.12 and 0.20).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using llvm::StringRef;

namespace intarsia::importer {
namespace {

/// How one group of modules is quantized: an entry of config_groups.
struct ModuleGroup {
  std::string name, format, strategy;
  int64_t bits = 8, group = 0, blockRows = 1;
  bool isFloat = false, isSymmetric = true, hasActivationOrder = false;
};

/// A string of "targets" or "ignore", and the modules that it matches.
struct Target {
  std::string text; ///< the name of a module or of a class
  std::shared_ptr<llvm::Regex> pattern;
  const ModuleGroup *group = nullptr;

  bool matchesName(StringRef module) const { return pattern ? pattern->match(module) : text == module; }
  /// Every module that is asked for is a linear, or a table.
  bool matchesClass(StringRef module) const {
    return !pattern && text == (module.ends_with("embed_tokens") ? "Embedding" : "Linear");
  }
};

class CompressedTensors : public QuantizedCheckpoint {
public:
  using QuantizedCheckpoint::QuantizedCheckpoint;
  void readSettings();

protected:
  StringRef scaleSuffix() const override { return ".weight_scale"; }
  bool holds(StringRef module) const override;
  std::optional<QuantizedMatrix> read(const Request &request) override;

private:
  void readGroup(StringRef name, const Config &section);
  void readArguments(const Config &weights, ModuleGroup &group);
  void readActivations(const Config &section, StringRef setting);
  void refuseArguments(const Config &weights, const ModuleGroup &group);
  std::optional<Target> readTarget(const Config &section, StringRef text) const;
  const ModuleGroup *groupOf(const Request &request) const;
  bool fits(const Request &request, const ModuleGroup &group) const;
  bool checkZeroPoints(const Request &request) const;

  std::optional<QuantizedMatrix> readPacked(const Request &request, const ModuleGroup &group);
  std::optional<QuantizedMatrix> readBytes(const Request &request, const ModuleGroup &group);
  std::optional<QuantizedMatrix> readFloats4(const Request &request, const ModuleGroup &group);
  bool checkShapeTensor(const Request &request);

  std::vector<std::unique_ptr<ModuleGroup>> groups;
  std::vector<Target> targets, ignored;
  std::string format;
};

constexpr StringRef formats[] = {"pack-quantized",  "int-quantized",        "float-quantized",
                                 "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized"};

//===-- Settings ------------------------------------------------------------------------------------------------===//

void CompressedTensors::readSettings() {
  format = settings.string("format", "");
  std::string status = settings.string("quantization_status", "compressed");
  // Older versions of the tool wrote "frozen" beside weights that were compressed; tensors tell which are.
  if (status != "compressed" && status != "frozen")
    settings.refuse("quantization_status", status, {"compressed", "frozen"});
  settings.refuseIfSet("transform_config", "transforms of activations are not computed");
  if (std::optional<Config> sparsity = settings.section("sparsity_config"))
    if (std::string sparse = sparsity->string("format", "dense"); sparse != "dense")
      sparsity->refuse("format", sparse, {"dense"});
  settings.refuseIfSet("moe_sparsity_config", "experts are stored whole");
  if (settings.has("kv_cache_scheme"))
    remark("kv_cache_scheme has no effect: keys and values are kept as --kv says");
  remarkUnknown(settings, {"config_groups", "format", "global_compression_ratio", "ignore", "kv_cache_scheme",
                           "moe_sparsity_config", "quant_method", "quantization_status", "run_compressed",
                           "sparsity_config", "transform_config", "version"});
  for (const std::string &text : settings.strings("ignore"))
    if (std::optional<Target> target = readTarget(settings, text))
      ignored.push_back(*target);
  std::optional<Config> sections = settings.section("config_groups");
  if (!sections)
    return report("has no config_groups");
  for (const auto &[name, value] : *sections->value().getAsObject()) {
    std::optional<Config> section = sections->section(name);
    if (!section)
      return;
    readGroup(StringRef(name), *section);
  }
  // The order of `match_targets`: names, patterns and classes, each sorted.
  llvm::stable_sort(targets, [](const Target &a, const Target &b) {
    return std::make_pair(a.pattern != nullptr, StringRef(a.text)) <
           std::make_pair(b.pattern != nullptr, StringRef(b.text));
  });
}

void CompressedTensors::readGroup(StringRef name, const Config &section) {
  auto group = std::make_unique<ModuleGroup>();
  group->name = name.str();
  for (const auto &[key, value] : *section.value().getAsObject())
    if (StringRef setting(key); !llvm::is_contained({StringRef("targets"), StringRef("weights"), StringRef("format"),
                                                     StringRef("input_activations"), StringRef("output_activations")},
                                                    setting))
      return section.report("the setting '" + setting + "' is not known");
  readActivations(section, "input_activations");
  readActivations(section, "output_activations");
  std::optional<Config> weights = section.section("weights");
  if (!weights) // activations alone are quantized
    return;
  group->format = section.string("format", format);
  if (!llvm::is_contained(formats, StringRef(group->format)))
    return (section.has("format") ? section : settings).refuse("format", group->format, formats);
  readArguments(*weights, *group);
  refuseArguments(*weights, *group);
  for (const std::string &text : section.strings("targets"))
    if (std::optional<Target> target = readTarget(section, text)) {
      if (llvm::any_of(targets, [&](const Target &other) { return other.text == target->text; }))
        return section.report("the target '" + target->text + "' is in two groups");
      target->group = group.get();
      targets.push_back(*target);
    }
  groups.push_back(std::move(group));
}

void CompressedTensors::readArguments(const Config &weights, ModuleGroup &group) {
  for (const auto &[key, value] : *weights.value().getAsObject())
    if (StringRef setting(key);
        !llvm::StringSwitch<bool>(setting)
             .Cases({"num_bits", "type", "symmetric", "group_size", "strategy", "block_structure"}, true)
             .Cases({"dynamic", "actorder", "scale_dtype", "zp_dtype", "observer", "observer_kwargs"}, true)
             .Default(false))
      return weights.report("the setting '" + setting + "' is not known");
  group.bits = weights.integer("num_bits", 8, 1, 16);
  std::string type = weights.string("type", "int");
  if (type != "int" && type != "float")
    weights.refuse("type", type, {"int", "float"});
  group.isFloat = type == "float";
  group.isSymmetric = weights.flag("symmetric", true);
  weights.refuseIfSet("dynamic", "weights are quantized before they are stored");
  int64_t size = weights.integer("group_size", 0, -1);
  group.strategy = weights.string("strategy", size > 0 ? "group" : size < 0 ? "channel" : "tensor");
  bool isGroup = group.strategy == "group" || group.strategy == "tensor_group";
  if (isGroup && size <= 0)
    weights.report("strategy is '" + group.strategy + "', but group_size is no positive number");
  group.group = isGroup ? size : 0;
  if (group.strategy == "block") {
    std::vector<double> sizes = weights.numbers("block_structure", 1, 1 << 20);
    if (sizes.size() != 2)
      return weights.report("block_structure is no list of two numbers");
    group.blockRows = int64_t(sizes[0]);
    group.group = int64_t(sizes[1]);
  } else if (group.strategy == "tensor") {
    group.blockRows = 0;
  } else if (!isGroup && group.strategy != "channel") {
    weights.refuse("strategy", group.strategy, {"tensor", "channel", "group", "block", "tensor_group"});
  }
  // "weight" only says in which order a tool has quantized columns.
  const llvm::json::Value *order = weights.find("actorder");
  if (!order)
    return;
  std::string name =
      order->getAsBoolean() ? (*order->getAsBoolean() ? "group" : "weight") : weights.string("actorder", "weight");
  if (!llvm::is_contained({StringRef("group"), StringRef("dynamic"), StringRef("weight"), StringRef("static")},
                          StringRef(name)))
    weights.refuse("actorder", name, {"group", "weight"});
  group.hasActivationOrder = name == "group" || name == "dynamic";
}

void CompressedTensors::refuseArguments(const Config &weights, const ModuleGroup &group) {
  auto refuse = [&](const llvm::Twine &what) {
    weights.report("weights of " + what + " are not supported in the format " + group.format);
  };
  std::string kind = (group.isFloat ? "float" : "int") + std::to_string(group.bits);
  bool isPacked = group.format == "pack-quantized";
  if (isPacked                            ? (kind != "int4" && kind != "int8") || group.blockRows > 1
      : group.format.starts_with("nvfp4") ? kind != "float4" || group.strategy != "tensor_group" || group.group != 16
      : group.format.starts_with("mxfp4") ? kind != "float4" || group.strategy != "group" || group.group != 32
      : group.format == "int-quantized"   ? kind != "int8"
      : group.format == "float-quantized" ? kind != "float8"
                                          : kind != "int8" && kind != "float8")
    refuse(kind + " by " + group.strategy + (group.group ? " of " + std::to_string(group.group) : ""));
  else if (!group.isSymmetric && !isPacked)
    refuse("integers with zero points");
  else if (!group.isSymmetric && group.blockRows == 0)
    refuse("integers with one zero point for a tensor");
}

void CompressedTensors::readActivations(const Config &section, StringRef setting) {
  std::optional<Config> activations = section.section(setting);
  if (!activations)
    return;
  const llvm::json::Value *dynamic = activations->find("dynamic");
  bool isDynamic = dynamic && (dynamic->getAsBoolean() ? *dynamic->getAsBoolean() : dynamic->getAsString().has_value());
  std::string kind = (isDynamic ? "dynamic " : "static ") + activations->string("type", "int") +
                     std::to_string(activations->integer("num_bits", 8)) + " by " +
                     activations->string("strategy", "tensor") +
                     (activations->flag("symmetric", true) ? "" : ", not symmetric");
  remark(setting + " (" + kind + ") has no effect: --quantize-activations says how inputs of linears are multiplied");
}

/// Translates a pattern of Python's `re.match` to POSIX's extended ones; nullopt if it has parts that these lack.
std::optional<std::string> translatePattern(StringRef python) {
  std::string result = "^(";
  for (size_t at = 0; at < python.size(); ++at) {
    char c = python[at], next = at + 1 < python.size() ? python[at + 1] : '\0';
    if (c == '\\') {
      if (!next)
        return std::nullopt;
      StringRef set = llvm::StringSwitch<StringRef>(StringRef(&next, 1))
                          .Case("d", "[0-9]")
                          .Case("w", "[A-Za-z0-9_]")
                          .Case("s", "[ \t\n\r\f\v]")
                          .Default("");
      if (set.empty() && llvm::isAlnum(next))
        return std::nullopt; // other classes, anchors, references
      result += set.empty() ? std::string("\\") + next : set.str();
      ++at;
    } else if (c == '(' && next == '?') {
      if (python.substr(at, 3) != "(?:")
        return std::nullopt; // look-ahead, names, flags
      result += "(";
      at += 2;
    } else if (llvm::StringRef("*+?}").contains(c) && next == '?') {
      result += c; // whether as few or as many as can be is of no matter to whether it matches
      ++at;
    } else {
      result += c;
    }
  }
  return result + ")";
}

std::optional<Target> CompressedTensors::readTarget(const Config &section, StringRef text) const {
  Target target;
  target.text = text.str();
  if (!text.consume_front("re:"))
    return target;
  std::optional<std::string> pattern = translatePattern(text);
  std::string error = "it has a part that this compiler cannot match, such as a look-ahead";
  if (pattern) {
    target.pattern = std::make_shared<llvm::Regex>(*pattern);
    if (target.pattern->isValid(error))
      return target;
  }
  section.report("the pattern '" + target.text + "' is not supported: " + error + "; name the modules instead");
  return std::nullopt;
}

//===-- Matrices ------------------------------------------------------------------------------------------------===//

bool CompressedTensors::holds(StringRef module) const {
  if (archive.find((module + ".weight_packed").str()))
    return true;
  std::optional<WeightArchive::Tensor> weight = archive.find((module + ".weight").str());
  return weight && (weight->entry->dtype == "I8" || StringRef(weight->entry->dtype).starts_with("F8_"));
}

/// Returns true if the archive has the tensors that a group stores for a module.
bool CompressedTensors::fits(const Request &request, const ModuleGroup &group) const {
  auto hasColumns = [&](StringRef name, int64_t count) {
    std::optional<WeightArchive::Tensor> tensor = archive.find(request.key(name));
    return tensor && tensor->entry->shape.size() == 2 && tensor->entry->shape[1] == count;
  };
  int64_t inputs = request.inputs.size;
  if (group.group && !hasColumns("weight_scale", llvm::divideCeil(inputs, group.group)))
    return false;
  if (group.format == "pack-quantized")
    return archive.find(request.key("weight_shape")) && hasColumns("weight_packed", inputs * group.bits / 32);
  if (group.format.ends_with("fp4-pack-quantized"))
    return !archive.find(request.key("weight_shape")) && hasColumns("weight_packed", inputs / 2);
  std::optional<WeightArchive::Tensor> weight = archive.find(request.key("weight"));
  return weight && weight->entry->dtype == (group.isFloat ? "F8_E4M3" : "I8");
}

/// Finds the group of a module. compressed-tensors takes the first target that matches, in the order of `targets`;
/// where targets overlap, tools have written by another order, so that the tensors decide.
const ModuleGroup *CompressedTensors::groupOf(const Request &request) const {
  StringRef module = request.module;
  auto matches = [&](const Target &target) { return target.matchesName(module) || target.matchesClass(module); };
  if (llvm::any_of(ignored, matches)) {
    report("'ignore' has '" + module + "', but " + archive.name() + " holds it quantized");
    return nullptr;
  }
  llvm::SmallVector<const ModuleGroup *> candidates;
  for (const Target &target : targets)
    if (target.matchesName(module))
      candidates.push_back(target.group);
  for (const Target &target : targets)
    if (target.matchesClass(module))
      candidates.push_back(target.group);
  for (const ModuleGroup *group : candidates)
    if (fits(request, *group))
      return group;
  if (!candidates.empty())
    return candidates.front(); // whose tensors are missed by name
  report("no target of config_groups matches '" + module + "', but " + archive.name() + " holds it quantized");
  return nullptr;
}

std::optional<QuantizedMatrix> CompressedTensors::read(const Request &request) {
  const ModuleGroup *group = groupOf(request);
  if (!group || (group->isSymmetric && !checkZeroPoints(request)))
    return std::nullopt;
  if (group->format == "pack-quantized")
    return readPacked(request, *group);
  if (group->format == "nvfp4-pack-quantized" || group->format == "mxfp4-pack-quantized")
    return readFloats4(request, *group);
  return readBytes(request, *group);
}

/// Checks that zero points beside a symmetric matrix, which older versions of the tool stored, are 0.
bool CompressedTensors::checkZeroPoints(const Request &request) const {
  std::optional<WeightArchive::Tensor> zeros = archive.find(request.key("weight_zero_point"));
  if (!zeros || isZero(*zeros))
    return true;
  settings.sink().report(zeros->file->name + ": tensor '" + request.key("weight_zero_point") +
                         "' is not 0, but the matrix is symmetric by " + settings.name());
  return false;
}

bool CompressedTensors::checkShapeTensor(const Request &request) {
  std::string key = request.key("weight_shape");
  std::optional<QuantizedMatrix::Part> shape = part(key, {"I64", "I32"}, llvm::ArrayRef<int64_t>{2});
  if (!shape)
    return false;
  const ArchiveTensor &entry = *shape->tensor.entry;
  const auto *bytes = static_cast<const char *>(entry.data);
  auto sizeAt = [&](int64_t index) -> int64_t {
    return entry.dtype == "I64" ? int64_t(llvm::support::endian::read64le(bytes + 8 * index))
                                : int32_t(llvm::support::endian::read32le(bytes + 4 * index));
  };
  if (sizeAt(0) == request.outputs.size && sizeAt(1) == request.inputs.size)
    return true;
  settings.sink().report(shape->tensor.file->name + ": tensor '" + key + "' says [" + llvm::Twine(sizeAt(0)) + ", " +
                         llvm::Twine(sizeAt(1)) + "], config.json implies [" + llvm::Twine(request.outputs.size) +
                         ", " + llvm::Twine(request.inputs.size) + "] (" + request.outputs.setting + ", " +
                         request.inputs.setting + "); is config.json from another model?");
  return false;
}

std::optional<QuantizedMatrix> CompressedTensors::readPacked(const Request &request, const ModuleGroup &group) {
  int64_t perWord = 32 / group.bits, outputs = request.outputs.size, inputs = request.inputs.size;
  Scheme scheme = {.order = nn::ArchiveOrder::Rows,
                   .element = group.bits == 4 ? nn::BlockElement::U4 : nn::BlockElement::U8,
                   .group = group.group,
                   .rows = group.blockRows,
                   .zero = group.isSymmetric ? int64_t(1) << (group.bits - 1) : 0};
  if (!checkMultiple(request, request.inputs, perWord, "integers in a word") || !checkShapeTensor(request) ||
      (group.group && group.group < inputs && !checkMultiple(request, request.inputs, group.group, "of a group")))
    return std::nullopt;
  int64_t count = group.group ? llvm::divideCeil(inputs, group.group) : 1;
  std::optional<QuantizedMatrix::Part> values =
      part(request.key("weight_packed"), {"I32"}, llvm::ArrayRef<int64_t>{outputs, inputs / perWord});
  bool isWhole = group.blockRows == 0;
  std::optional<QuantizedMatrix::Part> scales =
      part(request.key("weight_scale"), {"F16", "BF16", "F32"},
           isWhole ? llvm::ArrayRef<int64_t>{1} : llvm::ArrayRef<int64_t>{outputs, count});
  if (!values || !scales)
    return std::nullopt;
  QuantizedMatrix matrix{*values, *scales};
  if (!group.isSymmetric) {
    matrix.zeroPoints = part(request.key("weight_zero_point"), {"I32"},
                             llvm::ArrayRef<int64_t>{int64_t(llvm::divideCeil(outputs, perWord)), count});
    if (!matrix.zeroPoints)
      return std::nullopt;
  }
  std::string indices = request.key("weight_g_idx");
  if ((group.hasActivationOrder || archive.find(indices)) &&
      !readGroupIndices(matrix, indices, request, scheme, /*areEqual=*/true))
    return std::nullopt;
  setFormat(matrix, scheme);
  return matrix;
}

std::optional<QuantizedMatrix> CompressedTensors::readBytes(const Request &request, const ModuleGroup &group) {
  int64_t outputs = request.outputs.size, inputs = request.inputs.size;
  Scheme scheme = {.order = nn::ArchiveOrder::Rows,
                   .element = group.isFloat ? nn::BlockElement::E4M3 : nn::BlockElement::I8,
                   .group = group.group,
                   .rows = group.blockRows};
  if ((group.blockRows > 1 && !checkMultiple(request, request.outputs, group.blockRows, "of a block")) ||
      (group.group && group.group < inputs && !checkMultiple(request, request.inputs, group.group, "of a group")))
    return std::nullopt;
  std::optional<QuantizedMatrix::Part> values =
      part(request.key("weight"), {group.isFloat ? StringRef("F8_E4M3") : StringRef("I8")},
           llvm::ArrayRef<int64_t>{outputs, inputs});
  int64_t count = group.group ? llvm::divideCeil(inputs, group.group) : 1;
  std::string key = request.key("weight_scale");
  // The scale of a tensor is one number, whatever its shape.
  bool isWhole = group.blockRows == 0;
  int64_t rows = isWhole ? 1 : llvm::divideCeil(outputs, group.blockRows);
  llvm::SmallVector<StringRef> types = {"F16", "BF16", "F32"};
  if (group.isFloat)
    types.push_back("F8_E8M0");
  std::optional<QuantizedMatrix::Part> scales =
      part(key, types, isWhole ? std::nullopt : std::optional(llvm::ArrayRef<int64_t>{rows, count}));
  if (!values || !scales)
    return std::nullopt;
  if (isWhole && scales->type.getNumElements() != 1) {
    settings.sink().report(scales->tensor.file->name + ": tensor '" + key + "' has " +
                           llvm::Twine(scales->type.getNumElements()) + " scales, strategy 'tensor' implies one");
    return std::nullopt;
  }
  if (archive.find(request.key("weight_g_idx"))) {
    report("'" + request.key("weight_g_idx") + "' is not supported in the format " + group.format);
    return std::nullopt;
  }
  QuantizedMatrix matrix{*values, *scales};
  setFormat(matrix, scheme);
  return matrix;
}

std::optional<QuantizedMatrix> CompressedTensors::readFloats4(const Request &request, const ModuleGroup &group) {
  int64_t outputs = request.outputs.size, inputs = request.inputs.size;
  bool isNvfp4 = group.group == 16;
  if (!checkMultiple(request, request.inputs, group.group, "of a block"))
    return std::nullopt;
  std::optional<QuantizedMatrix::Part> values =
      part(request.key("weight_packed"), {"U8"}, llvm::ArrayRef<int64_t>{outputs, inputs / 2});
  std::optional<QuantizedMatrix::Part> scales =
      part(request.key("weight_scale"),
           isNvfp4 ? llvm::ArrayRef<StringRef>{"F8_E4M3"} : llvm::ArrayRef<StringRef>{"U8", "F8_E8M0"},
           llvm::ArrayRef<int64_t>{outputs, inputs / group.group});
  if (!values || !scales)
    return std::nullopt;
  QuantizedMatrix matrix{*values, *scales};
  if (isNvfp4) {
    matrix.tensorScale = part(request.key("weight_global_scale"), {"F32"}, llvm::ArrayRef<int64_t>{1});
    if (!matrix.tensorScale)
      return std::nullopt;
  }
  setFormat(matrix, {.order = nn::ArchiveOrder::Rows, .element = nn::BlockElement::E2M1, .group = group.group});
  return matrix;
}

} // namespace

std::unique_ptr<QuantizedCheckpoint> openCompressedTensors(const Config &settings, const WeightArchive &archive,
                                                           MLIRContext *context) {
  auto checkpoint = std::make_unique<CompressedTensors>(settings, archive, context);
  checkpoint->readSettings();
  return checkpoint;
}

} // namespace intarsia::importer
