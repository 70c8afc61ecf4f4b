//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/GpuKernels.h"
#include "lib/Cost/Yaml.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <limits>
#include <tuple>

using namespace llvm;
using namespace intarsia;

namespace {

const struct {
  const char *path, *text;
} files[] = {
#include "GpuKernels.inc"
};

constexpr StringLiteral kinds[] = {"linear", "prefill", "decode", "experts"}; // in the order of GpuKernelKind
constexpr StringLiteral anyDevice = "any";
/// The type that all kinds were measured in; others that were not measured take its figures.
constexpr StringLiteral usualType = "bf16";

/// Reads the map of the file.
class TableReader {
public:
  TableReader(StringRef file, const YamlNode &root) : file(file), root(root) {}

  Expected<GpuKernelTable> read() {
    GpuKernelTable table;
    if (Error error = checkKeys(file, root, {"families", "figures", "all_reduce"}))
      return std::move(error);
    for (const auto &[generation, node] : root.find("families")->entries)
      table.families[generation] = node.scalar;
    for (const YamlNode &node : root.find("figures")->items) {
      Expected<GpuKernelFit> fit = readFit(node);
      if (!fit)
        return fit.takeError();
      table.fits.push_back(std::move(*fit));
    }
    for (const YamlNode &node : root.find("all_reduce")->items) {
      Expected<AllReduceFit> fit = readAllReduce(node);
      if (!fit)
        return fit.takeError();
      table.allReduces.push_back(std::move(*fit));
    }
    if (none_of(table.allReduces, [](const AllReduceFit &fit) { return fit.of == anyDevice; }))
      return yamlError(file, root.line, "all_reduce lacks the figures of any device");
    for (auto [index, kind] : enumerate(kinds))
      if (none_of(table.fits, [&](const GpuKernelFit &fit) {
            return fit.kind == GpuKernelKind(index) && fit.type == usualType && fit.of == anyDevice;
          }))
        return yamlError(file, root.line, "figures of " + kind + " in " + usualType + " lack those of any device");
    return table;
  }

private:
  Expected<GpuKernelFit> readFit(const YamlNode &node) const {
    SmallVector<StringRef> keys = {"kind", "type", "of", "rows", "error"};
    append_range(keys, GpuKernelFigures::names());
    if (Error error = checkKeys(file, node, keys))
      return std::move(error);
    GpuKernelFit fit;
    const YamlNode *kind = node.find("kind");
    auto found = find(kinds, kind->scalar);
    if (found == std::end(kinds))
      return yamlError(file, kind->line,
                       "'" + kind->scalar + "' is no kind of kernel; they are " +
                           join(ArrayRef<StringLiteral>(kinds), ", "));
    fit.kind = GpuKernelKind(found - std::begin(kinds));
    fit.type = node.find("type")->scalar;
    if (Error error = readNumbers(node, fit))
      return std::move(error);
    return fit;
  }

  Expected<AllReduceFit> readAllReduce(const YamlNode &node) const {
    SmallVector<StringRef> keys = {"of", "rows", "error"};
    append_range(keys, AllReduceFigures::names());
    if (Error error = checkKeys(file, node, keys))
      return std::move(error);
    AllReduceFit fit;
    if (Error error = readNumbers(node, fit))
      return std::move(error);
    return fit;
  }

  /// Reads what the rows of all kinds have: of which device they are, and numbers.
  template <typename Fit> Error readNumbers(const YamlNode &node, Fit &fit) const {
    fit.of = node.find("of")->scalar;
    double rows = 0;
    if (Error error = number(node, "rows", rows))
      return error;
    fit.rows = int(rows);
    if (Error error = number(node, "error", fit.error))
      return error;
    for (auto [index, name] : enumerate(decltype(fit.figures)::names()))
      if (Error error = number(node, name, fit.figures.at(index)))
        return error;
    return Error::success();
  }

  Error number(const YamlNode &map, StringRef key, double &into) const {
    const YamlNode *node = map.find(key);
    Expected<double> value = node->number(file, key);
    if (!value)
      return value.takeError();
    if (*value <= 0)
      return yamlError(file, node->line, key + " must be above zero");
    into = *value;
    return Error::success();
  }

  StringRef file;
  const YamlNode &root;
};

} // namespace

Expected<GpuRates> GpuRates::of(const CatalogueDevice &device, StringRef elementType) {
  GpuRates rates;
  Expected<double> peak = device.peak(elementType);
  if (!peak)
    return peak.takeError();
  rates.peakTflops = *peak;
  for (auto [figure, name, into] : {std::tuple(&device.multiprocessors, "multiprocessors", &rates.multiprocessors),
                                    std::tuple(&device.memoryGBps, "memory_gbps", &rates.memoryGBps),
                                    std::tuple(&device.cacheMB, "cache_mb", &rates.cacheMB)}) {
    Expected<double> value = device.need(*figure, name);
    if (!value)
      return value.takeError();
    *into = *value;
  }
  return rates;
}

Expected<GpuKernelTable> GpuKernelTable::parse(StringRef text, StringRef file) {
  Expected<YamlNode> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  return TableReader(file, *root).read();
}

const GpuKernelTable &GpuKernelTable::get() {
  static const GpuKernelTable table = [] {
    GpuKernelTable all;
    for (const auto &[path, text] : files) {
      Expected<GpuKernelTable> read = parse(text, path);
      if (!read)
        report_fatal_error(read.takeError());
      all = std::move(*read);
    }
    return all;
  }();
  return table;
}

std::pair<const GpuKernelFit *, GpuFitSource> GpuKernelTable::find(GpuKernelKind kind, StringRef type,
                                                                   const CatalogueDevice &device) const {
  auto family = families.find(device.generation);
  std::pair<StringRef, GpuFitSource> nearest[] = {
      {device.name, GpuFitSource::Device},
      {family == families.end() ? StringRef() : StringRef(family->second), GpuFitSource::Family},
      {anyDevice, GpuFitSource::Any}};
  for (StringRef wanted : {type, StringRef(usualType)})
    for (auto [of, source] : nearest)
      for (const GpuKernelFit &fit : fits)
        if (fit.kind == kind && fit.type == wanted && fit.of == of)
          return {&fit, source};
  report_fatal_error("the reader checks that there are figures of any device");
}

const AllReduceFigures &GpuKernelTable::allReduce(const CatalogueDevice &device) const {
  auto family = families.find(device.generation);
  for (StringRef of : {StringRef(device.name), family == families.end() ? StringRef() : StringRef(family->second),
                       StringRef(anyDevice)})
    for (const AllReduceFit &fit : allReduces)
      if (fit.of == of)
        return fit.figures;
  report_fatal_error("the reader checks that there are figures of any device");
}

Expected<GpuCosts> GpuCosts::create(const CatalogueDevice &device) {
  GpuCosts costs;
  costs.device = &device;
  for (const auto &[type, figure] : device.peakTflops) {
    Expected<GpuRates> rates = GpuRates::of(device, type);
    if (!rates)
      return rates.takeError();
    costs.rates[type] = *rates;
  }
  // Every GPU of the catalogue has a peak of bf16: what it lacks is computed in that.
  if (Expected<double> usual = device.peak(usualType); !usual)
    return usual.takeError();
  std::tie(costs.linear, costs.nearest) = GpuKernelTable::get().find(GpuKernelKind::Linear, usualType, device);
  return costs;
}

/// Returns the type of the table whose figures an attention takes.
static StringRef fittedAttention(const GpuKernelShape &shape) {
  bool narrow = shape.weightBytes < 2;
  return shape.cachedDepth > 0 ? (narrow ? "latent_fp8" : "latent") : narrow ? "fp8" : "bf16";
}

double GpuCosts::microseconds(const GpuKernelShape &shape, StringRef elementType) const {
  StringRef type = elementType == "f16" ? StringRef(usualType) : elementType;
  bool isAttention = shape.kind == GpuKernelKind::Prefill || shape.kind == GpuKernelKind::Decode;
  // Attention computes in 16 bits at least; its figures are those of a cache's elements, of one byte or two.
  if (isAttention && type != "f32")
    type = usualType;
  auto found = rates.find(type.str());
  if (found == rates.end()) {
    type = usualType;
    found = rates.find(usualType.str());
  }
  StringRef fitted = isAttention ? fittedAttention(shape) : type == "int8" ? "fp8" : type;
  return gpuKernelUs(shape, found->second, GpuKernelTable::get().find(shape.kind, fitted, *device).first->figures);
}

double GpuCosts::sharedUs(const GpuKernelShape &shape, StringRef elementType, const GpuShare &share) const {
  auto found = rates.find(elementType.str());
  const GpuRates &ofType = found == rates.end() ? rates.at(usualType.str()) : found->second;
  return gpuSharedUs(shape, share, ofType, linear->figures);
}

double GpuCosts::streamUs(double bytes) const {
  return bytes / (rates.at(usualType.str()).memoryGBps * 1e3 * linear->figures.memory);
}

double GpuCosts::launchUs() const { return linear->figures.launchUs; }

std::string GpuCosts::origin() const {
  switch (nearest) {
  case GpuFitSource::Device:
    return "kernels of serving engines measured on " + device->name;
  case GpuFitSource::Family:
    return "an estimate: the datasheet of " + device->name + ", and efficiencies of kernels of serving engines " +
           "measured on its family '" + linear->of + "'";
  case GpuFitSource::Any:
    return "an estimate: the datasheet of " + device->name + ", and efficiencies of kernels of serving engines " +
           "measured on GPUs of other architectures";
  }
  llvm_unreachable("a source");
}
