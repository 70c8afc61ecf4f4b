//===- ReferenceCodegen.cpp - From the LLVM dialect to an object ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Reference/ReferenceCodegen.h"

#include "lib/Target/Host.h"
#include "lib/Target/MakeCode.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Verifier.h"
#include <map>

using namespace llvm;

namespace intarsia::reference {
namespace {

/// Intrinsics that code generators turn into calls of the C library, at least for baseline processors.
constexpr struct {
  Intrinsic::ID intrinsic;
  StringLiteral name; ///< of the function on f64
} libraryFunctions[] = {
    {Intrinsic::acos, "acos"},
    {Intrinsic::asin, "asin"},
    {Intrinsic::atan, "atan"},
    {Intrinsic::atan2, "atan2"},
    {Intrinsic::ceil, "ceil"},
    {Intrinsic::cos, "cos"},
    {Intrinsic::cosh, "cosh"},
    {Intrinsic::exp, "exp"},
    {Intrinsic::exp2, "exp2"},
    {Intrinsic::floor, "floor"},
    {Intrinsic::fma, "fma"},
    {Intrinsic::log, "log"},
    {Intrinsic::log10, "log10"},
    {Intrinsic::log2, "log2"},
    {Intrinsic::nearbyint, "nearbyint"},
    {Intrinsic::pow, "pow"},
    {Intrinsic::rint, "rint"},
    {Intrinsic::round, "round"},
    {Intrinsic::sin, "sin"},
    {Intrinsic::roundeven, "roundeven"},
    {Intrinsic::sinh, "sinh"},
    {Intrinsic::tan, "tan"},
    {Intrinsic::tanh, "tanh"},
    {Intrinsic::trunc, "trunc"},
};

/// Replaces calls of the C library by calls of the functions in a table.
class ImportTable {
public:
  explicit ImportTable(Module &module) : module(module), context(module.getContext()) {}

  void build() {
    for (Function &function : module)
      for (Instruction &instruction : instructions(function))
        collect(instruction);
    makeTables();
    unsigned index = 0;
    for (auto &[name, uses] : usesOfName) {
      for (Instruction *use : uses)
        replace(*use, index, name);
      ++index;
    }
    for (Function &function : make_early_inc_range(module))
      if (function.isDeclaration() && function.use_empty())
        function.eraseFromParent();
  }

private:
  static std::string nameFor(StringRef name, Type *type) { return name.str() + (type->isFloatTy() ? "f" : ""); }

  void collect(Instruction &instruction) {
    if (instruction.getOpcode() == Instruction::FRem) {
      usesOfName[nameFor("fmod", instruction.getType())].push_back(&instruction);
      return;
    }
    auto *call = dyn_cast<CallInst>(&instruction);
    Function *callee = call ? call->getCalledFunction() : nullptr;
    if (!callee || !callee->isDeclaration())
      return;
    if (!callee->isIntrinsic()) {
      usesOfName[callee->getName().str()].push_back(call);
      return;
    }
    for (const auto &[intrinsic, name] : libraryFunctions)
      if (callee->getIntrinsicID() == intrinsic)
        usesOfName[nameFor(name, call->getType())].push_back(call);
  }

  GlobalVariable *makeTable(StringRef name, ArrayRef<Constant *> values, bool isConstant) {
    auto *type = ArrayType::get(PointerType::getUnqual(context), values.size());
    auto *table = new GlobalVariable(module, type, isConstant, GlobalValue::ExternalLinkage,
                                     ConstantArray::get(type, values), name);
    table->setVisibility(GlobalValue::ProtectedVisibility);
    table->setDSOLocal(true);
    return table;
  }

  void makeTables() {
    IRBuilder<> builder(context);
    Constant *null = ConstantPointerNull::get(builder.getPtrTy());
    SmallVector<Constant *> names, empty(usesOfName.size(), null);
    for (const auto &[name, uses] : usesOfName)
      names.push_back(builder.CreateGlobalString(name, "name", 0, &module));
    names.push_back(null);
    makeTable("itx_reference_imports", names, /*isConstant=*/true);
    functions = makeTable("itx_reference_functions", empty, /*isConstant=*/false);
  }

  void replace(Instruction &use, unsigned index, StringRef name) {
    IRBuilder<> builder(&use);
    Value *slot = builder.CreateConstInBoundsGEP2_64(functions->getValueType(), functions, 0, index);
    LoadInst *address = builder.CreateLoad(builder.getPtrTy(), slot);
    // The device fills the table before it runs a kernel.
    address->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(context, {}));
    SmallVector<Value *> arguments;
    if (auto *call = dyn_cast<CallInst>(&use))
      arguments.assign(call->arg_begin(), call->arg_end());
    else
      arguments.assign(use.op_begin(), use.op_end());
    SmallVector<Type *> types;
    for (Value *argument : arguments)
      types.push_back(argument->getType());
    CallInst *call = builder.CreateCall(FunctionType::get(use.getType(), types, false), address, arguments);
    call->setDoesNotThrow();
    if (name == "malloc") {
      call->addRetAttr(Attribute::NoAlias);
    } else if (name == "free") {
      call->addParamAttr(0, Attribute::getWithCaptureInfo(context, CaptureInfo::none()));
    } else {
      call->setDoesNotAccessMemory();
      call->addFnAttr(Attribute::WillReturn);
    }
    use.replaceAllUsesWith(call);
    use.eraseFromParent();
  }

  Module &module;
  LLVMContext &context;
  GlobalVariable *functions = nullptr;
  std::map<std::string, SmallVector<Instruction *>>
      usesOfName; // in the order of names, so that bytes depend on input alone
};

} // namespace

Expected<std::vector<char>> compileFunctions(mlir::ModuleOp functions, StringRef hostTriple) {
  LLVMContext context;
  std::unique_ptr<Module> module = mlir::translateModuleToLLVMIR(functions, context, "reference");
  if (!module)
    return createStringError("kernels of the reference device could not be translated to LLVM IR");
  std::unique_ptr<TargetMachine> machine = target::makeHostMachine(hostTriple, "", FPOpFusion::Strict);
  module->setTargetTriple(Triple(hostTriple));
  module->setDataLayout(machine->createDataLayout());
  module->setPICLevel(PICLevel::BigPIC);
  for (Function &function : *module)
    if (!function.isDeclaration()) {
      function.setVisibility(GlobalValue::ProtectedVisibility);
      function.setDSOLocal(true);
      function.setDoesNotThrow();
    }
  ImportTable(*module).build();
  std::string problem;
  raw_string_ostream stream(problem);
  if (verifyModule(*module, &stream))
    return createStringError("kernels of the reference device are no valid LLVM IR: " + problem);
  // Sums stay in the order of the reference. Nothing contracts, as no operation has flags.
  return target::makeCode(*module, *machine, target::Loops::Keep, CodeGenFileType::ObjectFile);
}

} // namespace intarsia::reference
