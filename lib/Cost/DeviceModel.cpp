//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/Cost.h"
#include "lib/Cost/Yaml.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <limits>
#include <tuple>

using namespace llvm;

namespace intarsia {
namespace {

const struct {
  const char *path, *text;
} efficiencyFiles[] = {
#include "Efficiency.inc"
};

/// Reads the map of one file.
class ModelReader {
public:
  ModelReader(StringRef file, const YamlNode &root) : file(file), root(root) {}

  Expected<DeviceModel> read() {
    if (Error error = checkKeys(file, root,
                                {"name", "kind", "variants", "machine", "peak_gflops", "memory_gbps", "cache_gbps",
                                 "launch_us", "transcendental_ns", "finish_ns", "roots"}))
      return std::move(error);
    DeviceModel model;
    model.name = root.find("name")->scalar;
    model.kind = root.find("kind")->scalar;
    model.machine = root.find("machine")->scalar;
    for (const YamlNode &variant : root.find("variants")->items)
      model.variants.push_back(variant.scalar);
    // Times may be 0; rates are divisors and may not.
    for (auto [key, into, least] :
         {std::tuple("peak_gflops", &model.peakGflops, leastRate),
          std::tuple("memory_gbps", &model.memoryGBps, leastRate),
          std::tuple("cache_gbps", &model.cacheGBps, leastRate), std::tuple("launch_us", &model.launchUs, 0.0),
          std::tuple("transcendental_ns", &model.transcendentalNs, 0.0), std::tuple("finish_ns", &model.finishNs, 0.0)})
      if (Error error = number(*root.find(key), key, least, *into))
        return std::move(error);
    if (Error error = readRoots(*root.find("roots"), model))
      return std::move(error);
    return model;
  }

private:
  static constexpr double leastRate = std::numeric_limits<double>::min();

  /// Reads measured kinds of kernels, then those that take the figures of a measured one; all kinds must be there.
  Error readRoots(const YamlNode &roots, DeviceModel &model) const {
    std::vector<std::pair<KernelRoot, const YamlNode *>> estimated;
    for (const auto &[name, node] : roots.entries) {
      std::optional<KernelRoot> root = symbolizeKernelRoot(name);
      if (!root)
        return yamlError(file, node.line, "roots: '" + name + "' is no kind of kernel");
      if (const YamlNode *like = node.find("like")) {
        estimated.emplace_back(*root, like);
        continue;
      }
      RootEfficiency &efficiency = model.roots[*root];
      if (Error error = checkKeys(file, node, {"compute", "bandwidth"}))
        return error;
      for (auto [key, into] :
           {std::pair("compute", &efficiency.compute), std::pair("bandwidth", &efficiency.bandwidth)})
        if (Error error = number(*node.find(key), name + "." + key, leastRate, *into))
          return error;
    }
    const std::map<KernelRoot, RootEfficiency> measured = model.roots;
    for (auto [root, like] : estimated) {
      std::optional<KernelRoot> other = symbolizeKernelRoot(like->scalar);
      if (!other || !measured.count(*other))
        return yamlError(file, like->line, "roots: like '" + like->scalar + "' is no kind of kernel with figures");
      model.roots[root] = measured.at(*other);
    }
    for (unsigned root = 0; root <= getMaxEnumValForKernelRoot(); ++root)
      if (!model.roots.count(KernelRoot(root)))
        return yamlError(file, roots.line, "roots lacks '" + stringifyKernelRoot(KernelRoot(root)) + "'");
    return Error::success();
  }

  Error number(const YamlNode &node, const Twine &name, double least, double &into) const {
    Expected<double> value = node.number(file, name.str());
    if (!value)
      return value.takeError();
    if (*value < least)
      return yamlError(file, node.line, name + " must be above zero");
    into = *value;
    return Error::success();
  }

  StringRef file;
  const YamlNode &root;
};

} // namespace

double DeviceModel::microseconds(const KernelWork &work) const {
  if (gpu && work.matrix) {
    // The other ops of the kernel are taken to read and write while nothing is multiplied, which is the longer
    // estimate.
    const MatrixWork &matrix = *work.matrix;
    double otherBytes = std::max(0.0, work.weightBytes + work.activationBytes - matrix.bytes);
    double otherTranscendentals = std::max(0.0, work.transcendentals - matrix.transcendentals);
    return gpu->microseconds(matrix.shape, matrix.elementType) + gpu->streamUs(otherBytes) +
           otherTranscendentals * transcendentalNs * 1e-3 + work.finishElements * finishNs * 1e-3;
  }
  const RootEfficiency &root = roots.at(work.root);
  double computeUs = work.flops / (peakGflops * root.compute) * 1e-3;
  double bytesUs = (work.weightBytes / memoryGBps + work.activationBytes / cacheGBps) / root.bandwidth * 1e-3;
  return launchUs + std::max(computeUs, bytesUs) + work.transcendentals * transcendentalNs * 1e-3 +
         work.finishElements * finishNs * 1e-3;
}

Expected<DeviceModel> DeviceModel::parse(StringRef text, StringRef file) {
  Expected<YamlNode> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  return ModelReader(file, *root).read();
}

const std::vector<DeviceModel> &DeviceModel::all() {
  static const std::vector<DeviceModel> models = [] {
    std::vector<DeviceModel> models;
    for (const auto &[path, text] : efficiencyFiles) {
      Expected<DeviceModel> model = parse(text, path);
      if (!model)
        report_fatal_error(model.takeError());
      models.push_back(std::move(*model));
    }
    return models;
  }();
  return models;
}

const DeviceModel *DeviceModel::find(StringRef kind, StringRef variant) {
  for (const DeviceModel &model : all())
    if (model.kind == kind && (model.name == variant || is_contained(model.variants, variant)))
      return &model;
  return nullptr;
}

} // namespace intarsia
