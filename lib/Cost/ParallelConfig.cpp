//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ParallelConfig.h"

#include "lib/Cost/Yaml.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include <cmath>

using namespace llvm;
using namespace intarsia;

namespace {

/// Reads the values of one map, each where it is wanted, and refuses keys that nothing wanted.
class MapReader {
public:
  MapReader(const YamlNode &map, StringRef file, StringRef what) : map(map), file(file), what(what) {}

  Error isMap() const {
    return map.kind == YamlNode::Kind::Map ? Error::success() : yamlError(file, map.line, what + ": is not a map");
  }
  Error number(StringRef key, double &into, double least, bool isWhole) {
    known.insert(key);
    const YamlNode *node = map.find(key);
    if (!node)
      return Error::success();
    Expected<double> value = node->number(file, key);
    if (!value)
      return value.takeError();
    if (*value < least || (isWhole && *value != std::floor(*value)) || *value > 1e12)
      return yamlError(file, node->line,
                       key + ": " + node->scalar + " is not a " + (isWhole ? "whole " : "") + "number from " +
                           Twine(int64_t(std::ceil(least))) + " on");
    into = *value;
    return Error::success();
  }
  Error whole(StringRef key, int &into, int least = 1) {
    double value = into;
    if (Error error = number(key, value, least, true))
      return error;
    if (value > 1e6)
      return yamlError(file, map.find(key)->line, key + ": " + map.find(key)->scalar + " is more than a million");
    into = int(value);
    return Error::success();
  }
  /// Reads one of several words; `into` becomes its number.
  template <typename Enum> Error word(StringRef key, Enum &into, ArrayRef<StringRef> words) {
    known.insert(key);
    const YamlNode *node = map.find(key);
    if (!node)
      return Error::success();
    auto found = find(words, StringRef(node->scalar));
    if (found == words.end())
      return yamlError(file, node->line, key + ": '" + node->scalar + "' is none of " + join(words, ", "));
    into = Enum(found - words.begin());
    return Error::success();
  }
  Error flag(StringRef key, bool &into) {
    int number = into;
    if (Error error = word(key, number, {"false", "true"}))
      return error;
    into = number;
    return Error::success();
  }
  Expected<std::string> text(StringRef key) {
    known.insert(key);
    const YamlNode *node = map.find(key);
    if (!node || node->scalar.empty())
      return yamlError(file, node ? node->line : map.line, what + ": '" + key + "' is missing");
    return node->scalar;
  }
  const YamlNode *node(StringRef key) {
    known.insert(key);
    return map.find(key);
  }
  Error finish() const {
    for (const auto &[key, node] : map.entries)
      if (!known.contains(key))
        return yamlError(file, node.line,
                         what + ": unknown key '" + key + "'; it has " + join(known.getArrayRef(), ", "));
    return Error::success();
  }

private:
  const YamlNode &map;
  StringRef file, what;
  SmallSetVector<StringRef, 16> known;
};

constexpr StringRef recomputations[] = {"none", "selective", "full"};

Error readCluster(MapReader &reader, StringRef file, int line, ParallelConfig &config) {
  Expected<std::string> name = reader.text("device");
  if (!name)
    return name.takeError();
  Expected<const CatalogueDevice *> device = findDevice(*name);
  if (!device)
    return yamlError(file, line, toString(device.takeError()));
  int devices = 1;
  if (Error error = reader.whole("devices", devices))
    return error;
  std::string format = "bf16";
  if (reader.node("format")) {
    Expected<std::string> given = reader.text("format");
    if (!given)
      return given.takeError();
    format = *given;
  }
  CatalogueDevice own = **device;
  double network = own.networkGBps ? own.networkGBps->value : 0;
  if (Error error = reader.number("network_gbps", network, 0, false))
    return error;
  if (network > 0)
    own.networkGBps = Figure{network, file.str(), "", false};
  double adapters = 1;
  if (Error error = reader.number("ring_adapters", adapters, 1, true))
    return error;
  Expected<Cluster> cluster = Cluster::of(own, format, devices);
  if (!cluster)
    return yamlError(file, line, toString(cluster.takeError()));
  config.cluster = *cluster;
  config.cluster.ringAdapters = adapters;
  return Error::success();
}

Error readDevice(const YamlNode &node, StringRef file, ParallelConfig &config) {
  MapReader reader(node, file, "device of a fleet");
  if (Error error = reader.isMap())
    return error;
  Expected<std::string> name = reader.text("name");
  if (!name)
    return name.takeError();
  FleetDevice device;
  device.name = *name;
  for (auto [key, into] :
       {std::pair(StringRef("accelerator_gbps"), &device.acceleratorGBps),
        std::pair(StringRef("accelerator_gb"), &device.acceleratorBytes),
        std::pair(StringRef("host_gbps"), &device.hostGBps), std::pair(StringRef("host_gb"), &device.hostBytes),
        std::pair(StringRef("disk_gbps"), &device.diskGBps),
        std::pair(StringRef("accelerator_tflops"), &device.acceleratorTflops),
        std::pair(StringRef("host_tflops"), &device.hostTflops)})
    if (Error error = reader.number(key, *into, 0, false))
      return error;
  device.acceleratorBytes *= 1e9;
  device.hostBytes *= 1e9;
  config.fleet.push_back(std::move(device));
  return reader.finish();
}

/// Reads what a file with a fleet has beside its model.
Error readFleet(MapReader &reader, const YamlNode &fleet, StringRef file, ParallelConfig &config) {
  if (fleet.kind != YamlNode::Kind::Sequence || fleet.items.empty())
    return yamlError(file, fleet.line, "fleet: is not a list of devices");
  if (fleet.items.size() > 64)
    return yamlError(file, fleet.line, "fleet: has more than 64 devices");
  for (const YamlNode &node : fleet.items)
    if (Error error = readDevice(node, file, config))
      return error;
  double bits = 16;
  if (Error error = reader.number("weight_bits", bits, 1, false))
    return error;
  if (Error error = reader.word("objective", config.objective, {"latency", "slowest"}))
    return error;
  config.fleetModel = FleetModel::of(*config.shape, bits);
  return reader.finish();
}

Error readRun(const YamlNode &node, StringRef file, ParallelConfig &config) {
  MapReader reader(node, file, "run");
  TrainingRun &run = config.run;
  if (Error error = reader.isMap())
    return error;
  for (auto [key, into] :
       {std::pair(StringRef("sequence"), &run.sequence), std::pair(StringRef("global_batch"), &run.globalBatch)}) {
    if (!reader.node(key))
      return yamlError(file, node.line, "run: '" + key + "' is missing");
    if (Error error = reader.number(key, *into, 1, true))
      return error;
  }
  for (auto [key, into] : {std::pair(StringRef("fused_attention"), &run.fusedAttention),
                           std::pair(StringRef("overlaps_data"), &run.overlapsData),
                           std::pair(StringRef("offloads_states"), &run.offloadsStates),
                           std::pair(StringRef("offloads_activations"), &run.offloadsActivations),
                           std::pair(StringRef("offloads_weights"), &run.offloadsWeights)})
    if (Error error = reader.flag(key, *into))
      return error;
  if (Error error = reader.number("gradient_bytes", run.gradientBytes, 1, false))
    return error;
  return reader.finish();
}

Error readSearch(const YamlNode &node, StringRef file, ParallelSearchOptions &search) {
  MapReader reader(node, file, "search");
  if (Error error = reader.isMap())
    return error;
  double gigabytes = 0;
  if (Error error = reader.number("memory_gb", gigabytes, 0, false))
    return error;
  search.memoryBytes = gigabytes * 1e9;
  for (auto [key, into, least] : {std::tuple(StringRef("most_context"), &search.mostContext, 1),
                                  std::tuple(StringRef("most_zero"), &search.mostZero, 0)})
    if (Error error = reader.whole(key, *into, least))
      return error;
  if (search.mostZero > 3)
    return yamlError(file, reader.node("most_zero")->line, "most_zero: there are levels 0 to 3");
  if (Error error = reader.number("most_micro_batch", search.mostMicroBatch, 1, true))
    return error;
  return reader.finish();
}

Expected<ParallelChoice> readConfiguration(const YamlNode &node, StringRef file, const ParallelConfig &config) {
  MapReader reader(node, file, "configuration");
  if (Error error = reader.isMap())
    return std::move(error);
  ParallelChoice choice;
  ParallelMapping &mapping = choice.mapping;
  mapping.data = 0;
  for (auto [key, into] :
       {std::pair(StringRef("tensor"), &mapping.tensor), std::pair(StringRef("context"), &mapping.context),
        std::pair(StringRef("expert"), &mapping.expert), std::pair(StringRef("pipeline"), &mapping.pipeline),
        std::pair(StringRef("chunks"), &mapping.chunks)})
    if (Error error = reader.whole(key, *into))
      return std::move(error);
  if (Error error = reader.whole("zero", mapping.zero, 0))
    return std::move(error);
  if (Error error = reader.number("micro_batch", choice.microBatch, 1, true))
    return std::move(error);
  for (auto [key, into] : {std::pair(StringRef("sequence"), &mapping.sequence),
                           std::pair(StringRef("folds_experts"), &mapping.foldsExperts)})
    if (Error error = reader.flag(key, *into))
      return std::move(error);
  if (Error error = reader.word("recompute", choice.recompute, recomputations))
    return std::move(error);
  if (Error error = reader.word("context_kind", mapping.contextKind, {"ring", "ulysses"}))
    return std::move(error);
  mapping.order = mapping.chunks > 1 ? PipelineOrder::Interleaved : PipelineOrder::OneForwardOneBackward;
  if (Error error = reader.word("order", mapping.order, {"1f1b", "interleaved", "breadth-first"}))
    return std::move(error);
  mapping.expertTensor = config.shape->experts && !mapping.foldsExperts ? mapping.tensor : 1;
  if (Error error = reader.whole("expert_tensor", mapping.expertTensor))
    return std::move(error);
  if (Error error = reader.finish())
    return std::move(error);
  if (mapping.zero > 3)
    return yamlError(file, node.line, "zero: there are levels 0 to 3");
  double inner = double(mapping.tensor) * mapping.context * mapping.pipeline;
  if (inner > config.cluster.devices)
    return yamlError(file, node.line,
                     "tensor, context and pipeline degrees need " + Twine(int64_t(inner)) + " devices of " +
                         Twine(config.cluster.devices));
  mapping.data = config.cluster.devices / int(inner);
  if (std::string why = whyNotMapped(choice.of(config.run), mapping, config.cluster.devices); !why.empty())
    return yamlError(file, node.line, why);
  return choice;
}

} // namespace

Expected<ParallelConfig> ParallelConfig::parse(StringRef yaml, StringRef file) {
  Expected<YamlNode> root = parseYaml(yaml, file);
  if (!root)
    return root.takeError();
  MapReader reader(*root, file, "parallel configuration");
  if (Error error = reader.isMap())
    return std::move(error);
  ParallelConfig config;
  Expected<std::string> model = reader.text("model");
  if (!model)
    return model.takeError();
  Expected<const ModelShape *> shape = findShape(*model);
  if (!shape)
    return yamlError(file, root->find("model")->line, toString(shape.takeError()));
  config.shape = config.run.shape = *shape;
  if (const YamlNode *fleet = reader.node("fleet")) {
    if (Error error = readFleet(reader, *fleet, file, config))
      return std::move(error);
    return config;
  }
  if (Error error = readCluster(reader, file, root->line, config))
    return std::move(error);
  const YamlNode *run = reader.node("run");
  if (!run)
    return yamlError(file, root->line, "'run' is missing");
  if (Error error = readRun(*run, file, config))
    return std::move(error);
  if (const YamlNode *search = reader.node("search"))
    if (Error error = readSearch(*search, file, config.search))
      return std::move(error);
  const YamlNode *configurations = reader.node("configurations");
  if (Error error = reader.finish())
    return std::move(error);
  if (!configurations)
    return config;
  if (configurations->kind != YamlNode::Kind::Sequence)
    return yamlError(file, configurations->line, "configurations: is not a list");
  for (const YamlNode &node : configurations->items) {
    Expected<ParallelChoice> choice = readConfiguration(node, file, config);
    if (!choice)
      return choice.takeError();
    config.configurations.push_back(std::move(*choice));
  }
  return config;
}
