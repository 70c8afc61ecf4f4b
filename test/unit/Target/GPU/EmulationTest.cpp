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
