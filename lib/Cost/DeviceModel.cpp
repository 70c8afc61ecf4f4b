//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"
#include "llvm/TargetParser/Host.h"
#include <algorithm>

using namespace llvm;
using intarsia::DeviceModel;
using intarsia::RootEfficiency;

namespace llvm::yaml {
template <> struct MappingTraits<RootEfficiency> {
  static const bool flow = true;
  static void mapping(IO &io, RootEfficiency &root) {
    io.mapRequired("compute", root.compute);
    io.mapRequired("bandwidth", root.bandwidth);
  }
  static std::string validate(IO &, RootEfficiency &root) {
    return root.compute > 0 && root.bandwidth > 0 ? "" : "efficiencies must be above zero";
  }
};
template <> struct CustomMappingTraits<std::map<std::string, RootEfficiency>> {
  static void inputOne(IO &io, StringRef key, std::map<std::string, RootEfficiency> &roots) {
    io.mapRequired(key.str().c_str(), roots[key.str()]);
  }
  static void output(IO &io, std::map<std::string, RootEfficiency> &roots) {
    for (auto &[name, root] : roots)
      io.mapRequired(name.c_str(), root);
  }
};
template <> struct MappingTraits<DeviceModel> {
  static void mapping(IO &io, DeviceModel &model) {
    io.mapRequired("name", model.name);
    io.mapRequired("cpus", model.cpus);
    io.mapRequired("machine", model.machine);
    io.mapRequired("peak_gflops", model.peakGflops);
    io.mapRequired("memory_gbps", model.memoryGBps);
    io.mapRequired("cache_gbps", model.cacheGBps);
    io.mapRequired("launch_us", model.launchUs);
    io.mapRequired("transcendental_ns", model.transcendentalNs);
    io.mapRequired("finish_ns", model.finishNs);
    io.mapRequired("roots", model.roots);
  }
  static std::string validate(IO &, DeviceModel &model) {
    if (!(model.peakGflops > 0) || !(model.memoryGBps > 0) || !(model.cacheGBps > 0))
      return "peak_gflops, memory_gbps and cache_gbps must be above zero";
    for (const char *root : {"linear", "matmul", "attention", "rows", "generic"})
      if (!model.roots.count(root))
        return std::string("roots lacks '") + root + "'";
    return "";
  }
};
} // namespace llvm::yaml

static const char *const catalogue[] = {
#include "Catalogue.inc"
};

double DeviceModel::microseconds(const KernelWork &work) const {
  auto found = roots.find(work.root);
  RootEfficiency root = found == roots.end() ? RootEfficiency() : found->second;
  double computeUs = work.flops / (peakGflops * root.compute) * 1e-3;
  double bytesUs = (work.weightBytes / memoryGBps + work.activationBytes / cacheGBps) / root.bandwidth * 1e-3;
  return launchUs + std::max(computeUs, bytesUs) + work.transcendentals * transcendentalNs * 1e-3 +
         work.finishElements * finishNs * 1e-3;
}

Expected<DeviceModel> DeviceModel::parse(StringRef text) {
  std::string message;
  auto remember = [](const SMDiagnostic &diagnostic, void *context) {
    auto &message = *static_cast<std::string *>(context);
    if (message.empty())
      message = "line " + std::to_string(diagnostic.getLineNo()) + ": " + diagnostic.getMessage().str();
  };
  DeviceModel model;
  yaml::Input input(text, nullptr, remember, &message);
  input >> model;
  if (input.error())
    return createStringError(input.error(), "device model: " + (message.empty() ? "not YAML" : message));
  return model;
}

const std::vector<DeviceModel> &DeviceModel::all() {
  static const std::vector<DeviceModel> models = [] {
    std::vector<DeviceModel> models;
    for (const char *text : catalogue) {
      Expected<DeviceModel> model = parse(text);
      if (!model)
        report_fatal_error(model.takeError());
      models.push_back(std::move(*model));
    }
    return models;
  }();
  return models;
}

const DeviceModel &DeviceModel::forCpu(StringRef cpu) {
  StringRef name = cpu.split('+').first;
  std::string host;
  if (name.empty() || name == "native") {
    host = sys::getHostCPUName().str();
    name = host;
  }
  auto byName = [&](StringRef wanted) -> const DeviceModel * {
    for (const DeviceModel &model : all())
      if (model.name == wanted || is_contained(model.cpus, wanted))
        return &model;
    return nullptr;
  };
  if (const DeviceModel *model = byName(name))
    return *model;
  bool wide = !host.empty() && sys::getHostCPUFeatures().lookup("avx512f");
  if (const DeviceModel *model = byName(wide ? "cpu-x86-64-v4" : "cpu-x86-64-v3"))
    return *model;
  return all().front();
}
