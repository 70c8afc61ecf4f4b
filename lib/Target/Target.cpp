//===- Target.cpp - The targets that exist ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Target/Target.h"

#include "lib/Target/CPU/CpuTarget.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace intarsia::target {

/// One line a target.
static ArrayRef<const Target *> allTargets() {
  static const Target *const targets[] = {
      &cpu::cpuTarget(),
  };
  return targets;
}

const Target *Target::find(StringRef kind) {
  for (const Target *target : allTargets())
    if (target->kind() == kind)
      return target;
  return nullptr;
}

void printTargets(raw_ostream &stream) {
  std::vector<NamedVariant> rows;
  size_t width = 0;
  for (const Target *target : allTargets())
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
      for (const Target *each : allTargets())
        known += (known.empty() ? "" : ", ") + each->kind().str();
      return createStringError("unknown target '" + spec + "': the targets are " + known +
                               " (for instance cpu, cpu:znver5, cpu:x86-64-v3, cpu:aarch64)");
    }
    result[target].push_back(variant == native ? "" : variant);
  }
  return result;
}

Expected<std::vector<std::unique_ptr<KernelCompiler>>> createCompilers(ArrayRef<std::string> specs) {
  auto variantsOfTarget = sortByTarget(specs);
  if (!variantsOfTarget)
    return variantsOfTarget.takeError();
  std::vector<std::unique_ptr<KernelCompiler>> result;
  for (const auto &[target, variants] : *variantsOfTarget) {
    auto made = target->compilers(variants);
    if (!made)
      return made.takeError();
    std::move(made->begin(), made->end(), std::back_inserter(result));
  }
  return result;
}

std::vector<std::string> targetSpecs(mlir::ModuleOp module) {
  std::vector<std::string> specs;
  for (auto device : module.getOps<rt::DeviceOp>())
    for (mlir::StringAttr variant : device.getTarget().getVariants())
      specs.push_back(device.getTarget().getKind().str() +
                      (variant == native ? std::string() : ":" + variant.getValue().str()));
  return specs;
}

Expected<std::vector<std::unique_ptr<KernelCompiler>>> createCompilers(mlir::ModuleOp module) {
  std::vector<std::string> specs = targetSpecs(module);
  if (specs.empty())
    return createStringError("the module has no rt.device that says what it is compiled for");
  return createCompilers(specs);
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

mlir::FailureOr<Device> deviceOf(mlir::Operation *op) {
  auto module = dyn_cast<mlir::ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<mlir::ModuleOp>();
  auto devices = module.getOps<rt::DeviceOp>();
  if (devices.empty())
    return op->emitError("no rt.device says what is compiled for: declare one, or run target-declare-devices before");
  rt::DeviceOp device = *devices.begin();
  const Target *target = Target::find(device.getTarget().getKind());
  if (!target)
    return device.emitOpError() << "is of the unknown kind '" << device.getTarget().getKind() << "'";
  StringRef variant = device.getTarget().getVariants().front();
  auto model = target->model(variant == native ? "" : variant);
  if (!model)
    return device.emitOpError() << toString(model.takeError());
  return Device{target, model->figures};
}

} // namespace intarsia::target
