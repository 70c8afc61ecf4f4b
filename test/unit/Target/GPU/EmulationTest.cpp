//===- EmulationTest.cpp - What code of GPUs the host can run ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Codegen.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"
#include <gtest/gtest.h>

using namespace intarsia;

namespace {

/// Emulates a function with a body; returns the error, and what is left of the module in `text`.
std::string emulated(const std::string &declarations, const std::string &body, std::string &text) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  std::string source = declarations + "\ndefine void @f(ptr addrspace(1) %to, i32 %x) {\n" + body + "\n  ret void\n}\n";
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(source, problem, context);
  if (!module) {
    ADD_FAILURE() << problem.getMessage().str() << "\n" << source;
    return "";
  }
  std::string error = toString(gpu::emulate(*module, *gpu::findArchitecture(gpu::Vendor::Nvidia, "sm_80")));
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  if (error.empty())
    EXPECT_FALSE(llvm::verifyModule(*module, &stream)) << text;
  return error;
}

} // namespace

TEST(Emulation, RefusesAnUnknownIntrinsicByItsName) {
  std::string text;
  EXPECT_EQ(emulated("declare i32 @llvm.nvvm.read.ptx.sreg.clock()",
                     "  %1 = call i32 @llvm.nvvm.read.ptx.sreg.clock()\n  store i32 %1, ptr addrspace(1) %to", text),
            "'llvm.nvvm.read.ptx.sreg.clock' is not emulated");
  EXPECT_EQ(emulated("declare i64 @llvm.amdgcn.s.memtime()",
                     "  %1 = call i64 @llvm.amdgcn.s.memtime()\n  store i64 %1, ptr addrspace(1) %to", text),
            "'llvm.amdgcn.s.memtime' is not emulated");
}

TEST(Emulation, CallsTheEmulatorForAssembly) {
  std::string text;
  EXPECT_EQ(emulated("@itx_shared = external addrspace(3) global [0 x i8]",
                     R"(  call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], $1;", "l,n,~{memory}")"
                     R"((ptr addrspace(3) @itx_shared, i32 3)
  %1 = call i32 asm sideeffect "{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 $0, 1, 0, p;}", "=r,~{memory}"()
  store i32 %1, ptr addrspace(1) %to)",
                     text),
            "");
  EXPECT_EQ(text.find("asm"), std::string::npos) << text;
  EXPECT_NE(text.find("c\"itx_emulated_mbarrier_init\\00\""), std::string::npos) << text;
  EXPECT_NE(text.find("c\"itx_emulated_elect\\00\""), std::string::npos) << text;
  EXPECT_EQ(emulated("", R"(  call void asm sideeffect "mbarrier.inval.shared::cta.b64 [$0];", "l"(i64 0))", text),
            "the assembly 'mbarrier.inval.shared::cta.b64 [$0];' is not emulated");
}

TEST(Emulation, IgnoresWhatIsNotUsed) {
  std::string text;
  EXPECT_EQ(emulated("declare i32 @llvm.nvvm.read.ptx.sreg.clock()", "", text), "");
  EXPECT_EQ(text.find("clock"), std::string::npos) << text;
}

TEST(Emulation, CallsTheEmulatorForWhatItKnows) {
  std::string text;
  EXPECT_EQ(emulated("declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
                     "  %1 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  store i32 %1, ptr addrspace(1) %to", text),
            "");
  EXPECT_EQ(text.find("llvm.nvvm"), std::string::npos) << text;
  EXPECT_NE(text.find("thread_id"), std::string::npos) << text;
  EXPECT_NE(text.find("store_check"), std::string::npos) << text;
  EXPECT_EQ(text.find("addrspace(1)"), std::string::npos) << text;
}

namespace {
/// A product of 8 columns by four warps, as clang writes it, and the wait for it.
std::string productOfWarpgroup(const std::string &predicate, const std::string &end) {
  std::string type = "{float, float, float, float}";
  return "  %r = call " + type + " asm sideeffect \"{.reg .pred p; setp." + predicate +
         ".u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, {$4, $5, $6, $7}, $8, " +
         end +
         "\", \"=f,=f,=f,=f,r,r,r,r,l,0,1,2,3,~{memory}\"(i32 %x, i32 %x, i32 %x, i32 %x, i64 7, float 1.0, "
         "float 2.0, float 3.0, float 4.0)\n  %first = extractvalue " +
         type + " %r, 0\n  store float %first, ptr addrspace(1) %to";
}
} // namespace

TEST(Emulation, MultipliesRegistersOfFourWarps) {
  std::string text;
  EXPECT_EQ(emulated("", productOfWarpgroup("eq", "p, 1, 1, 1;}"), text), "");
  EXPECT_NE(text.find("itx_emulated_wgmma_registers"), std::string::npos) << text;
  EXPECT_NE(text.find("store float 4.0"), std::string::npos) << "sums so far are added: " << text;
  text.clear();
  EXPECT_EQ(emulated("", productOfWarpgroup("ne", "p, 1, 1, 0;}"), text), "");
  EXPECT_EQ(text.find("store float 4.0"), std::string::npos) << "sums so far are dropped: " << text;
  text.clear();
  EXPECT_EQ(emulated("", "  call void asm sideeffect \"wgmma.wait_group.sync.aligned 1;\", \"~{memory}\"()", text), "");
  EXPECT_NE(text.find("itx_emulated_wgmma_wait"), std::string::npos) << text;
}

TEST(Emulation, RefusesAnUnknownProductOfFourWarps) {
  // A negated factor, and a condition that is not known.
  for (auto [predicate, end] : {std::pair("eq", "p, -1, 1, 1;}"), std::pair("lt", "p, 1, 1, 1;}")}) {
    std::string text, error = emulated("", productOfWarpgroup(predicate, end), text);
    EXPECT_NE(error.find("is not emulated"), std::string::npos) << error;
  }
}
