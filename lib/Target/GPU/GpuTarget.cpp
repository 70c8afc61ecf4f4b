//===- GpuTarget.cpp - What all kinds of GPUs answer --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/GpuTarget.h"

#include "llvm/ADT/StringExtras.h"
#include <map>
#include <mutex>

using namespace llvm;

namespace intarsia::gpu {

namespace {

class GpuCompiler : public target::KernelCompiler {
public:
  GpuCompiler(std::vector<const Architecture *> architectures, CodeFor codeFor)
      : architectures(std::move(architectures)), codeFor(codeFor) {}

  std::string triple() const override { return ""; }
  std::vector<target::Variant> variants() const override {
    std::vector<target::Variant> result;
    for (const Architecture *architecture : architectures)
      result.push_back({architecture->name.str(), architecture->name.str(), {}});
    return result;
  }

  Error compileKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels, StringRef hostTriple,
                       std::vector<target::CompiledObject> &objects) override {
    for (const Architecture *architecture : architectures) {
      auto object = gpu::compileKernels(module, kernels, *architecture, codeFor, hostTriple);
      if (!object)
        return object.takeError();
      objects.push_back({architecture->name.str(), std::move(*object)});
    }
    return Error::success();
  }

  mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module,
                                                ArrayRef<target::NumberedKernel> kernels) override {
    mlir::OwningOpRef<mlir::ModuleOp> functions(mlir::ModuleOp::create(module.getLoc()));
    if (failed(gpu::emitKernels(kernels, *architectures.front(), *functions)))
      return nullptr;
    return functions;
  }

private:
  std::vector<const Architecture *> architectures;
  CodeFor codeFor;
};

/// The figures of a datasheet as those of a fit: what reaches the peak is not known before it is measured.
DeviceModel makeModel(StringRef kind, const Architecture &architecture) {
  DeviceModel model;
  model.name = (kind + ":" + architecture.name).str();
  model.machine = ("not measured: datasheet of " + architecture.device).str();
  model.peakGflops = architecture.f32Tflops * 1e3;
  model.memoryGBps = architecture.memoryGBps;
  model.cacheGBps = architecture.memoryGBps;
  // The order of magnitude of a launch on a stream.
  model.launchUs = 3;
  // An elementary function takes some 16 operations of a multiprocessor's lanes.
  model.transcendentalNs = 16 / (architecture.f32Tflops * 1e3);
  model.finishNs = 4 / (architecture.f32Tflops * 1e3);
  for (unsigned root = 0; root <= getMaxEnumValForKernelRoot(); ++root)
    model.roots[static_cast<KernelRoot>(root)] = {1, 1};
  return model;
}

} // namespace

std::vector<target::NamedVariant> GpuTarget::listVariants() const {
  std::vector<target::NamedVariant> result;
  for (const Architecture *architecture : known)
    result.push_back({architecture->name.str(), meaning + architecture->device.str()});
  return result;
}

Expected<const Architecture *> GpuTarget::find(StringRef variant) const {
  for (const Architecture *architecture : known)
    if (architecture->name == variant)
      return architecture;
  std::vector<std::string> names;
  for (const Architecture *architecture : known)
    names.push_back(architecture->name.str());
  std::string all = join(names, ", ");
  if (variant.empty())
    return createStringError("target '" + name + "' needs an architecture: name one, as in " + name + ":" +
                             names.front() + " (" + all + ")");
  return createStringError("target '" + name + "' has no architecture '" + variant + "': it has " + all);
}

Expected<std::vector<std::unique_ptr<target::KernelCompiler>>>
GpuTarget::compilers(ArrayRef<StringRef> variants) const {
  std::vector<const Architecture *> architectures;
  for (StringRef variant : variants) {
    auto found = find(variant);
    if (!found)
      return found.takeError();
    architectures.push_back(*found);
  }
  std::vector<std::unique_ptr<target::KernelCompiler>> result;
  result.push_back(std::make_unique<GpuCompiler>(std::move(architectures), codeFor));
  return result;
}

Expected<target::FittedModel> GpuTarget::model(StringRef variant) const {
  auto found = find(variant);
  if (!found)
    return found.takeError();
  static std::mutex mutex;
  static std::map<std::string, DeviceModel> models;
  std::lock_guard lock(mutex);
  std::string key = name + ":" + variant.str();
  auto [entry, isNew] = models.try_emplace(key);
  if (isNew)
    entry->second = makeModel(name, **found);
  return target::FittedModel{
      &entry->second,
      ("costs of " + key + " are those of the datasheet of " + (*found)->device + ", not measured").str()};
}

Expected<target::CacheLayout> GpuTarget::cacheLayout(nn::CacheFormatAttr, int64_t page) const {
  // A warp reads a page of 32 tokens with a lane for each.
  constexpr int64_t pageTokens = 32;
  return target::CacheLayout{page == 0 ? pageTokens : page, /*transposed=*/false};
}

static std::vector<const Architecture *> pointersTo(ArrayRef<Architecture> architectures) {
  std::vector<const Architecture *> result;
  for (const Architecture &architecture : architectures)
    result.push_back(&architecture);
  return result;
}

const target::Target &cudaTarget() {
  static const GpuTarget target("cuda", pointersTo(architectures(Vendor::Nvidia)), CodeFor::Device,
                                "NVIDIA, for instance ");
  return target;
}

const target::Target &hipTarget() {
  static const GpuTarget target("hip", pointersTo(architectures(Vendor::Amd)), CodeFor::Device, "AMD, for instance ");
  return target;
}

const target::Target &emulatedTarget() {
  static const GpuTarget target(
      "emulated",
      [] {
        auto all = pointersTo(architectures(Vendor::Nvidia));
        append_range(all, pointersTo(architectures(Vendor::Amd)));
        return all;
      }(),
      CodeFor::Emulator, "threads of this machine, for tests: kernels as for ");
  return target;
}

} // namespace intarsia::gpu
