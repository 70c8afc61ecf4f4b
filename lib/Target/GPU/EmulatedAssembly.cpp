//===- EmulatedAssembly.cpp - Assembly of GPUs that the host runs ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/emulated_abi.h"
#include "lib/Target/GPU/EmulationBuilder.h"
#include "llvm/IR/InlineAsm.h"

using namespace llvm;

namespace intarsia::gpu {

/// Beginnings of assembly, and the emulator's function for each, which takes the same operands.
static constexpr std::pair<StringLiteral, StringLiteral> emulatedAssembly[] = {
    {"fence.proxy.async.shared::cta;", "proxy_fence"},
    {"mbarrier.init.shared::cta.b64 [$0], $1;", "mbarrier_init"},
    {"mbarrier.arrive.shared::cta.b64 _, [$0];", "mbarrier_arrive"},
    {"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "mbarrier_arrive_expect"},
    {"{.reg .pred p; wait: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;", "mbarrier_wait"},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3}], [$4];",
     "tensor_copy"},
    {"{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 $0, 1, 0, p;}", "elect"},
    {"setmaxnreg.dec.sync.aligned.u32 $0;", "set_registers"},
    {"setmaxnreg.inc.sync.aligned.u32 $0;", "set_registers"},
};

/// Returns the operands of assembly that have the registers of its results; nothing if a result has none.
static SmallVector<Value *> tiedOperands(CallInst &call) {
  InlineAsm::ConstraintInfoVector constraints = cast<InlineAsm>(call.getCalledOperand())->ParseConstraints();
  size_t results = count_if(constraints, [](auto &each) { return each.Type == InlineAsm::isOutput; });
  SmallVector<Value *> tied;
  for (size_t result = 0; result != results; ++result) {
    int input = constraints[result].MatchingInput;
    if (input < 0)
      return {};
    tied.push_back(call.getArgOperand(unsigned(input) - results));
  }
  return tied;
}

/// Replaces one `wgmma.mma_async`, whose rows are in shared memory or in registers. Its predicate is set by its
/// assembly.
static bool replaceWarpgroupMultiply(EmulationBuilder &emulation, CallInst &call, StringRef text) {
  IRBuilder<> &builder = emulation.builder;
  bool adds = text.consume_front("{.reg .pred p; setp.eq.u32 p, 0, 0; ");
  unsigned columns = 0;
  if ((!adds && !text.consume_front("{.reg .pred p; setp.ne.u32 p, 0, 0; ")) ||
      !text.consume_front("wgmma.mma_async.sync.aligned.m64n") || text.consumeInteger(10, columns))
    return false;
  static constexpr StringLiteral elements[] = {"k16.f32.f16.f16 {", "k16.f32.bf16.bf16 {", "k32.f32.e4m3.e4m3 {"};
  static_assert(ITX_EMULATED_WGMMA_BF16 == 1 && ITX_EMULATED_WGMMA_E4M3 == 2);
  const StringLiteral *element = find_if(elements, [&](StringLiteral each) { return text.consume_front(each); });
  if (element == std::end(elements))
    return false;
  bool is8Bit = element - elements == ITX_EMULATED_WGMMA_E4M3;
  size_t results = columns / 2;
  SmallVector<Value *> sums = tiedOperands(call), factors;
  if (!adds)
    sums.assign(results, ConstantFP::get(builder.getFloatTy(), 0.0));
  // Operands are numbered, the results first.
  StringRef rest = text;
  for (size_t at = 0; (at = rest.find('$')) != StringRef::npos;) {
    unsigned number = 0;
    rest = rest.drop_front(at + 1);
    if (rest.consumeInteger(10, number) || number >= results + call.arg_size())
      return false;
    if (number >= results)
      factors.push_back(call.getArgOperand(number - results));
  }
  if (sums.size() != results)
    return false;
  AllocaInst *memory = emulation.spill(sums);
  Value *columnCount = builder.getInt32(columns), *kind = builder.getInt32(int32_t(element - elements));
  bool isTransposed = rest == ", p, 1, 1, 1;}";
  // Factors of 8 bits always have rows along the depth.
  if (factors.size() == 2 && rest == (is8Bit ? ", p, 1, 1;}" : ", p, 1, 1, 0, 0;}"))
    emulation.callImport("wgmma", builder.getVoidTy(), {memory, factors[0], factors[1], columnCount, kind});
  else if (factors.size() == 5 && !is8Bit && (isTransposed || rest == ", p, 1, 1, 0;}"))
    emulation.callImport("wgmma_registers", builder.getVoidTy(),
                         {memory, emulation.spill(ArrayRef(factors).take_front(4)), factors[4], columnCount, kind,
                          builder.getInt32(isTransposed)});
  else
    return false;
  call.replaceAllUsesWith(builder.CreateLoad(call.getType(), memory));
  return true;
}

bool replaceAssembly(EmulationBuilder &emulation, CallInst &call) {
  IRBuilder<> &builder = emulation.builder;
  StringRef text = cast<InlineAsm>(call.getCalledOperand())->getAsmString();
  builder.SetInsertPoint(&call);
  if (auto *found = find_if(emulatedAssembly, [&](const auto &each) { return text.starts_with(each.first); });
      found != std::end(emulatedAssembly)) {
    CallInst *result = emulation.callImport(found->second, call.getType(), SmallVector<Value *>(call.args()));
    call.replaceAllUsesWith(result);
  } else if (text.empty() || text.starts_with("wgmma.fence") || text.starts_with("wgmma.commit_group") ||
             text.starts_with("wgmma.wait_group")) {
    if (text.starts_with("wgmma.commit_group"))
      emulation.callImport("wgmma_commit", builder.getVoidTy(), {});
    if (unsigned groups = 0; text.consume_front("wgmma.wait_group.sync.aligned ")) {
      if (text.consumeInteger(10, groups))
        return false;
      emulation.callImport("wgmma_wait", builder.getVoidTy(), {builder.getInt64(groups)});
    }
    // Assembly that waits for sums, or keeps values behind a wait, has them as operands.
    if (SmallVector<Value *> tied = tiedOperands(call); !tied.empty())
      call.replaceAllUsesWith(builder.CreateLoad(call.getType(), emulation.spill(tied)));
  } else if (!replaceWarpgroupMultiply(emulation, call, text)) {
    return false;
  }
  call.eraseFromParent();
  return true;
}

} // namespace intarsia::gpu
