//===- Codegen.cpp - From kernels to the code of GPUs ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Codegen.h"

#include "lib/Formats/GpuObject.h"
#include "lib/Target/GPU/AmdMetadata.h"
#include "lib/Target/GPU/FunctionEmitter.h"
#include "lib/Target/GPU/Microkernels.h"
#include "lib/Target/GPU/Ptxas.h"
#include "lib/Target/Host.h"
#include "lib/Target/Linker.h"
#include "lib/Target/MakeCode.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"

using namespace llvm;

namespace intarsia::gpu {

namespace {

std::unique_ptr<TargetMachine> makeMachine(const Architecture &architecture) {
  bool isNvidia = architecture.vendor == Vendor::Nvidia;
  Triple triple(isNvidia ? "nvptx64-nvidia-cuda" : "amdgcn-amd-amdhsa");
  static const bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    return true;
  }();
  (void)initialized;
  std::string problem;
  const Target *target = TargetRegistry::lookupTarget(triple, problem);
  if (!target)
    return nullptr;
  TargetOptions options;
  // Nothing contracts but what the kernels say: the same roundings as on other devices.
  options.AllowFPOpFusion = FPOpFusion::Strict;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, architecture.name, architecture.features, options, Reloc::PIC_));
}

/// Appends the postfix form of an expression in a kernel's sizes, which are its symbols in their order.
void appendSteps(mlir::AffineExpr expression, SizeExpression &steps) {
  using Kind = SizeStep::Kind;
  if (auto constant = dyn_cast<mlir::AffineConstantExpr>(expression)) {
    steps.push_back({Kind::Number, constant.getValue()});
    return;
  }
  if (auto symbol = dyn_cast<mlir::AffineSymbolExpr>(expression)) {
    steps.push_back({Kind::Size, int64_t(symbol.getPosition())});
    return;
  }
  auto binary = cast<mlir::AffineBinaryOpExpr>(expression);
  appendSteps(binary.getLHS(), steps);
  appendSteps(binary.getRHS(), steps);
  switch (expression.getKind()) {
  case mlir::AffineExprKind::Add:
    steps.push_back({Kind::Add});
    return;
  case mlir::AffineExprKind::Mul:
    steps.push_back({Kind::Multiply});
    return;
  case mlir::AffineExprKind::FloorDiv:
    steps.push_back({Kind::FloorDivide});
    return;
  case mlir::AffineExprKind::CeilDiv:
    steps.push_back({Kind::CeilDivide});
    return;
  case mlir::AffineExprKind::Mod:
    steps.push_back({Kind::Modulo});
    return;
  default:
    llvm_unreachable("no expression in sizes");
  }
}

SizeExpression readExpression(rt::KernelOp kernel, mlir::gpu::GPUFuncOp function, StringRef attribute) {
  SizeExpression steps;
  auto text = function->getAttrOfType<mlir::StringAttr>(attribute);
  appendSteps(text ? kernel.parseSize(text.getValue()) : mlir::getAffineConstantExpr(0, kernel.getContext()), steps);
  return steps;
}

std::vector<GpuTensorMap> readTensorMaps(rt::KernelOp kernel, mlir::gpu::GPUFuncOp function) {
  std::vector<GpuTensorMap> maps;
  auto all = function->getAttrOfType<mlir::ArrayAttr>(tensorMapsAttribute);
  if (!all)
    return maps;
  for (auto facts : all.getAsRange<mlir::DictionaryAttr>()) {
    auto number = [&](StringRef key) { return uint32_t(facts.getAs<mlir::IntegerAttr>(key).getInt()); };
    GpuTensorMap map;
    map.buffer = number("buffer");
    map.elementBytes = number("element_bytes");
    map.swizzleBytes = number("swizzle_bytes");
    ArrayRef<int64_t> box = facts.getAs<mlir::DenseI64ArrayAttr>("box").asArrayRef();
    map.boxRows = uint32_t(box[0]);
    map.boxColumns = uint32_t(box[1]);
    appendSteps(kernel.parseSize(facts.getAs<mlir::StringAttr>("rows").getValue()), map.rows);
    appendSteps(kernel.parseSize(facts.getAs<mlir::StringAttr>("columns").getValue()), map.columns);
    maps.push_back(std::move(map));
  }
  return maps;
}

/// Returns how a kernel is launched, by the attributes of its functions.
GpuKernel describe(target::NumberedKernel numbered, mlir::gpu::GPUModuleOp module) {
  rt::KernelOp kernel = numbered.kernel;
  GpuKernel result;
  result.index = numbered.index;
  result.buffers = kernel.getNumArguments() + kernel.getResultTypes().size();
  result.sizes = kernel.getSizes().size();
  std::string prefix = "itx_k" + std::to_string(numbered.index) + "_";
  DenseSet<mlir::Attribute> scratches;
  for (auto function : module.getOps<mlir::gpu::GPUFuncOp>()) {
    if (!function.getName().starts_with(prefix))
      continue;
    GpuLaunch launch;
    launch.function = function.getName().str();
    SizeExpression one = {{SizeStep::Kind::Number, 1}};
    launch.grid = {readExpression(kernel, function, gridAttribute), one, one};
    ArrayRef<int32_t> block = *function.getKnownBlockSize();
    launch.block = {uint32_t(block[0]), uint32_t(block[1]), uint32_t(block[2])};
    launch.shared = readExpression(kernel, function, sharedAttribute);
    launch.tensorMaps = readTensorMaps(kernel, function);
    mlir::Attribute scratch = function->getAttr(scratchAttribute);
    if (scratch && scratches.insert(scratch).second) {
      // Launches use the same scratch, one after the other: the sum is at least what each of them needs. What several
      // need counts once.
      SizeExpression more = readExpression(kernel, function, scratchAttribute);
      llvm::append_range(result.scratch, more);
      result.scratch.push_back({SizeStep::Kind::Add});
    }
    result.launches.push_back(std::move(launch));
  }
  return result;
}

/// Code for one use, and what is known of its functions.
struct MadeCode {
  std::vector<std::pair<GpuCodeKind, std::vector<char>>> pieces; ///< best first
  std::vector<GpuFunction> functions;
};

Error makeDeviceCode(Module &module, const Architecture &architecture, MadeCode &code) {
  std::unique_ptr<TargetMachine> machine = makeMachine(architecture);
  if (!machine)
    return createStringError("this LLVM has no code generator for '" + architecture.name + "'");
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  if (Error error = inlineMicrokernels(module, architecture, CodeFor::Device))
    return error;
  if (architecture.vendor == Vendor::Amd)
    // Version 5 is what drivers from ROCm 5.7 on load (LLVM, "User Guide for AMDGPU Backend", code object metadata).
    module.addModuleFlag(Module::Error, "amdhsa_code_object_version", 500);
  if (architecture.vendor == Vendor::Nvidia) {
    auto ptx = target::makeCodeOnce(module, *machine, target::Loops::Unroll, CodeGenFileType::AssemblyFile);
    if (!ptx)
      return ptx.takeError();
    auto cubin = assemblePtx({ptx->data(), ptx->size()}, architecture.name, code.functions);
    if (!cubin)
      return cubin.takeError();
    if (!cubin->empty())
      code.pieces.emplace_back(GpuCodeKind::Cubin, std::move(*cubin));
    code.pieces.emplace_back(GpuCodeKind::Ptx, std::move(*ptx));
    return Error::success();
  }
  auto object = target::makeCodeOnce(module, *machine, target::Loops::Unroll, CodeGenFileType::ObjectFile);
  if (!object)
    return object.takeError();
  auto linked = target::link({{architecture.name.str(), std::move(*object)}}, "elf64_amdgpu", /*relocatable=*/false);
  if (!linked)
    return linked.takeError();
  if (Error error = readAmdMetadata({linked->data(), linked->size()}, code.functions))
    return error;
  code.pieces.emplace_back(GpuCodeKind::Hsaco, std::move(*linked));
  return Error::success();
}

Error makeEmulatorCode(Module &module, const Architecture &architecture, StringRef hostTriple, MadeCode &code) {
  // What a GPU has instructions for would otherwise be calls of the C library: roundings to integers, conversions of
  // f16.
  StringRef features = Triple(hostTriple).isX86() ? "+sse4.1,+f16c" : "";
  // The emulator takes most of the run time: it checks each memory access and computes matrix products. Optimizing the
  // code of the threads takes longer than it saves.
  std::unique_ptr<TargetMachine> machine =
      target::makeHostMachine(hostTriple, features, FPOpFusion::Strict, CodeGenOptLevel::None);
  if (std::unique_ptr<TargetMachine> gpu = makeMachine(architecture)) {
    module.setTargetTriple(gpu->getTargetTriple());
    module.setDataLayout(gpu->createDataLayout());
  }
  if (Error error = inlineMicrokernels(module, architecture, CodeFor::Emulator))
    return error;
  for (Function &function : module) {
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
  }
  if (Error error = emulate(module, architecture))
    return error;
  module.setTargetTriple(Triple(hostTriple));
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(PICLevel::BigPIC);
  std::string problem;
  raw_string_ostream stream(problem);
  if (verifyModule(module, &stream))
    return createStringError("the emulation of kernels is no valid LLVM IR: " + problem.substr(0, 300));
  auto object = target::makeCodeOnce(module, *machine, target::Loops::Keep, CodeGenFileType::ObjectFile);
  if (!object)
    return object.takeError();
  auto linked = target::link({{architecture.name.str(), std::move(*object)}}, target::elfEmulation(hostTriple),
                             /*relocatable=*/false);
  if (!linked)
    return linked.takeError();
  code.pieces.emplace_back(GpuCodeKind::Host, std::move(*linked));
  return Error::success();
}

} // namespace

Expected<std::vector<char>> compileKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels,
                                           const Architecture &architecture, CodeFor codeFor, StringRef hostTriple) {
  mlir::OwningOpRef<mlir::ModuleOp> functions(mlir::ModuleOp::create(module.getLoc()));
  mlir::FailureOr<mlir::gpu::GPUModuleOp> emitted = emitKernels(kernels, architecture, *functions);
  if (failed(emitted))
    return createStringError("kernels could not be compiled for " + architecture.name);
  GpuObject object;
  object.architecture = architecture.name.str();
  for (target::NumberedKernel kernel : kernels)
    object.kernels.push_back(describe(kernel, *emitted));
  // The functions are verified here and as LLVM IR. To verify them after each of MLIR's conversions takes long.
  mlir::PassManager manager(module.getContext());
  buildGpuLowering(manager, architecture);
  manager.enableVerifier(false);
  if (failed(mlir::verify(*functions)) || failed(manager.run(*functions)))
    return createStringError("kernels could not be lowered for " + architecture.name);

  LLVMContext context;
  std::unique_ptr<Module> code = mlir::translateModuleToLLVMIR(*emitted, context, architecture.name);
  if (!code)
    return createStringError("kernels could not be translated to LLVM IR for " + architecture.name);
  MadeCode made;
  if (Error error = codeFor == CodeFor::Device ? makeDeviceCode(*code, architecture, made)
                                               : makeEmulatorCode(*code, architecture, hostTriple, made))
    return std::move(error);
  std::vector<std::string_view> bytes;
  for (const auto &[kind, piece] : made.pieces) {
    GpuCode described;
    described.kind = kind;
    described.architecture = architecture.name.str();
    described.bytes = piece.size();
    object.code.push_back(described);
    bytes.emplace_back(piece.data(), piece.size());
  }
  object.functions = std::move(made.functions);
  std::string written;
  if (Status status = writeGpuObject(object, bytes, written); !status.ok())
    return createStringError(status.message());
  return std::vector<char>(written.begin(), written.end());
}

} // namespace intarsia::gpu
