//===- CpuTarget.cpp - Variants of processors ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/CpuTarget.h"

#include "lib/Support/CpuFeatures.h"
#include "lib/Target/CPU/Codegen.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/AArch64TargetParser.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace llvm;

namespace intarsia::cpu {

namespace {
/// Features that change the code of kernels. Others of a processor are left off: an artifact then asks for no more
/// than it uses.
constexpr StringRef x86Features[] = {
#define X86_FEATURE(name, ...) name,
#include "lib/Support/CpuFeatures.def"
};
constexpr StringRef aarch64Features[] = {
#define AARCH64_FEATURE(name, ...) name,
#include "lib/Support/CpuFeatures.def"
};

StringRef defaultTriple(bool aarch64) { return aarch64 ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu"; }

void initializeTargets() {
  static bool done = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    return true;
  }();
  (void)done;
}

std::unique_ptr<TargetMachine> makeMachine(StringRef tripleName, StringRef cpu, StringRef features) {
  initializeTargets();
  std::string error;
  Triple triple(tripleName);
  const llvm::Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    report_fatal_error(Twine("LLVM was built without ") + tripleName);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Fast;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, cpu, features, options, Reloc::PIC_, std::nullopt, CodeGenOptLevel::Default));
}

class CpuTarget : public target::Target {
public:
  explicit CpuTarget(std::vector<CpuVariant> variants) : list(std::move(variants)) {}

  std::string triple() const override { return list.front().triple; }
  std::vector<target::Variant> variants() const override { return {list.begin(), list.end()}; }
  std::unique_ptr<TargetMachine> hostMachine() const override {
    return makeMachine(triple(), Triple(triple()).isAArch64() ? "generic" : "x86-64", "");
  }
  std::string elfEmulation() const override { return Triple(triple()).isAArch64() ? "aarch64linux" : "elf_x86_64"; }
  Error compileKernels(mlir::ModuleOp module, std::vector<target::CompiledObject> &objects) override {
    return cpu::compileKernels(module, list, objects);
  }
  mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module) override {
    module.getContext()
        ->loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::LLVM::LLVMDialect,
                      mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
    mlir::OwningOpRef<mlir::ModuleOp> result(mlir::ModuleOp::create(module.getLoc()));
    return succeeded(cpu::emitKernels(module, list.front(), *result)) ? std::move(result) : nullptr;
  }

private:
  std::vector<CpuVariant> list;
};
} // namespace

std::unique_ptr<TargetMachine> CpuVariant::machine() const {
  std::string list;
  for (const std::string &feature : features)
    list += (list.empty() ? "+" : ",+") + feature;
  return makeMachine(triple, Triple(triple).isAArch64() ? "generic" : "x86-64", list);
}

Expected<CpuVariant> parseVariant(StringRef spec) {
  SmallVector<StringRef> parts;
  spec.split(parts, '+');
  StringRef name = parts.front();
  bool host = name.empty();
  bool hostIsAArch64 = Triple(sys::getProcessTriple()).isAArch64();
  StringRef processor = !host ? name : hostProcessorName().empty() ? "generic" : StringRef(hostProcessorName());

  CpuVariant variant;
  llvm::StringSet<> features;
  bool aarch64 = false;
  // Lists of levels leave out what other features imply: avx512bw without avx512f.
  auto insertX86 = [&](StringRef feature) {
    StringMap<bool> implied;
    X86::updateImpliedFeatures(feature, true, implied);
    for (const auto &entry : implied)
      features.insert(entry.getKey());
    features.insert(feature);
  };
  if (host) {
    aarch64 = hostIsAArch64;
    for (const std::string &feature : hostFeatures())
      features.insert(feature);
  } else if (name == "aarch64") {
    aarch64 = true;
    features.insert("neon");
    processor = "generic";
  } else if (X86::parseArchX86(name, /*Only64Bit=*/true) != X86::CK_None) {
    SmallVector<StringRef> list;
    X86::getFeaturesForCPU(name, list);
    for (StringRef feature : list)
      insertX86(feature);
  } else if (std::optional<AArch64::CpuInfo> info = AArch64::parseCpu(name)) {
    aarch64 = true;
    std::vector<StringRef> list;
    AArch64::getExtensionFeatures(info->getImpliedExtensions(), list);
    for (StringRef feature : list) {
      feature.consume_front("+");
      features.insert(feature);
    }
  } else {
    return createStringError("unknown processor '" + name +
                             "': give a level (x86-64-v2, x86-64-v3, x86-64-v4, aarch64) or a processor that LLVM "
                             "knows (sapphirerapids, znver5, neoverse-v2, …)");
  }
  ArrayRef<StringRef> known = aarch64 ? ArrayRef(aarch64Features) : ArrayRef(x86Features);
  for (StringRef extra : ArrayRef(parts).drop_front()) {
    if (!is_contained(known, extra))
      return createStringError("unknown feature '" + extra + "' in target 'cpu:" + spec + "': the features are " +
                               join(known, ", "));
    if (aarch64)
      features.insert(extra);
    else
      insertX86(extra);
  }
  for (StringRef feature : known)
    if (features.contains(feature))
      variant.features.push_back(feature.str());
  variant.triple = defaultTriple(aarch64).str();
  variant.cpu = variant.tune = processor.str();
  variant.name = host ? processor.str() : spec.str();
  variant.tiles = chooseTiles(Triple(variant.triple), processor, variant.features);
  variant.fusedMultiplyAdd = aarch64 || features.contains("fma");
  return variant;
}

Expected<std::vector<std::unique_ptr<target::Target>>> createCpuTargets(ArrayRef<StringRef> specs) {
  MapVector<StringRef, std::vector<CpuVariant>> variantsOfTriple;
  for (StringRef spec : specs) {
    Expected<CpuVariant> variant = parseVariant(spec);
    if (!variant)
      return variant.takeError();
    std::vector<CpuVariant> &variants = variantsOfTriple[defaultTriple(Triple(variant->triple).isAArch64())];
    for (const CpuVariant &other : variants)
      if (other.name == variant->name)
        return createStringError("two targets are named '" + other.name + "': leave one of them out");
    variants.push_back(std::move(*variant));
  }
  std::vector<std::unique_ptr<target::Target>> result;
  for (auto &[triple, variants] : variantsOfTriple) {
    llvm::stable_sort(variants,
                      [](const CpuVariant &a, const CpuVariant &b) { return a.features.size() > b.features.size(); });
    result.push_back(std::make_unique<CpuTarget>(std::move(variants)));
  }
  return result;
}

} // namespace intarsia::cpu
