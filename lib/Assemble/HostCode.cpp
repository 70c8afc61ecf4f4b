//===- HostCode.cpp - Host programs as LLVM IR -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/HostCode.h"

#include "lib/Assemble/HostFunction.h"
#include "lib/Formats/ArtifactFormat.h"
#include "lib/Support/Hash.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include <set>

using namespace mlir;
using llvm::createStringError;

namespace intarsia::assemble {

ModuleTables::ModuleTables(ModuleOp module) {
  for (rt::DeviceOp device : module.getOps<rt::DeviceOp>()) {
    deviceIndices[device.getSymName()] = devices.size();
    devices.push_back(device.getSymName().str());
  }
  for (Operation &op : module.getOps()) {
    if (auto kernel = dyn_cast<rt::KernelOp>(op)) {
      kernelIndices[kernel.getSymName()] = kernels.size();
      kernels.push_back(kernel.getSymName().str());
      kernelDevices.push_back(kernel.getDevice() ? deviceIndices.lookup(*kernel.getDevice()) : 0);
    } else if (auto constant = dyn_cast<rt::ConstantOp>(op)) {
      constantIndices.try_emplace(constant.getSymName(), constantIndices.size());
    } else if (isa<func::FuncOp>(op)) {
      functions.push_back(&op);
    }
  }
  module.walk([&](Operation *op) {
    if (!isa<rt::DispatchOp, rt::CollectiveOp>(op))
      return;
    if (auto collective = dyn_cast<rt::CollectiveOp>(op))
      if (std::vector<int64_t> ranks(collective.getRanks()); !llvm::is_contained(groups, ranks))
        groups.push_back(std::move(ranks));
    StringRef label = labelOf(op);
    if (labelIndices.try_emplace(label, labels.size()).second)
      labels.push_back(label.str());
  });
  std::vector<std::set<int>> memories(constantIndices.size());
  module.walk([&](rt::ConstantDataOp data) {
    memories[constantIndices.lookup(data.getConstant())].insert(memoryOf(data.getType()));
  });
  for (auto [constant, uses] : llvm::enumerate(memories)) {
    if (uses.empty())
      uses.insert(-1);
    for (int device : uses)
      weights.push_back({static_cast<unsigned>(constant), device});
  }
}

int ModuleTables::memoryOf(Type buffer) const {
  FlatSymbolRefAttr device = rt::memoryDeviceOf(buffer);
  return device ? static_cast<int>(deviceIndices.lookup(device.getValue())) : -1;
}

unsigned ModuleTables::weightNumber(Operation *op) const {
  auto data = cast<rt::ConstantDataOp>(op);
  unsigned constant = constantIndices.lookup(data.getConstant());
  int device = memoryOf(data.getType());
  auto found =
      llvm::find_if(weights, [&](const WeightUse &use) { return use.constant == constant && use.device == device; });
  return found - weights.begin();
}

unsigned ModuleTables::groupNumber(llvm::ArrayRef<int64_t> ranks) const {
  return llvm::find(groups, std::vector<int64_t>(ranks)) - groups.begin();
}

StringRef ModuleTables::labelOf(Operation *op) {
  if (auto collective = dyn_cast<rt::CollectiveOp>(op))
    return collective.getLabel().value_or(rt::stringifyCollectiveKind(collective.getKind()));
  auto dispatch = cast<rt::DispatchOp>(op);
  return dispatch.getLabel().value_or(dispatch.getKernel());
}

namespace {

/// Adds a section with these bytes, which the linker keeps.
void addSection(llvm::Module &target, StringRef section, StringRef bytes, llvm::Align alignment) {
  auto *data = llvm::ConstantDataArray::getString(target.getContext(), bytes, /*AddNull=*/false);
  auto *global = new llvm::GlobalVariable(target, data->getType(), /*isConstant=*/true,
                                          llvm::GlobalValue::InternalLinkage, data, section.drop_front());
  global->setSection(section);
  global->setAlignment(alignment);
  llvm::appendToUsed(target, {global});
}

void addDescriptor(llvm::Module &target, const ModuleTables &tables, ArrayRef<llvm::Constant *> functions,
                   const KernelCode &kernels, StringRef manifest) {
  llvm::LLVMContext &context = target.getContext();
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *number = llvm::Type::getInt32Ty(context);
  auto external = [&](const Twine &name) {
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
    auto *function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, target);
    function->setVisibility(llvm::GlobalValue::HiddenVisibility);
    function->setDSOLocal(true);
    return function;
  };
  SmallVector<llvm::Constant *> entries; // itx_kernel_entry is two pointers
  for (unsigned variant = 0; variant < kernels.variants; ++variant)
    for (unsigned kernel = 0; kernel < tables.kernels.size(); ++kernel)
      for (StringRef part : {"plan", "run"})
        entries.push_back(kernels.isHostCode[tables.kernelDevices[kernel]]
                              ? external("itx_k" + Twine(kernel) + "_v" + Twine(variant) + "_" + part)
                              : static_cast<llvm::Constant *>(llvm::ConstantPointerNull::get(pointer)));
  SmallVector<llvm::Constant *> objects; // itx_object is a pointer and 64 bits
  for (ArrayRef<char> object : kernels.objects) {
    auto *data = llvm::ConstantDataArray::getString(context, StringRef(object.data(), object.size()), false);
    auto *global = new llvm::GlobalVariable(target, data->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::InternalLinkage, data, "itx_object");
    global->setAlignment(llvm::Align(64));
    global->setSection(artifactObjectSection(objects.size()));
    objects.push_back(llvm::ConstantStruct::getAnon(
        {global, llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), object.size())}));
  }
  auto table = [&](ArrayRef<llvm::Constant *> list, const char *name) {
    auto *type = llvm::ArrayType::get(list.empty() ? pointer : list.front()->getType(), list.size());
    return new llvm::GlobalVariable(target, type, /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                    llvm::ConstantArray::get(type, list), name);
  };
  auto constant = [&](uint32_t value) { return llvm::ConstantInt::get(number, value); };
  Hash128 hash = hashBytes(manifest.data(), manifest.size());
  auto *descriptor = llvm::ConstantStruct::getAnon(
      {constant(ITX_MODULE_ABI_VERSION), constant(kernels.variants), constant(tables.kernels.size()),
       constant(functions.size()), constant(tables.weights.size()), constant(tables.labels.size()),
       constant(tables.devices.size()), constant(objects.size()), table(entries, "itx_kernels"),
       table(functions, "itx_functions"), table(objects, "itx_objects"),
       llvm::ConstantDataArray::get(context, ArrayRef<uint8_t>(hash))});
  new llvm::GlobalVariable(target, descriptor->getType(), /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           descriptor, ITX_MODULE_SYMBOL);
}

} // namespace

llvm::Expected<std::vector<char>> compileHostCode(ModuleOp module, const ModuleTables &tables,
                                                  const KernelCode &kernels, StringRef manifest,
                                                  llvm::TargetMachine &machine) {
  llvm::LLVMContext context;
  llvm::Module target("intarsia", context);
  target.setTargetTriple(machine.getTargetTriple());
  target.setDataLayout(machine.createDataLayout());
  target.setPICLevel(llvm::PICLevel::BigPIC);
  SmallVector<llvm::Constant *> functions;
  for (auto [number, op] : llvm::enumerate(tables.functions)) {
    HostFunction function(cast<func::FuncOp>(op), tables, target, number);
    if (llvm::Error error = function.build())
      return error;
    functions.push_back(function.entry());
  }
  addDescriptor(target, tables, functions, kernels, manifest);
  ArtifactHeader header = {}; // filled in when the file is complete
  std::copy(std::begin(artifactMagic), std::end(artifactMagic), header.magic);
  addSection(target, artifactHeaderSection, StringRef(reinterpret_cast<const char *>(&header), sizeof(header)),
             llvm::Align(64));
  addSection(target, artifactManifestSection, manifest, llvm::Align(1));

  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(target, &stream))
    return createStringError("host code does not verify: " + problem);
  // The code is one long block of stores and calls: with optimisation it takes ten times as long to compile (60 ms for
  // MiniLM) and is not measurably faster.
  machine.setOptLevel(llvm::CodeGenOptLevel::None);
  SmallVector<char> object;
  llvm::raw_svector_ostream output(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, output, nullptr, llvm::CodeGenFileType::ObjectFile))
    return createStringError("the target " + machine.getTargetTriple().str() + " emits no objects");
  passes.run(target);
  return std::vector<char>(object.begin(), object.end());
}

} // namespace intarsia::assemble
