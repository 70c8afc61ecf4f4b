//===- GpuTarget.cpp - What all kinds of GPUs answer --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/GpuTarget.h"
#include "lib/Target/GPU/WindowReads.h"

#include "dialects/Rt/BlockPanels.h"
#include "lib/Formats/GpuObject.h"
#include "lib/Target/GPU/Ptxas.h"
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
    gpu::remarkOnLoops(kernels, architectures);
    gpu::remarkOnWidening(kernels, architectures);
    for (const Architecture *architecture : architectures) {
      auto object = gpu::compileKernels(module, kernels, *architecture, codeFor, hostTriple);
      if (!object)
        return object.takeError();
      objects.push_back({architecture->name.str(), std::move(*object)});
    }
    return Error::success();
  }

  mlir::LogicalResult chooseShapes(ArrayRef<target::NumberedKernel> kernels) override {
    return mlir::success(
        all_of(architectures, [&](const Architecture *each) { return succeeded(gpu::chooseShapes(kernels, *each)); }));
  }
  mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels,
                                                target::EmitStep step) override {
    mlir::OwningOpRef<mlir::ModuleOp> functions(mlir::ModuleOp::create(module.getLoc()));
    mlir::PassManager lowering(module.getContext());
    buildGpuLowering(lowering, *architectures.front());
    bool isLowered = step == target::EmitStep::Llvm;
    if (failed(gpu::emitKernels(kernels, *architectures.front(), *functions)) ||
        (isLowered && failed(lowering.run(*functions))))
      return nullptr;
    return functions;
  }

private:
  std::vector<const Architecture *> architectures;
  CodeFor codeFor;
};

/// Operations that an elementary function takes (polynomials of lib/Kernel/VectorMath, with the reduction of their
/// argument), and that a norm takes for an element (nn.layer_norm in dialects/Nn/Ops/Norms).
constexpr double transcendentalFlops = 16, normFlops = 8;

/// Returns the model of the device that stands for an architecture: kernels around a matrix product as the catalogue's
/// table of GPU kernels has them, all others as passes over memory.
Expected<DeviceModel> makeModel(StringRef kind, const Architecture &architecture) {
  Expected<const CatalogueDevice *> device = findDevice(architecture.device);
  if (!device)
    return device.takeError();
  Expected<GpuCosts> costs = GpuCosts::create(**device);
  if (!costs)
    return costs.takeError();
  Expected<double> peak = (*device)->peak("f32"), memory = (*device)->need((*device)->memoryGBps, "memory_gbps");
  if (Error error = joinErrors(peak.takeError(), memory.takeError()))
    return std::move(error);
  DeviceModel model;
  model.name = (kind + ":" + architecture.name).str();
  model.kind = kind.str();
  model.variants = {architecture.name.str()};
  model.machine = costs->origin();
  model.peakGflops = *peak * 1e3;
  model.memoryGBps = *memory;
  model.cacheGBps = *memory;
  model.launchUs = costs->launchUs();
  model.transcendentalNs = transcendentalFlops / model.peakGflops;
  model.finishNs = normFlops / model.peakGflops;
  // Kernels without a matrix product were not measured: they read and write at the rate that linears do.
  double bandwidth = 1e-3 / (costs->streamUs(1) * *memory);
  for (unsigned root = 0; root <= getMaxEnumValForKernelRoot(); ++root)
    model.roots[static_cast<KernelRoot>(root)] = {1, bandwidth};
  model.gpu = std::move(*costs);
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
  std::string all = llvm::join(names, ", ");
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
  auto entry = models.find(key);
  if (entry == models.end()) {
    Expected<DeviceModel> made = makeModel(name, **found);
    if (!made)
      return made.takeError();
    entry = models.emplace(key, std::move(*made)).first;
  }
  return target::FittedModel{&entry->second, "costs of " + key + ": " + entry->second.machine +
                                                 "; kernels of this compiler were not measured"};
}

bool GpuTarget::storesQuantized(BlockFormatAttrInterface format, int64_t elements) const {
  return BlockPanels::of(format, elements).has_value();
}

/// True for sums of nothing: kernels read an operand's last element where a tile goes beyond it, and there is none.
static bool isEmptySum(mlir::Operation *op) {
  auto isEmpty = [](mlir::Type type) { return is_contained(cast<mlir::RankedTensorType>(type).getShape(), 0); };
  return mlir::isa<ContractionOpInterface>(op) && any_of(op->getOperandTypes(), isEmpty) &&
         none_of(op->getResultTypes(), isEmpty);
}

bool GpuTarget::hasKernel(mlir::Operation *op) const {
  if (isEmptySum(op))
    return false;
  // Kernels of linears read integers with scales of blocks. An input with one scale for a row is dequantized before.
  if (auto linear = mlir::dyn_cast<nn::LinearOp>(op)) {
    auto input = linear.getInput().getDefiningOp<nn::DequantizeOp>();
    auto format = input ? mlir::dyn_cast<nn::BlockFormatAttr>(input.getFormat()) : nullptr;
    if (format && format.getBlock() == 0 && format.hasIntegerValues())
      return false;
  }
  auto conv = mlir::dyn_cast<nn::ConvOp>(op);
  if (!conv)
    return Target::hasKernel(op);
  return WindowReads::arePossible(conv) && !conv.getInput().getDefiningOp<nn::DequantizeOp>();
}

bool GpuTarget::multipliesIn(mlir::Type precision) const {
  // Every architecture does in types of 16 bits.
  return precision.isF16() || precision.isBF16();
}

rt::LayoutAttrInterface GpuTarget::layout(mlir::MLIRContext *context, StoredOperand use,
                                          BlockFormatAttrInterface format, int64_t) const {
  // Quantized matrices lie as they do for processors, so that an artifact stores them once.
  if (format && (use == StoredOperand::Matrix || use == StoredOperand::Table))
    return rt::PanelsAttr::get(context, BlockPanels::rows, /*slices=*/1, format);
  return rt::RowMajorAttr::get(context);
}

StringRef GpuTarget::assembler() const {
  return codeFor == CodeFor::Device && known.front()->vendor == Vendor::Nvidia ? StringRef(ptxasName) : "";
}

/// Returns the shared memory of a block: what a launch adds, and what the function has itself.
static std::string sharedBytesOf(const GpuLaunch &launch, uint64_t own) {
  SizeExpression bytes = launch.shared;
  if (own != 0) {
    bytes.push_back({SizeStep::Kind::Number, int64_t(own)});
    bytes.push_back({SizeStep::Kind::Add});
  }
  std::optional<int64_t> constant = evaluate(bytes, nullptr, 0);
  return constant ? std::to_string(*constant) : sizeExpressionText(bytes);
}

Expected<std::vector<target::KernelFunction>> GpuTarget::listFunctions(ArrayRef<char> code) const {
  GpuObject object;
  if (Status status = parseGpuObject(code.data(), code.size(), "its code", object); !status.ok())
    return createStringError(status.message());
  std::vector<target::KernelFunction> functions;
  for (const GpuKernel &kernel : object.kernels)
    for (const GpuLaunch &launch : kernel.launches) {
      auto found = find_if(object.functions, [&](const GpuFunction &one) { return one.name == launch.function; });
      GpuFunction known = found == object.functions.end() ? GpuFunction{launch.function} : *found;
      functions.push_back({kernel.index, launch.function, uint64_t(launch.block[0]) * launch.block[1] * launch.block[2],
                           sizeExpressionText(launch.grid[0]), sharedBytesOf(launch, known.sharedBytes.value_or(0)),
                           known.registers, known.spilledBytes, known.localBytes, known.scalarRegisters,
                           known.spilledScalars});
    }
  return functions;
}

Expected<target::CacheLayout> GpuTarget::cacheLayout(nn::CacheFormatAttr, int64_t page) const {
  // Some lanes of a warp read the row of a token together, 16 bytes each: features are side by side, of keys as of
  // values. A page is what a warp reads before it looks up the next one; the processor's pages have as many tokens.
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
