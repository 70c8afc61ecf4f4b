//===- Codegen.cpp - From kernels to objects --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/Codegen.h"

#include "lib/Target/CPU/KernelRoots.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"

using namespace mlir;

namespace intarsia::cpu {

/// Without a fused multiply-add instruction fma would be a call of libm. The sums of products multiply and add instead.
/// Elementary functions reduce their arguments by it and need it exact: in f64 the product of two f32 is.
static void splitFusedMultiplyAdd(ModuleOp module) {
  IRRewriter rewriter(module.getContext());
  module.walk([&](Operation *op) {
    if (!isa<vector::FMAOp, math::FmaOp>(op))
      return;
    rewriter.setInsertionPoint(op);
    Location loc = op->getLoc();
    Type type = op->getResult(0).getType();
    SmallVector<Value> operands(op->getOperands());
    bool widens = isa<math::FmaOp>(op) && getElementTypeOrSelf(type).isF32();
    if (widens) {
      Type f64 = rewriter.getF64Type(), wide = f64;
      if (auto vector = dyn_cast<VectorType>(type))
        wide = vector.clone(f64);
      for (Value &operand : operands)
        operand = arith::ExtFOp::create(rewriter, loc, wide, operand);
    }
    Value product = arith::MulFOp::create(rewriter, loc, operands[0], operands[1]);
    Value sum = arith::AddFOp::create(rewriter, loc, product, operands[2]);
    rewriter.replaceOp(op, widens ? arith::TruncFOp::create(rewriter, loc, type, sum).getResult() : sum);
  });
}

/// Divisions that round down or up, as sizes have them, in terms of those that LLVM has.
static void expandDivisions(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  walkAndApplyPatterns(module, std::move(patterns));
}

static void buildLoweringPipeline(OpPassManager &manager) {
  manager.addPass(createCSEPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

/// LLVM IR → object. Loops are vectorised already: LLVM's own vectorisers and unroller would add code for shapes that
/// do not occur.
static std::vector<char> compileToObject(llvm::Module &module, const CpuVariant &variant) {
  std::unique_ptr<llvm::TargetMachine> machine = variant.machine();
  module.setTargetTriple(llvm::Triple(variant.triple));
  module.setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    function.setDSOLocal(true);
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("tune-cpu", variant.tune);
    function.addFnAttr("prefer-vector-width", std::to_string(variant.tiles.lanes * 32));
    function.addFnAttr("min-legal-vector-width", std::to_string(variant.tiles.lanes * 32));
  }
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  tuning.LoopUnrolling = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.get(), tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return {};
  codegen.run(module);
  return {object.begin(), object.end()};
}

llvm::Error compileKernels(ModuleOp module, ArrayRef<CpuVariant> variants,
                           std::vector<target::CompiledObject> &objects) {
  MLIRContext *context = module.getContext();
  context->loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                       math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  struct Job {
    rt::KernelOp kernel;
    unsigned kernelIndex, variantIndex;
    OwningOpRef<ModuleOp> module;
    target::CompiledObject result;
  };
  std::vector<Job> jobs;
  for (unsigned v = 0; v < variants.size(); ++v)
    for (auto [k, kernel] : llvm::enumerate(module.getOps<rt::KernelOp>()))
      jobs.push_back({kernel, static_cast<unsigned>(k), v, nullptr, {}});

  // Passes declare the dialects that they need before anything runs in parallel.
  DialectRegistry registry;
  {
    PassManager manager(context);
    buildLoweringPipeline(manager);
    manager.getDependentDialects(registry);
  }
  for (StringRef name : registry.getDialectNames())
    context->getOrLoadDialect(name);

  if (failed(failableParallelForEach(context, jobs, [&](Job &job) {
        const CpuVariant &variant = variants[job.variantIndex];
        std::string prefix = llvm::formatv("itx_k{0}_v{1}_", job.kernelIndex, job.variantIndex);
        job.module = ModuleOp::create(job.kernel.getLoc());
        if (failed(emitKernel(job.kernel, variant.tiles, *job.module, prefix + "plan", prefix + "run")))
          return failure();
        expandDivisions(*job.module);
        if (!variant.fusedMultiplyAdd)
          splitFusedMultiplyAdd(*job.module);
        return verify(*job.module);
      })))
    return llvm::createStringError("kernels could not be generated");

  // One module with a module for each kernel: the pass manager runs those in parallel.
  OwningOpRef<ModuleOp> all = ModuleOp::create(module.getLoc());
  SmallVector<ModuleOp> parts;
  for (Job &job : jobs) {
    parts.push_back(job.module.release());
    all->push_back(parts.back());
  }
  PassManager manager(context);
  buildLoweringPipeline(manager.nest<ModuleOp>());
  if (failed(manager.run(*all)))
    return llvm::createStringError("kernels could not be lowered to LLVM");

  if (failed(failableParallelForEach(context, llvm::seq<size_t>(0, jobs.size()), [&](size_t i) {
        llvm::LLVMContext llvmContext;
        std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(parts[i], llvmContext);
        if (!llvmModule)
          return failure();
        Job &job = jobs[i];
        job.result.name = job.kernel.getSymName().str() + "." + variants[job.variantIndex].name;
        job.result.object = compileToObject(*llvmModule, variants[job.variantIndex]);
        return success(!job.result.object.empty());
      })))
    return llvm::createStringError("kernels could not be compiled");
  for (Job &job : jobs)
    objects.push_back(std::move(job.result));
  return llvm::Error::success();
}

} // namespace intarsia::cpu
