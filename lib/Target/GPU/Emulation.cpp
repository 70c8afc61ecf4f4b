//===- Emulation.cpp - Code of GPUs that the host runs -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function then computes what one thread does, and calls the emulator (lib/Runtime/Emulated) for what it does with
// others. Calls go through a table, as those of the reference device do: `itx_emulated_imports` has names, and
// `itx_emulated_functions` is filled when the code is loaded.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/emulated_abi.h"
#include "lib/Target/GPU/Codegen.h"
#include "lib/Target/GPU/EmulationBuilder.h"
#include "lib/Target/GPU/MatrixInstructions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

using namespace llvm;

namespace intarsia::gpu {

namespace {

/// Metadata of an access: its address space.
constexpr StringLiteral accessMark = "itx.space";

/// Pointers of all address spaces become those of the host.
class FlatPointers : public ValueMapTypeRemapper {
public:
  Type *remapType(Type *type) override {
    if (isa<PointerType>(type))
      return PointerType::get(type->getContext(), 0);
    if (auto *array = dyn_cast<ArrayType>(type))
      return ArrayType::get(remapType(array->getElementType()), array->getNumElements());
    if (auto *structure = dyn_cast<StructType>(type)) {
      SmallVector<Type *> elements;
      for (Type *element : structure->elements())
        elements.push_back(remapType(element));
      return StructType::get(type->getContext(), elements, structure->isPacked());
    }
    if (auto *function = dyn_cast<FunctionType>(type)) {
      SmallVector<Type *> parameters;
      for (Type *parameter : function->params())
        parameters.push_back(remapType(parameter));
      return FunctionType::get(remapType(function->getReturnType()), parameters, function->isVarArg());
    }
    return type;
  }
};

/// An intrinsic, the emulator's function for it, and an argument that comes first.
struct Emulated {
  Intrinsic::ID intrinsic;
  StringLiteral name;
  int dimension; ///< of indices: x, y, z; -1: no argument
};
constexpr Emulated emulated[] = {
    {Intrinsic::nvvm_read_ptx_sreg_tid_x, "thread_id", 0},
    {Intrinsic::nvvm_read_ptx_sreg_tid_y, "thread_id", 1},
    {Intrinsic::nvvm_read_ptx_sreg_tid_z, "thread_id", 2},
    {Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "block_id", 0},
    {Intrinsic::nvvm_read_ptx_sreg_ctaid_y, "block_id", 1},
    {Intrinsic::nvvm_read_ptx_sreg_ctaid_z, "block_id", 2},
    {Intrinsic::nvvm_read_ptx_sreg_nctaid_x, "grid_dim", 0},
    {Intrinsic::nvvm_barrier_cta_sync_aligned_all, "barrier", -1},
    {Intrinsic::nvvm_bar_warp_sync, "warp_barrier", -1},
    {Intrinsic::amdgcn_workitem_id_x, "thread_id", 0},
    {Intrinsic::amdgcn_workitem_id_y, "thread_id", 1},
    {Intrinsic::amdgcn_workitem_id_z, "thread_id", 2},
    {Intrinsic::amdgcn_workgroup_id_x, "block_id", 0},
    {Intrinsic::amdgcn_workgroup_id_y, "block_id", 1},
    {Intrinsic::amdgcn_workgroup_id_z, "block_id", 2},
    {Intrinsic::amdgcn_s_barrier, "barrier", -1},
    {Intrinsic::amdgcn_wave_barrier, "warp_barrier", -1},
};

/// Replaces what only GPUs have in a module of flat pointers.
class Emulation : EmulationBuilder {
public:
  Emulation(Module &module, const Architecture &architecture) : EmulationBuilder(module), architecture(architecture) {}

  Error run() {
    markAccesses();
    flatten();
    SmallVector<CallInst *> calls;
    for (Function &function : module)
      for (Instruction &instruction : instructions(function))
        if (auto *call = dyn_cast<CallInst>(&instruction); call && (calledBy(*call) || call->isInlineAsm()))
          calls.push_back(call);
    for (CallInst *call : calls)
      if (!call->isInlineAsm())
        replace(*call);
      else if (!replaceAssembly(*this, *call))
        return createStringError("the assembly '" + cast<InlineAsm>(call->getCalledOperand())->getAsmString() +
                                 "' is not emulated");
    replaceBf16();
    checkAccesses();
    replaceShared();
    for (Function &function : make_early_inc_range(module))
      if (function.isDeclaration() && function.use_empty())
        function.eraseFromParent();
    for (Function &function : module)
      if (function.getName().starts_with("llvm.nvvm.") || function.getName().starts_with("llvm.amdgcn."))
        return createStringError("'" + function.getName() + "' is not emulated");
    makeTables();
    return Error::success();
  }

private:
  /// Notes the address space of each access, which flat pointers do not have.
  void markAccesses() {
    for (Function &function : module)
      for (Instruction &instruction : instructions(function))
        // A thread's own memory is on its stack, and is not checked.
        if (const Value *pointer = getLoadStorePointerOperand(&instruction);
            pointer && !isa<AllocaInst>(getUnderlyingObject(pointer))) {
          auto *space = ConstantAsMetadata::get(builder.getInt32(pointer->getType()->getPointerAddressSpace()));
          instruction.setMetadata(accessMark, MDNode::get(context, {space}));
        }
  }

  /// Has the emulator look at each access before it is made.
  void checkAccesses() {
    SmallVector<Instruction *> accesses;
    for (Function &function : module)
      for (Instruction &instruction : instructions(function))
        if (instruction.getMetadata(accessMark))
          accesses.push_back(&instruction);
    for (Instruction *access : accesses) {
      auto *space = mdconst::extract<ConstantInt>(access->getMetadata(accessMark)->getOperand(0));
      access->setMetadata(accessMark, nullptr);
      builder.SetInsertPoint(access);
      Value *bytes = builder.getInt64(module.getDataLayout().getTypeStoreSize(getLoadStoreType(access)));
      callImport(isa<LoadInst>(access) ? "load_check" : "store_check", builder.getVoidTy(),
                 {getLoadStorePointerOperand(access), bytes, space});
    }
  }

  /// Has bf16 as integers of 16 bits: most processors of hosts have no instructions for it, and their code generators
  /// call functions even for moving vectors of it.
  void replaceBf16() {
    auto isBf16 = [](Type *type) { return type->getScalarType()->isBFloatTy(); };
    for (Function &function : module)
      for (Instruction &instruction : make_early_inc_range(instructions(function))) {
        builder.SetInsertPoint(&instruction);
        if (auto *load = dyn_cast<LoadInst>(&instruction); load && isBf16(load->getType())) {
          LoadInst *bits = builder.CreateAlignedLoad(load->getType()->getWithNewType(builder.getInt16Ty()),
                                                     load->getPointerOperand(), load->getAlign(), load->isVolatile());
          bits->copyMetadata(*load);
          load->replaceAllUsesWith(builder.CreateBitCast(bits, load->getType()));
          load->eraseFromParent();
        } else if (auto *store = dyn_cast<StoreInst>(&instruction);
                   store && isBf16(store->getValueOperand()->getType())) {
          Type *type = store->getValueOperand()->getType()->getWithNewType(builder.getInt16Ty());
          store->setOperand(0, builder.CreateBitCast(store->getValueOperand(), type));
        } else if (auto *truncation = dyn_cast<FPTruncInst>(&instruction);
                   truncation && isBf16(truncation->getType())) {
          truncation->replaceAllUsesWith(roundToBf16(truncation->getOperand(0), truncation->getType()));
          truncation->eraseFromParent();
        } else if (auto *extension = dyn_cast<FPExtInst>(&instruction);
                   extension && isBf16(extension->getOperand(0)->getType())) {
          Value *narrow = extension->getOperand(0);
          auto like = [&](Type *element) { return narrow->getType()->getWithNewType(element); };
          Value *bits =
              builder.CreateZExt(builder.CreateBitCast(narrow, like(builder.getInt16Ty())), like(builder.getInt32Ty()));
          Value *wide = builder.CreateBitCast(builder.CreateShl(bits, ConstantInt::get(bits->getType(), 16)),
                                              like(builder.getFloatTy()));
          extension->replaceAllUsesWith(builder.CreateFPExt(wide, extension->getType()));
          extension->eraseFromParent();
        } else if (auto *insertion = dyn_cast<InsertElementInst>(&instruction);
                   insertion && isBf16(insertion->getType())) {
          Type *type = insertion->getType()->getWithNewType(builder.getInt16Ty());
          Value *element = builder.CreateBitCast(insertion->getOperand(1), builder.getInt16Ty());
          Value *bits = builder.CreateInsertElement(builder.CreateBitCast(insertion->getOperand(0), type), element,
                                                    insertion->getOperand(2));
          insertion->replaceAllUsesWith(builder.CreateBitCast(bits, insertion->getType()));
          insertion->eraseFromParent();
        }
      }
  }

  /// Returns a value rounded to bf16 by integer arithmetic, as a type with this element.
  Value *roundToBf16(Value *value, Type *type) {
    auto like = [&](Type *element) { return type->getWithNewType(element); };
    value = builder.CreateFPTrunc(value, like(builder.getFloatTy()));
    Value *bits = builder.CreateBitCast(value, like(builder.getInt32Ty()));
    auto number = [&](uint32_t each) { return ConstantInt::get(bits->getType(), each); };
    // Ties to even: half of the last kept bit less one, and one more if that bit is odd. A NaN stays one.
    Value *high = builder.CreateLShr(bits, number(16));
    Value *odd = builder.CreateAnd(high, number(1));
    Value *rounded = builder.CreateLShr(builder.CreateAdd(builder.CreateAdd(bits, number(0x7fff)), odd), number(16));
    Value *kept =
        builder.CreateSelect(builder.CreateFCmpUNO(value, value), builder.CreateOr(high, number(0x40)), rounded);
    return builder.CreateBitCast(builder.CreateTrunc(kept, like(builder.getInt16Ty())), type);
  }

  /// Clones all functions and variables with pointers of one address space.
  void flatten() {
    ValueToValueMapTy values;
    FlatPointers types;
    SmallVector<GlobalVariable *> globals(make_pointer_range(module.globals()));
    SmallVector<Function *> functions(make_pointer_range(module));
    for (GlobalVariable *global : globals) {
      auto *flat = new GlobalVariable(
          module, types.remapType(global->getValueType()), global->isConstant(), global->getLinkage(),
          global->hasInitializer() ? global->getInitializer() : nullptr, global->getName() + ".flat",
          /*InsertBefore=*/nullptr, GlobalValue::NotThreadLocal, /*AddressSpace=*/0);
      values[global] = flat;
    }
    SmallVector<std::pair<Function *, Function *>> cloned;
    for (Function *function : functions) {
      if (function->isDeclaration())
        continue;
      auto *flat = Function::Create(cast<FunctionType>(types.remapType(function->getFunctionType())),
                                    GlobalValue::ExternalLinkage, "", module);
      for (auto [from, to] : zip_equal(function->args(), flat->args()))
        values[&from] = &to;
      values[function] = flat;
      cloned.emplace_back(function, flat);
    }
    for (auto [function, flat] : cloned) {
      SmallVector<ReturnInst *> returns;
      CloneFunctionInto(flat, function, values, CloneFunctionChangeType::LocalChangesOnly, returns, "", nullptr,
                        &types);
      for (Instruction &instruction : make_early_inc_range(instructions(*flat)))
        if (isa<AddrSpaceCastInst>(instruction)) {
          instruction.replaceAllUsesWith(instruction.getOperand(0));
          instruction.eraseFromParent();
        }
      flat->setAttributes({});
      flat->setCallingConv(CallingConv::C);
      flat->setVisibility(GlobalValue::ProtectedVisibility);
      flat->setDSOLocal(true);
      flat->setDoesNotThrow();
    }
    for (auto [function, flat] : cloned) {
      function->replaceAllUsesWith(PoisonValue::get(function->getType()));
      flat->takeName(function);
      function->eraseFromParent();
    }
    for (GlobalVariable *global : globals) {
      auto *flat = cast<GlobalVariable>(values[global]);
      flat->takeName(global);
      global->eraseFromParent();
    }
    for (NamedMDNode &metadata : make_early_inc_range(module.named_metadata()))
      if (metadata.getName() != "llvm.module.flags" && metadata.getName() != "llvm.dbg.cu")
        module.eraseNamedMetadata(&metadata);
  }

  /// Returns the function that is called, also if its type still has pointers of address spaces.
  static Function *calledBy(CallInst &call) { return dyn_cast<Function>(call.getCalledOperand()); }

  void replace(CallInst &call) {
    Intrinsic::ID intrinsic = calledBy(call)->getIntrinsicID();
    builder.SetInsertPoint(&call);
    Value *result = nullptr;
    if (const Emulated *found = find_if(emulated, [&](const Emulated &each) { return each.intrinsic == intrinsic; });
        found != std::end(emulated)) {
      SmallVector<Value *> arguments;
      if (found->dimension >= 0)
        arguments.push_back(builder.getInt32(found->dimension));
      if (found->name == "warp_barrier")
        arguments.push_back(builder.getInt64(-1));
      result = callImport(found->name, call.getType(), arguments);
    } else {
      result = replaceExchange(call, intrinsic);
      if (!result)
        result = replaceMatrix(call);
      if (!result)
        result = replaceAsyncCopy(call);
    }
    if (!result)
      return;
    if (!call.getType()->isVoidTy())
      call.replaceAllUsesWith(result);
    call.eraseFromParent();
  }

  /// Fused multiply-adds, and lanes that read values of each other.
  Value *replaceExchange(CallInst &call, Intrinsic::ID intrinsic) {
    switch (intrinsic) {
    case Intrinsic::nvvm_f2tf32_rna:
      return roundToTf32(call.getArgOperand(0));
    case Intrinsic::nvvm_ex2_approx_ftz:
    case Intrinsic::amdgcn_exp2:
      return callImport("exp2f", call.getType(), {call.getArgOperand(0)});
    case Intrinsic::fma:
      return multiplyAndAdd(call);
    case Intrinsic::nvvm_shfl_sync_bfly_i32:
    case Intrinsic::nvvm_shfl_sync_bfly_f32:
      return exchange("shuffle_xor", call.getArgOperand(1), call.getArgOperand(2));
    case Intrinsic::nvvm_shfl_sync_idx_i32:
    case Intrinsic::nvvm_shfl_sync_idx_f32:
      return exchange("shuffle_idx", call.getArgOperand(1), call.getArgOperand(2));
    case Intrinsic::nvvm_shfl_sync_bfly_f32p:
    case Intrinsic::nvvm_shfl_sync_bfly_i32p: {
      // The second result says whether the lane that is read takes part, which it does.
      Value *value = exchange("shuffle_xor", call.getArgOperand(1), call.getArgOperand(2));
      Value *both = builder.CreateInsertValue(PoisonValue::get(call.getType()), value, 0);
      return builder.CreateInsertValue(both, builder.getTrue(), 1);
    }
    case Intrinsic::amdgcn_sched_barrier:
      // It keeps a compiler from moving instructions, which nothing moves here.
      return builder.getTrue();
    case Intrinsic::amdgcn_permlane16_swap:
      return swapRows(call, 16);
    case Intrinsic::amdgcn_permlane32_swap:
      return swapRows(call, 32);
    case Intrinsic::amdgcn_perm: {
      // Bytes 0 to 3 are those of the second operand, the next those of the first (CDNA 3 ISA, "V_PERM_B32").
      auto *bytes = FixedVectorType::get(builder.getInt8Ty(), 4);
      auto asBytes = [&](unsigned operand) { return builder.CreateBitCast(call.getArgOperand(operand), bytes); };
      uint64_t selector = cast<ConstantInt>(call.getArgOperand(2))->getZExtValue();
      SmallVector<int> indices;
      for (int byte = 0; byte != 4; ++byte)
        indices.push_back(int(selector >> 8 * byte & 7));
      return builder.CreateBitCast(builder.CreateShuffleVector(asBytes(1), asBytes(0), indices), builder.getInt32Ty());
    }
    case Intrinsic::amdgcn_ds_bpermute:
      // Addresses count bytes: four for each lane.
      return exchange("shuffle_idx", call.getArgOperand(1), builder.CreateLShr(call.getArgOperand(0), 2));
    case Intrinsic::amdgcn_ds_swizzle: {
      // In halves of a wave: bits that are kept, set and flipped of the lane's number (CDNA 3 ISA, 11.3).
      uint64_t pattern = cast<ConstantInt>(call.getArgOperand(1))->getZExtValue();
      Value *lane = callImport("lane_id", builder.getInt32Ty(), {});
      Value *inHalf = builder.CreateAnd(lane, pattern & 31);
      inHalf = builder.CreateXor(builder.CreateOr(inHalf, pattern >> 5 & 31), pattern >> 10 & 31);
      return exchange("shuffle_idx", call.getArgOperand(0), builder.CreateOr(builder.CreateAnd(lane, ~31u), inHalf));
    }
    case Intrinsic::amdgcn_mbcnt_lo:
    case Intrinsic::amdgcn_mbcnt_hi: {
      // Lanes below this one in the low, or the high, half of the mask, of which all callers ask for every lane.
      Value *lane = callImport("lane_id", builder.getInt32Ty(), {});
      Value *half = builder.getInt32(32);
      Value *isLow = builder.CreateICmpULT(lane, half);
      Value *count = intrinsic == Intrinsic::amdgcn_mbcnt_lo
                         ? builder.CreateSelect(isLow, lane, half)
                         : builder.CreateSelect(isLow, builder.getInt32(0), builder.CreateSub(lane, half));
      return builder.CreateAdd(count, call.getArgOperand(1));
    }
    default:
      return nullptr;
    }
  }

  /// Rounds f32 to the 10 bits of a TF32 mantissa, ties away from zero.
  Value *roundToTf32(Value *value) {
    Value *bits = builder.CreateBitCast(value, builder.getInt32Ty());
    Value *rounded = builder.CreateAnd(builder.CreateAdd(bits, builder.getInt32(0x1000)), builder.getInt32(0xffffe000));
    return builder.CreateSelect(builder.CreateFCmpUNO(value, value), bits, rounded);
  }

  /// Swaps rows of lanes: the odd ones of the first operand with the even ones of the second (CDNA 4 ISA, VOP1,
  /// V_PERMLANE16_SWAP_B32 and V_PERMLANE32_SWAP_B32).
  Value *swapRows(CallInst &call, uint32_t lanes) {
    Value *first = call.getArgOperand(0), *second = call.getArgOperand(1);
    Value *lane = callImport("lane_id", builder.getInt32Ty(), {});
    Value *isOdd = builder.CreateIsNotNull(builder.CreateAnd(lane, lanes));
    Value *other = builder.CreateXor(lane, lanes);
    Value *ofSecond = exchange("shuffle_idx", second, other), *ofFirst = exchange("shuffle_idx", first, other);
    Value *both = PoisonValue::get(call.getType());
    both = builder.CreateInsertValue(both, builder.CreateSelect(isOdd, ofSecond, first), 0);
    return builder.CreateInsertValue(both, builder.CreateSelect(isOdd, second, ofFirst), 1);
  }

  /// Calls the C library for each element.
  Value *multiplyAndAdd(CallInst &call) {
    auto one = [&](ArrayRef<Value *> operands) {
      return callImport(operands[0]->getType()->isFloatTy() ? "fmaf" : "fma", operands[0]->getType(), operands);
    };
    auto *vector = dyn_cast<FixedVectorType>(call.getType());
    if (!vector)
      return one(SmallVector<Value *>(call.args()));
    Value *result = PoisonValue::get(vector);
    for (unsigned i = 0; i != vector->getNumElements(); ++i) {
      SmallVector<Value *> operands;
      for (Value *argument : call.args())
        operands.push_back(builder.CreateExtractElement(argument, i));
      result = builder.CreateInsertElement(result, one(operands), i);
    }
    return result;
  }

  /// Takes the scales of elements from the end of an instruction's arguments. Returns words of scales of A and of B,
  /// each with its selector; nothing if there are none.
  SmallVector<Value *> takeScales(const MatrixInstruction &instruction, SmallVectorImpl<Value *> &arguments) {
    if (!multipliesE2M1(instruction))
      return {};
    // NVIDIA's have a word, a byte-id and a thread-id of each; AMD's formats of both, then a byte and a word of each.
    bool isMma = instruction.family == MatrixFamily::Mma;
    constexpr size_t count = 6;
    SmallVector<Value *> last(ArrayRef<Value *>(arguments).take_back(count));
    auto wide = [&](Value *value) { return builder.CreateZExt(value, builder.getInt32Ty()); };
    SmallVector<Value *> scales;
    for (size_t factor = 0; factor != 2; ++factor) {
      ArrayRef<Value *> its = ArrayRef<Value *>(last).slice(isMma ? 3 * factor : 2 + 2 * factor);
      if (isMma)
        scales.append({its[0], builder.CreateOr(wide(its[1]), builder.CreateShl(wide(its[2]), 8))});
      else
        scales.append({its[1], its[0]});
    }
    arguments.pop_back_n(count);
    return scales;
  }

  /// Matrix instructions, and loads of their fragments.
  Value *replaceMatrix(CallInst &call) {
    StringRef name = calledBy(call)->getName();
    SmallVector<Value *> arguments(call.args());
    if (const MatrixInstruction *instruction = findMatrixInstruction(architecture, name)) {
      // NVIDIA's have registers of A, half as many of B, four of C; AMD's a vector each. RDNA's of integers say before
      // a factor whether it has signs.
      bool isMma = instruction->family == MatrixFamily::Mma;
      SmallVector<Value *> scales = takeScales(*instruction, arguments);
      if (arguments.front()->getType()->isIntegerTy(1))
        arguments = {arguments[1], arguments[3], arguments[4]};
      ArrayRef<Value *> all = arguments;
      size_t ofB = isMma ? (all.size() - 4) / 3 : 1, ofA = isMma ? 2 * ofB : 1;
      AllocaInst *a = spill(all.slice(0, ofA));
      AllocaInst *b = spill(all.slice(ofA, ofB));
      AllocaInst *c = spill(all.slice(ofA + ofB, isMma ? 4 : 1));
      AllocaInst *result = memoryFor(call.getType());
      SmallVector<Value *> operands = {builder.getInt32(instruction->emulated), result, a, b, c};
      operands.append(scales);
      callImport(scales.empty() ? "mma" : "mma_scaled", builder.getVoidTy(), operands);
      return builder.CreateLoad(call.getType(), result);
    }
    if (!name.consume_front("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x"))
      return nullptr;
    unsigned count = 0;
    if (name.consumeInteger(10, count) || (!name.starts_with(".b16") && !name.starts_with(".trans.b16")))
      return nullptr;
    AllocaInst *result = memoryFor(call.getType());
    callImport("ldmatrix", builder.getVoidTy(),
               {result, arguments[0], builder.getInt32(count), builder.getInt32(name.starts_with(".trans"))});
    return builder.CreateLoad(call.getType(), result);
  }

  /// Copies to shared memory that threads do not wait for.
  Value *replaceAsyncCopy(CallInst &call) {
    StringRef name = calledBy(call)->getName();
    Type *none = builder.getVoidTy();
    // Threads run in order here: fences of registers change nothing.
    if (name.starts_with("llvm.nvvm.wgmma.fence"))
      return builder.getTrue();
    if (name.starts_with("llvm.nvvm.wgmma.commit_group"))
      return callImport("wgmma_commit", none, {});
    if (name.starts_with("llvm.nvvm.wgmma.wait_group"))
      return callImport("wgmma_wait", none, {call.getArgOperand(0)});
    if (!name.consume_front("llvm.nvvm.cp.async."))
      return nullptr;
    if (name == "commit.group")
      return callImport("async_commit", none, {});
    if (name == "wait.group")
      return callImport("async_wait", none, {call.getArgOperand(0)});
    if (name == "wait.all") {
      callImport("async_commit", none, {});
      return callImport("async_wait", none, {builder.getInt32(0)});
    }
    unsigned bytes = 0;
    if ((!name.consume_front("ca.shared.global.") && !name.consume_front("cg.shared.global.")) ||
        name.consumeInteger(10, bytes) || (!name.empty() && name != ".s"))
      return nullptr;
    Value *ofSource = name.empty() ? builder.getInt32(bytes) : call.getArgOperand(2);
    return callImport("async_copy", none,
                      {call.getArgOperand(0), call.getArgOperand(1), builder.getInt32(bytes), ofSource});
  }

  Value *exchange(StringRef name, Value *value, Value *lane) {
    Type *type = value->getType();
    Value *bits = type->isIntegerTy(32) ? value : builder.CreateBitCast(value, builder.getInt32Ty());
    Value *width = callImport("warp_size", builder.getInt32Ty(), {});
    Value *result = callImport(name, builder.getInt32Ty(), {bits, lane, width});
    return type->isIntegerTy(32) ? result : builder.CreateBitCast(result, type);
  }

  /// The block's shared memory is where the emulator says.
  void replaceShared() {
    GlobalVariable *shared = module.getNamedGlobal("itx_shared");
    if (!shared)
      return;
    for (Function &function : module) {
      if (function.isDeclaration())
        continue;
      builder.SetInsertPoint(&*function.getEntryBlock().getFirstInsertionPt());
      CallInst *base = callImport("shared", builder.getPtrTy(), {});
      convertUsersOfConstantsToInstructions({shared}, &function);
      bool isUsed = false;
      shared->replaceUsesWithIf(base, [&](Use &use) {
        auto *user = dyn_cast<Instruction>(use.getUser());
        bool here = user && user->getFunction() == &function;
        isUsed |= here;
        return here;
      });
      if (!isUsed)
        base->eraseFromParent();
    }
    shared->removeDeadConstantUsers();
    if (shared->use_empty())
      shared->eraseFromParent();
  }

  void makeTables() {
    SmallVector<Constant *> names;
    SmallVector<Function *> callees;
    for (auto &[name, unused] : imports) {
      names.push_back(builder.CreateGlobalString(name, "name", /*AddressSpace=*/0, &module));
      callees.push_back(module.getFunction(name));
    }
    Constant *null = ConstantPointerNull::get(builder.getPtrTy());
    SmallVector<Constant *> empty(names.size(), null);
    names.push_back(null);
    auto makeTable = [&](StringRef name, ArrayRef<Constant *> entries, bool isConstant) {
      auto *type = ArrayType::get(builder.getPtrTy(), entries.size());
      auto *table =
          new GlobalVariable(module, type, isConstant, GlobalValue::ExternalLinkage, ConstantArray::get(type, entries),
                             name, /*InsertBefore=*/nullptr, GlobalValue::NotThreadLocal, /*AddressSpace=*/0);
      table->setVisibility(GlobalValue::ProtectedVisibility);
      table->setDSOLocal(true);
      return table;
    };
    makeTable("itx_emulated_imports", names, /*isConstant=*/true);
    GlobalVariable *functions = makeTable("itx_emulated_functions", empty, /*isConstant=*/false);
    for (auto [index, callee] : enumerate(callees)) {
      for (User *user : make_early_inc_range(callee->users())) {
        auto *call = cast<CallInst>(user);
        builder.SetInsertPoint(call);
        Value *slot = builder.CreateConstInBoundsGEP2_64(functions->getValueType(), functions, 0, index);
        LoadInst *address = builder.CreateLoad(builder.getPtrTy(), slot);
        // The table is filled before a kernel runs.
        address->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(context, {}));
        call->setCalledOperand(address);
      }
      callee->eraseFromParent();
    }
  }

  const Architecture &architecture;
};

} // namespace

Error emulate(Module &module, const Architecture &architecture) { return Emulation(module, architecture).run(); }

} // namespace intarsia::gpu
