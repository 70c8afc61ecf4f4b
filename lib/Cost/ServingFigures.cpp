//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Names of the fitted figures, and the files that hold them.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ServingCost.h"
#include "lib/Cost/Yaml.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include <type_traits>

using namespace llvm;
using namespace intarsia;

namespace {

using Single = double ServingFigures::*;
using ByEngine = std::array<double, servingEngines> ServingFigures::*;

/// Kind of a figure. Efficiencies are shares of a peak; a fitted value above 1 hides a mistake.
enum class Kind { Time, Efficiency, Factor };

struct Named {
  const char *name;
  Kind kind;
  Single single = nullptr;
  ByEngine byEngine = nullptr;
  int engine = 0;

  constexpr Named(const char *name, Kind kind, Single single) : name(name), kind(kind), single(single) {}
  constexpr Named(const char *name, ByEngine byEngine, int engine)
      : name(name), kind(Kind::Factor), byEngine(byEngine), engine(engine) {}
};

#define ENGINES(NAME, MEMBER)                                                                                          \
  Named(NAME ".trtllm", &ServingFigures::MEMBER, 0), Named(NAME ".vllm", &ServingFigures::MEMBER, 1),                  \
      Named(NAME ".sglang", &ServingFigures::MEMBER, 2), Named(NAME ".splitwise", &ServingFigures::MEMBER, 3)

const Named figureTable[] = {
    {"layer_us", Kind::Time, &ServingFigures::layerUs},
    {"expert_layer_us", Kind::Time, &ServingFigures::expertLayerUs},
    {"latent_layer_us", Kind::Time, &ServingFigures::latentLayerUs},
    {"linear_layer_us", Kind::Time, &ServingFigures::linearLayerUs},
    {"selected_layer_us", Kind::Time, &ServingFigures::selectedLayerUs},
    {"biased_layer_us", Kind::Time, &ServingFigures::biasedLayerUs},
    ENGINES("layer_factor", layerFactor),
    {"hopper_factor", Kind::Factor, &ServingFigures::hopperFactor},
    {"ampere_factor", Kind::Factor, &ServingFigures::ampereFactor},
    {"slow_build_factor", Kind::Factor, &ServingFigures::slowBuildFactor},
    {"step_us", Kind::Time, &ServingFigures::stepUs},
    {"sequence_us", Kind::Time, &ServingFigures::sequenceUs},
    ENGINES("sequence_factor", sequenceFactor),
    {"dense_bandwidth", Kind::Efficiency, &ServingFigures::denseBandwidth},
    {"expert_bandwidth", Kind::Efficiency, &ServingFigures::expertBandwidth},
    {"cache_bandwidth", Kind::Efficiency, &ServingFigures::cacheBandwidth},
    {"blackwell_bandwidth", Kind::Factor, &ServingFigures::blackwellBandwidth},
    {"four_bit_bandwidth", Kind::Factor, &ServingFigures::fourBitBandwidth},
    {"four_bit_expert_bandwidth", Kind::Factor, &ServingFigures::fourBitExpertBandwidth},
    {"dequantized_bandwidth", Kind::Factor, &ServingFigures::dequantizedBandwidth},
    {"sixteen_bit_compute", Kind::Efficiency, &ServingFigures::sixteenBitCompute},
    {"eight_bit_compute", Kind::Efficiency, &ServingFigures::eightBitCompute},
    {"four_bit_compute", Kind::Efficiency, &ServingFigures::fourBitCompute},
    {"attention_compute", Kind::Efficiency, &ServingFigures::attentionCompute},
    {"blackwell_compute", Kind::Factor, &ServingFigures::blackwellCompute},
    {"expert_compute", Kind::Factor, &ServingFigures::expertCompute},
    {"collective_us", Kind::Time, &ServingFigures::collectiveUs},
    ENGINES("collective_factor", collectiveFactor),
    {"network_us", Kind::Time, &ServingFigures::networkUs},
    {"link_efficiency", Kind::Efficiency, &ServingFigures::linkEfficiency},
    {"all_to_all_factor", Kind::Factor, &ServingFigures::allToAllFactor},
    {"prefill_layer_us", Kind::Time, &ServingFigures::prefillLayerUs},
    ENGINES("interference", interference),
    {"data_parallel_imbalance", Kind::Factor, &ServingFigures::dataParallelImbalance},
    {"expert_parallel_imbalance", Kind::Factor, &ServingFigures::expertParallelImbalance},
    {"expert_dispersion", Kind::Factor, &ServingFigures::expertDispersion},
    {"blend", Kind::Factor, &ServingFigures::blend},
    {"one_phase_factor", Kind::Factor, &ServingFigures::onePhaseFactor},
    {"linear_factor", Kind::Factor, &ServingFigures::linearFactor},
    {"attention_factor", Kind::Factor, &ServingFigures::attentionFactor},
    {"experts_factor", Kind::Factor, &ServingFigures::expertsFactor},
    {"first.overhead_us", Kind::Time, &ServingFigures::firstOverheadUs},
    ENGINES("first.overhead_factor", firstOverheadFactor),
    {"first.layer_us", Kind::Time, &ServingFigures::firstLayerUs},
    {"first.expert_layer_us", Kind::Time, &ServingFigures::firstExpertLayerUs},
    {"first.latent_layer_us", Kind::Time, &ServingFigures::firstLatentLayerUs},
    {"first.linear_layer_us", Kind::Time, &ServingFigures::firstLinearLayerUs},
    {"first.selected_layer_us", Kind::Time, &ServingFigures::firstSelectedLayerUs},
    ENGINES("first.layer_factor", firstLayerFactor),
    {"first.hopper_factor", Kind::Factor, &ServingFigures::firstHopperFactor},
    {"first.sixteen_bit_compute", Kind::Efficiency, &ServingFigures::firstSixteenBitCompute},
    {"first.eight_bit_compute", Kind::Efficiency, &ServingFigures::firstEightBitCompute},
    {"first.four_bit_compute", Kind::Efficiency, &ServingFigures::firstFourBitCompute},
    {"first.attention_compute", Kind::Efficiency, &ServingFigures::firstAttentionCompute},
    {"first.blackwell_compute", Kind::Factor, &ServingFigures::firstBlackwellCompute},
    {"first.expert_compute", Kind::Factor, &ServingFigures::firstExpertCompute},
    {"first.bandwidth", Kind::Efficiency, &ServingFigures::firstBandwidth},
    {"first.link_efficiency", Kind::Efficiency, &ServingFigures::firstLinkEfficiency},
    {"first.wait", Kind::Factor, &ServingFigures::firstWait},
    {"first.one_phase_us", Kind::Time, &ServingFigures::firstOnePhaseUs},
    {"first.slow_build_factor", Kind::Factor, &ServingFigures::firstSlowBuildFactor},
    {"first.power_cap_factor", Kind::Factor, &ServingFigures::firstPowerCapFactor},
    {"first.operators_factor", Kind::Factor, &ServingFigures::firstOperatorsFactor},
    {"first.long_slowdown", Kind::Time, &ServingFigures::firstLongSlowdown},
    {"first.long_tokens", Kind::Factor, &ServingFigures::firstLongTokens},
};

struct EmbeddedFile {
  const char *path, *text;
};
const EmbeddedFile servingFiles[] = {
#include "Serving.inc"
    {nullptr, nullptr}};

Expected<std::vector<std::string>> words(const YamlNode &root, StringRef file, StringRef key) {
  const YamlNode *node = root.find(key);
  if (!node || node->kind != YamlNode::Kind::Sequence || node->items.empty())
    return yamlError(file, node ? node->line : root.line, "'" + key + "' is missing or not a list of names");
  std::vector<std::string> list;
  for (const YamlNode &item : node->items)
    list.push_back(item.scalar);
  return list;
}

Expected<ServingResiduals> readResiduals(const YamlNode &node, StringRef file, StringRef kind) {
  ServingResiduals residuals;
  residuals.kind = kind.str();
  double rows = 0, groups = 0;
  std::pair<StringRef, double *> values[] = {{"rows", &rows},
                                             {"groups", &groups},
                                             {"group_spread", &residuals.groupSpread},
                                             {"row_spread", &residuals.rowSpread}};
  for (auto &[key, into] : values) {
    const YamlNode *found = node.find(key);
    if (!found)
      return yamlError(file, node.line, "residuals of " + kind + ": '" + key + "' is missing");
    Expected<double> value = found->number(file, key);
    if (!value)
      return value.takeError();
    if (*value < 0 || *value > 1e9)
      return yamlError(file, found->line, "residuals of " + kind + ": " + key + " is negative or absurd");
    *into = *value;
  }
  residuals.rows = int(rows);
  residuals.groups = int(groups);
  const YamlNode *quantiles = node.find("quantiles");
  if (!quantiles || quantiles->kind != YamlNode::Kind::Sequence || quantiles->items.size() != 19)
    return yamlError(file, quantiles ? quantiles->line : node.line,
                     "residuals of " + kind + ": 'quantiles' are 19 values, for 0.05, 0.10 … 0.95");
  for (const YamlNode &item : quantiles->items) {
    Expected<double> value = item.number(file, "quantiles");
    if (!value)
      return value.takeError();
    residuals.quantiles.push_back(*value);
  }
  if (!is_sorted(residuals.quantiles))
    return yamlError(file, quantiles->line, "residuals of " + kind + ": quantiles do not rise");
  return residuals;
}

} // namespace

ArrayRef<const char *> ServingFigures::names() {
  static const std::vector<const char *> names = [] {
    std::vector<const char *> names;
    for (const Named &figure : figureTable)
      names.push_back(figure.name);
    return names;
  }();
  return names;
}

double &ServingFigures::at(size_t index) {
  const Named &figure = figureTable[index];
  return figure.single ? this->*figure.single : (this->*figure.byEngine)[figure.engine];
}

Expected<ServingEfficiency> ServingEfficiency::parse(StringRef text, StringRef file) {
  Expected<YamlNode> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  if (root->kind != YamlNode::Kind::Map)
    return yamlError(file, root->line, "is not a map");
  for (auto &[key, node] : root->entries)
    if (!is_contained({"engines", "generations", "operators", "figures", "residuals"}, StringRef(key)))
      return yamlError(file, node.line,
                       "unknown key '" + key + "'; it has engines, generations, operators, figures, residuals");
  ServingEfficiency efficiency;
  efficiency.file = file.str();
  Expected<std::vector<std::string>> engines = words(*root, file, "engines");
  if (!engines)
    return engines.takeError();
  for (const std::string &name : *engines) {
    Expected<ServingEngine> engine = parseServingEngine(name);
    if (!engine)
      return yamlError(file, root->find("engines")->line, toString(engine.takeError()));
    efficiency.engines.push_back(*engine);
  }
  Expected<std::vector<std::string>> generations = words(*root, file, "generations");
  if (!generations)
    return generations.takeError();
  efficiency.generations = std::move(*generations);

  if (const YamlNode *operators = root->find("operators")) {
    if (operators->scalar != "measured")
      return yamlError(file, operators->line,
                       "operators: '" + operators->scalar +
                           "' is not measured; leave the key out for shares of the peaks");
    efficiency.operators = true;
  }

  const YamlNode *given = root->find("figures");
  if (!given || given->kind != YamlNode::Kind::Map)
    return yamlError(file, given ? given->line : root->line, "'figures' is missing or not a map");
  for (auto &[key, node] : given->entries)
    if (!is_contained(ServingFigures::names(), StringRef(key)))
      return yamlError(file, node.line, "figures: unknown figure '" + key + "'");
  for (const auto &[index, figure] : enumerate(figureTable)) {
    // Sets factors of engines that the file does not cover to 1.
    if (figure.byEngine && !is_contained(efficiency.engines, ServingEngine(figure.engine))) {
      efficiency.figures.at(index) = 1;
      continue;
    }
    const YamlNode *node = given->find(figure.name);
    if (!node)
      return yamlError(file, given->line, formatv("figures: '{0}' is missing", figure.name));
    Expected<double> value = node->number(file, figure.name);
    if (!value)
      return value.takeError();
    if (*value < 0 || (*value == 0 && figure.kind != Kind::Time))
      return yamlError(file, node->line, formatv("figures: {0} {1} is not above zero", figure.name, *value));
    if (figure.kind == Kind::Efficiency && *value > 1)
      return yamlError(file, node->line, formatv("figures: {0} {1}: an efficiency is at most 1", figure.name, *value));
    efficiency.figures.at(index) = *value;
  }
  if (const YamlNode *residuals = root->find("residuals"))
    for (auto &[kind, node] : residuals->entries) {
      Expected<ServingResiduals> read = readResiduals(node, file, kind);
      if (!read)
        return read.takeError();
      efficiency.residuals.push_back(std::move(*read));
    }
  return efficiency;
}

const ServingResiduals *ServingEfficiency::residualsOf(StringRef kind) const {
  for (const ServingResiduals &entry : residuals)
    if (entry.kind == kind)
      return &entry;
  return nullptr;
}

const ServingEfficiency &ServingEfficiency::of(ServingEngine engine) {
  static const std::vector<ServingEfficiency> all = [] {
    std::vector<ServingEfficiency> all;
    for (const EmbeddedFile &file : servingFiles) {
      if (!file.path)
        break;
      Expected<ServingEfficiency> efficiency = parse(file.text, file.path);
      if (!efficiency)
        report_fatal_error(efficiency.takeError());
      all.push_back(std::move(*efficiency));
    }
    return all;
  }();
  for (const ServingEfficiency &efficiency : all)
    if (is_contained(efficiency.engines, engine))
      return efficiency;
  report_fatal_error("catalogue/efficiency has no file for the engine " + servingEngineName(engine));
}
