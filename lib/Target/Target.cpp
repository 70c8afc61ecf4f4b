//===- Target.cpp - The targets that exist ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/CpuTarget.h"
#include "lib/Target/GPU/GpuTarget.h"
#include "lib/Target/Host.h"
#include "lib/Target/Reference/ReferenceTarget.h"
#include "lib/Target/Wafer/WaferTarget.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace intarsia::target {

/// One line a target.
ArrayRef<const Target *> Target::all() {
  static const Target *const targets[] = {
      &cpu::cpuTarget(),
      &gpu::cudaTarget(),
      &gpu::hipTarget(),
      &gpu::emulatedTarget(),
      &reference::referenceTarget(),
      &wafer::waferTarget(),
  };
  return targets;
}

bool Target::hasKernel(mlir::Operation *op) const {
  auto root = mlir::dyn_cast<KernelRootOpInterface>(op);
  return root &&
         !llvm::is_contained({KernelRoot::Generic, KernelRoot::Conv, KernelRoot::Recurrent}, root.getKernelRoot());
}

const Target *Target::find(StringRef kind) {
  for (const Target *target : all())
    if (target->kind() == kind)
      return target;
  return nullptr;
}

void printTargets(raw_ostream &stream) {
  std::vector<NamedVariant> rows;
  size_t width = 0;
  for (const Target *target : Target::all())
    for (const NamedVariant &variant : target->listVariants()) {
      rows.push_back({target->kind().str() + (variant.name.empty() ? "" : ":") + variant.name, variant.meaning});
      width = std::max(width, rows.back().name.size());
    }
  stream << "--target=NAME, several with commas; the costs of the first decide what is fused:\n\n";
  for (const NamedVariant &row : rows)
    stream << "  " << left_justify(row.name, width + 2) << row.meaning << '\n';
}

/// The variant in IR of the machine that compiles, which --target=cpu alone means.
static constexpr StringRef native = "native";

/// The variants of `specs`, by target.
static Expected<MapVector<const Target *, SmallVector<StringRef>>> sortByTarget(ArrayRef<std::string> specs) {
  MapVector<const Target *, SmallVector<StringRef>> result;
  for (StringRef spec : specs) {
    auto [kind, variant] = spec.split(':');
    const Target *target = Target::find(kind);
    if (!target) {
      std::string known;
      for (const Target *each : Target::all())
        known += (known.empty() ? "" : ", ") + each->kind().str();
      return createStringError("unknown target '" + spec + "': the targets are " + known +
                               " (for instance cpu, cpu:znver5, cpu:x86-64-v3, cpu:aarch64)");
    }
    result[target].push_back(variant == native ? "" : variant);
  }
  return result;
}

/// A device, and the variants of its target that are asked for.
struct WantedDevice {
  std::string name;
  const Target *target;
  SmallVector<StringRef> variants;
};

/// Distributes the compilers of devices to artifacts: one for each host triple that a device needs.
static Expected<std::vector<ArtifactCompilers>> createCompilers(ArrayRef<WantedDevice> wanted) {
  std::vector<std::pair<const WantedDevice *, std::vector<std::unique_ptr<KernelCompiler>>>> made;
  std::vector<std::pair<std::string, std::string>> triples; // and the first device that needs each
  for (const WantedDevice &device : wanted) {
    auto compilers = device.target->compilers(device.variants);
    if (!compilers)
      return compilers.takeError();
    for (const auto &compiler : *compilers)
      if (std::string triple = compiler->triple(); !triple.empty() && !is_contained(make_first_range(triples), triple))
        triples.emplace_back(triple, device.name);
    made.emplace_back(&device, std::move(*compilers));
  }
  if (triples.empty())
    triples.emplace_back(nativeTriple().str(), "");
  std::vector<ArtifactCompilers> artifacts;
  for (const auto &[triple, first] : triples) {
    artifacts.push_back({triple, {}});
    for (auto &[device, compilers] : made) {
      auto fits =
          llvm::find_if(compilers, [&](const auto &compiler) { return compiler && compiler->triple() == triple; });
      std::unique_ptr<KernelCompiler> compiler;
      if (fits != compilers.end()) {
        compiler = std::move(*fits);
      } else {
        // Compilers for any host are made again for each artifact.
        auto again = device->target->compilers(device->variants);
        if (!again)
          return again.takeError();
        for (auto &candidate : *again)
          if (candidate->triple().empty())
            compiler = std::move(candidate);
      }
      if (!compiler)
        return createStringError("target '" + first + "' is for the host " + triple + ", target '" + device->name +
                                 "' has no variant for it: name one, or compile an artifact for each host");
      artifacts.back().devices.push_back({device->target, device->name, std::move(compiler)});
    }
  }
  return artifacts;
}

Expected<std::vector<ArtifactCompilers>> createCompilers(ArrayRef<std::string> specs) {
  auto variantsOfTarget = sortByTarget(specs);
  if (!variantsOfTarget)
    return variantsOfTarget.takeError();
  std::vector<WantedDevice> wanted;
  for (const auto &[target, variants] : *variantsOfTarget)
    wanted.push_back({target->kind().str(), target, variants});
  return createCompilers(wanted);
}

Expected<std::vector<ArtifactCompilers>> createCompilers(mlir::ModuleOp module) {
  std::vector<WantedDevice> wanted;
  for (auto device : module.getOps<rt::DeviceOp>()) {
    const Target *target = Target::find(device.getTarget().getKind());
    if (!target)
      return createStringError("device '" + device.getSymName() + "' is of the unknown kind '" +
                               device.getTarget().getKind() + "'");
    SmallVector<StringRef> variants;
    for (mlir::StringAttr variant : device.getTarget().getVariants())
      variants.push_back(variant == native ? "" : variant.getValue());
    wanted.push_back({device.getSymName().str(), target, variants});
  }
  if (wanted.empty())
    return createStringError("the module has no rt.device that says what it is compiled for");
  return createCompilers(wanted);
}

std::vector<NumberedKernel> numberKernels(mlir::ModuleOp module, StringRef device) {
  std::vector<NumberedKernel> kernels;
  auto devices = module.getOps<rt::DeviceOp>();
  for (auto [index, kernel] : llvm::enumerate(module.getOps<rt::KernelOp>())) {
    StringRef own = kernel.getDevice() ? *kernel.getDevice()
                    : devices.empty()  ? StringRef()
                                       : (*devices.begin()).getSymName();
    if (device.empty() || own == device)
      kernels.push_back({static_cast<unsigned>(index), kernel});
  }
  return kernels;
}

std::vector<NumberedKernel> kernelsIn(mlir::ModuleOp module, const Target &target, StringRef device) {
  return numberKernels(module, target.verifiesKernels() ? StringRef() : device);
}

std::vector<ArtifactObjects> objectsOf(mlir::ModuleOp module) {
  std::vector<ArtifactObjects> artifacts;
  for (auto object : module.getOps<rt::ObjectOp>()) {
    auto artifact =
        llvm::find_if(artifacts, [&](const ArtifactObjects &other) { return other.hostTriple == object.getHost(); });
    if (artifact == artifacts.end()) {
      artifacts.push_back({object.getHost().str(), {}});
      for (auto device : module.getOps<rt::DeviceOp>())
        artifacts.back().devices.push_back({Target::find(device.getTarget().getKind()), device, {}});
      artifact = std::prev(artifacts.end());
    }
    for (DeviceObjects &device : artifact->devices)
      if (device.device.getSymName() == object.getDevice())
        device.objects.push_back(object);
  }
  return artifacts;
}

Expected<std::vector<KernelFunction>> listFunctions(const Target &target, rt::ObjectOp object) {
  std::optional<SmallVector<ArrayRef<char>>> code = object.getBytes();
  std::vector<KernelFunction> functions;
  for (ArrayRef<char> piece : code.value_or(SmallVector<ArrayRef<char>>())) {
    auto some = target.listFunctions(piece);
    if (!some)
      return createStringError("object '" + object.getSymName() + "': " + toString(some.takeError()));
    llvm::append_range(functions, *some);
  }
  return functions;
}

void writeFunction(json::OStream &json, rt::ObjectOp object, const KernelFunction &function) {
  for (auto [index, name] : llvm::zip(object.getNumbers(), object.getKernels().getAsRange<mlir::FlatSymbolRefAttr>()))
    if (index == function.kernel)
      json.attribute("kernel", name.getValue());
  json.attribute("function", function.name);
  json.attribute("threads", function.threads);
  json.attribute("blocks", function.blocks);
  json.attribute("shared_bytes", function.sharedBytes);
  auto write = [&](StringRef key, std::optional<uint64_t> number) {
    if (number)
      json.attribute(key, *number);
  };
  write("registers", function.registers);
  write("spilled_bytes", function.spilledBytes);
  write("local_bytes", function.localBytes);
  write("scalar_registers", function.scalarRegisters);
  write("spilled_scalars", function.spilledScalars);
}

std::vector<std::string> targetSpecs(mlir::ModuleOp module) {
  std::vector<std::string> specs;
  for (auto device : module.getOps<rt::DeviceOp>())
    for (mlir::StringAttr variant : device.getTarget().getVariants())
      specs.push_back(device.getTarget().getKind().str() +
                      (variant == native ? std::string() : ":" + variant.getValue().str()));
  return specs;
}

mlir::LogicalResult declareDevices(mlir::ModuleOp module, ArrayRef<std::string> specs) {
  auto variantsOfTarget = sortByTarget(specs);
  if (!variantsOfTarget)
    return module.emitError(toString(variantsOfTarget.takeError()));
  for (rt::DeviceOp device : make_early_inc_range(module.getOps<rt::DeviceOp>()))
    device.erase();
  mlir::MLIRContext *context = module.getContext();
  context->loadDialect<rt::RtDialect>();
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(module.getBody());
  mlir::SymbolTable symbols(module);
  for (const auto &[target, variants] : *variantsOfTarget) {
    // Names that the target does not know are refused here, before anything is done for them.
    if (auto made = target->compilers(variants); !made)
      return module.emitError(toString(made.takeError()));
    auto model = target->model(variants.front());
    if (!model)
      return module.emitError(toString(model.takeError()));
    if (!model->remark.empty())
      module.emitRemark(model->remark);
    SmallVector<mlir::StringAttr> names;
    for (StringRef variant : variants)
      names.push_back(mlir::StringAttr::get(context, variant.empty() ? native : variant));
    auto device = rt::DeviceOp::create(builder, module.getLoc(), target->kind(),
                                       rt::TargetAttr::get(context, target->kind(), names));
    symbols.insert(device); // gives it another name where a function of the model has this one
  }
  return mlir::success();
}

/// Returns the declared device that an op runs on; null if its module has none.
static rt::DeviceOp declaredDevice(mlir::Operation *op) {
  for (mlir::Operation *around = op; around; around = around->getParentOp()) {
    auto name = around->getAttrOfType<mlir::FlatSymbolRefAttr>(rt::deviceAttr);
    if (auto kernel = dyn_cast<rt::KernelOp>(around))
      name = kernel.getDeviceAttr();
    if (name)
      return mlir::SymbolTable::lookupNearestSymbolFrom<rt::DeviceOp>(op, name);
    if (auto module = dyn_cast<mlir::ModuleOp>(around))
      if (auto devices = module.getOps<rt::DeviceOp>(); !devices.empty())
        return *devices.begin();
  }
  return nullptr;
}

mlir::FailureOr<Device> deviceOf(mlir::Operation *op) {
  rt::DeviceOp device = declaredDevice(op);
  if (!device)
    return op->emitError("no rt.device says what is compiled for: declare one, or run target-declare-devices before");
  const Target *target = Target::find(device.getTarget().getKind());
  if (!target)
    return device.emitOpError() << "is of the unknown kind '" << device.getTarget().getKind() << "'";
  StringRef variant = device.getTarget().getVariants().front();
  auto model = target->model(variant == native ? "" : variant);
  if (!model)
    return device.emitOpError() << toString(model.takeError());
  return Device{device, target, model->figures};
}

} // namespace intarsia::target
