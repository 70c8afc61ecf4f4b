//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ParallelCost.h"
#include "lib/Cost/Yaml.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <array>

using namespace llvm;
using namespace intarsia;

namespace {

struct Entry {
  StringRef name;
  double ParallelFigures::*member;
  bool isShare;
};

constexpr Entry entries[] = {
    {"linear_compute", &ParallelFigures::linearCompute, true},
    {"linear_half", &ParallelFigures::linearHalf, false},
    {"attention_compute", &ParallelFigures::attentionCompute, true},
    {"unfused_compute", &ParallelFigures::unfusedCompute, true},
    {"expert_compute", &ParallelFigures::expertCompute, true},
    {"memory", &ParallelFigures::memory, true},
    {"expert_passes", &ParallelFigures::expertPasses, false},
    {"link", &ParallelFigures::link, true},
    {"network", &ParallelFigures::network, true},
    {"link_us", &ParallelFigures::linkUs, false},
    {"network_us", &ParallelFigures::networkUs, false},
    {"overlap", &ParallelFigures::overlap, true},
    {"gather_overlap", &ParallelFigures::gatherOverlap, true},
    {"layer_us", &ParallelFigures::layerUs, false},
    {"expert_layer_us", &ParallelFigures::expertLayerUs, false},
    {"step_us", &ParallelFigures::stepUs, false},
    {"host_gbps", &ParallelFigures::hostGBps, false},
};

struct EmbeddedFile {
  const char *path, *text;
};
const EmbeddedFile files[] = {
#include "Parallel.inc"
    {nullptr, nullptr}};

} // namespace

ArrayRef<StringRef> ParallelFigures::names() {
  static const std::array<StringRef, std::size(entries)> names = [] {
    std::array<StringRef, std::size(entries)> names;
    for (auto [name, entry] : zip_equal(names, entries))
      name = entry.name;
    return names;
  }();
  return names;
}

double &ParallelFigures::at(size_t index) { return this->*entries[index].member; }

/// Reads a map of numbers above 0, if it is there.
static Error readMap(const YamlNode &root, StringRef file, StringRef name, ArrayRef<StringRef> keys,
                     ArrayRef<double *> into) {
  const YamlNode *map = root.find(name);
  if (!map)
    return Error::success();
  if (Error error = checkKeys(file, *map, keys))
    return error;
  for (auto [key, number] : zip_equal(keys, into)) {
    const YamlNode &node = *map->find(key);
    Expected<double> value = node.number(file, key);
    if (!value)
      return value.takeError();
    if (*value <= 0)
      return yamlError(file, node.line, key + " " + node.scalar + ": is above 0");
    *number = *value;
  }
  return Error::success();
}

Expected<ParallelFigures> ParallelFigures::parse(StringRef yaml, StringRef file) {
  Expected<YamlNode> root = parseYaml(yaml, file);
  if (!root)
    return root.takeError();
  const YamlNode *given = root->find("figures");
  if (!given || given->kind != YamlNode::Kind::Map)
    return yamlError(file, root->line, "'figures' is missing or not a map");
  if (Error error = checkKeys(file, *given, names()))
    return std::move(error);
  ParallelFigures figures;
  for (const Entry &entry : entries) {
    const YamlNode &node = *given->find(entry.name);
    Expected<double> value = node.number(file, entry.name);
    if (!value)
      return value.takeError();
    if (*value <= 0 || (entry.isShare && *value > 1))
      return yamlError(file, node.line,
                       entry.name + " " + node.scalar +
                           (entry.isShare ? ": is a share, above 0 and at most 1" : ": is above 0"));
    figures.*entry.member = *value;
  }
  if (Error error = readMap(*root, file, "shared_memory", {"alpha_us", "gbps"},
                            {&figures.sharedMemory.alphaUs, &figures.sharedMemory.gigabytesPerSecond}))
    return std::move(error);
  SmallVector<double *> fleet;
  for (size_t i = 0; i < FleetFigures::names().size(); ++i)
    fleet.push_back(&figures.fleet.at(i));
  if (Error error = readMap(*root, file, "fleet", FleetFigures::names(), fleet))
    return std::move(error);
  return figures;
}

const ParallelFigures &ParallelFigures::get() {
  static const ParallelFigures figures = [] {
    if (!files[0].path)
      return ParallelFigures();
    Expected<ParallelFigures> read = parse(files[0].text, files[0].path);
    if (!read)
      report_fatal_error(read.takeError());
    return *read;
  }();
  return figures;
}
