//===- PtxasTest.cpp - The vendor's assembler, and what it reports -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Ptxas.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace intarsia;
using namespace intarsia::gpu;

namespace {

/// What version 13.0 prints, with a function that is called, a function that spills, and one with shared memory.
constexpr char report[] = R"(ptxas info    : 24 bytes gmem
ptxas info    : Compiling entry function 'spills' for 'sm_80'
ptxas info    : Function properties for spills
    96 bytes stack frame, 28 bytes spill stores, 32 bytes spill loads
ptxas info    : Function properties for called
    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 96 bytes cumulative stack size, 408 bytes cmem[0]
ptxas info    : Compile time = 3.441 ms
ptxas info    : Compiling entry function 'shares' for 'sm_80'
ptxas info    : Function properties for shares
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8704 bytes smem, 380 bytes cmem[0]
ptxas info    : Compile time = 1.017 ms
)";

/// A kernel that stores the number of its thread.
constexpr char storesThread[] = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry stores(.param .u64 to) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<5>;
  .shared .align 16 .b8 tile[1024];
  ld.param.u64 %rd1, [to];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.shared.u32 [tile], %r1;
  st.global.u32 [%rd4], %r1;
  ret;
}
)";

/// Makes PATH a folder in which ptxas is a script; without a script it is empty.
class OnlyPtxas {
public:
  explicit OnlyPtxas(const std::string &script) {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("intarsia-ptxas", folder));
    if (!script.empty()) {
      std::filesystem::path file = std::filesystem::path(folder.str().str()) / "ptxas";
      std::ofstream(file) << "#!/bin/sh\n" << script;
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
    setenv("PATH", folder.c_str(), 1);
  }
  ~OnlyPtxas() {
    setenv("PATH", before.c_str(), 1);
    llvm::sys::fs::remove_directories(folder);
  }

private:
  llvm::SmallString<128> folder;
  std::string before = getenv("PATH");
};

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

std::string errorOf(llvm::Expected<std::vector<char>> result) {
  return result ? "" : llvm::toString(result.takeError());
}

} // namespace

TEST(Ptxas, ReadsItsReport) {
  std::vector<GpuFunction> functions;
  readPtxasReport(report, functions);
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].name, "spills");
  EXPECT_EQ(functions[0].registers, 255u);
  EXPECT_EQ(functions[0].spilledBytes, 28u + 32u + 4u + 4u) << "those of the function that it calls, too";
  EXPECT_EQ(functions[0].localBytes, 96u + 16u);
  EXPECT_EQ(functions[0].sharedBytes, 0u);
  EXPECT_EQ(functions[1].name, "shares");
  EXPECT_EQ(functions[1].registers, 40u);
  EXPECT_EQ(functions[1].spilledBytes, 0u);
  EXPECT_EQ(functions[1].localBytes, 0u);
  EXPECT_EQ(functions[1].sharedBytes, 8704u);
  EXPECT_EQ(functions[1].scalarRegisters, std::nullopt) << "NVIDIA's GPUs do not count them";
}

TEST(Ptxas, KnowsNothingOfAnotherReport) {
  std::vector<GpuFunction> functions;
  readPtxasReport("ptxas info    : Used 40 registers\n\n0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
                  functions);
  EXPECT_TRUE(functions.empty());
  readPtxasReport("ptxas info    : Compiling entry function 'one' for 'sm_80'\nsomething else\n", functions);
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].registers, std::nullopt);
  EXPECT_EQ(functions[0].spilledBytes, std::nullopt);
  EXPECT_EQ(functions[0].sharedBytes, std::nullopt);
}

TEST(Ptxas, IsNotNeeded) {
  OnlyPtxas none("");
  std::vector<GpuFunction> functions;
  auto code = assemblePtx(storesThread, "sm_80", functions);
  ASSERT_TRUE(bool(code)) << llvm::toString(code.takeError());
  EXPECT_TRUE(code->empty());
  EXPECT_TRUE(functions.empty());
}

TEST(Ptxas, GetsTheCodeAndTheArchitecture) {
  // The cubin is what the script was called with, and the PTX.
  OnlyPtxas program("while [ $# -gt 1 ]; do [ $1 = -o ] && out=$2; seen=\"$seen $1\"; shift; done\n"
                    "exec 3>\"$out\"; echo \"$seen\" >&3; while read -r line; do echo \"$line\" >&3; done <$1\n"
                    "echo \"ptxas info    : Compiling entry function 'stores' for 'sm_90a'\" >&2\n"
                    "echo 'ptxas info    : Used 12 registers' >&2\n");
  std::vector<GpuFunction> functions;
  auto code = assemblePtx(storesThread, "sm_90a", functions);
  ASSERT_TRUE(bool(code)) << llvm::toString(code.takeError());
  std::string text(code->begin(), code->end());
  EXPECT_TRUE(has(text, "-arch=sm_90a")) << text;
  EXPECT_TRUE(has(text, "st.global.u32 [%rd4], %r1;")) << text;
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].registers, 12u);
}

TEST(Ptxas, ItsErrorIsShown) {
  OnlyPtxas program("echo \"ptxas fatal   : Value 'sm_7' is not defined for option 'gpu-name'\" >&2; exit 255\n");
  std::vector<GpuFunction> functions;
  std::string error = errorOf(assemblePtx(storesThread, "sm_7", functions));
  EXPECT_TRUE(has(error, "ptxas' failed for sm_7: ")) << error;
  EXPECT_TRUE(has(error, "ptxas fatal   : Value 'sm_7' is not defined for option 'gpu-name'")) << error;
  EXPECT_TRUE(has(error, "; update the CUDA toolkit, or compile without it in PATH: ")) << error;
  EXPECT_TRUE(functions.empty());
  OnlyPtxas fails("echo 'ptxas fatal   : Ptx assembly aborted due to errors' >&2; exit 255\n");
  error = errorOf(assemblePtx(storesThread, "sm_80", functions));
  EXPECT_TRUE(has(error, "aborted due to errors")) << error;
  EXPECT_FALSE(has(error, "update the CUDA toolkit")) << error;
}

TEST(Ptxas, FromNvidia) {
  if (!llvm::sys::findProgramByName(ptxasName))
    GTEST_SKIP() << "ptxas is not in PATH";
  std::vector<GpuFunction> functions;
  auto code = assemblePtx(storesThread, "sm_80", functions);
  ASSERT_TRUE(bool(code)) << llvm::toString(code.takeError());
  EXPECT_EQ(std::string(code->data() + 1, 3), "ELF");
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].name, "stores");
  EXPECT_GT(functions[0].registers.value_or(0), 2u);
  EXPECT_EQ(functions[0].spilledBytes, 0u);
  EXPECT_EQ(functions[0].localBytes, 0u);
  EXPECT_EQ(functions[0].sharedBytes, 1024u);
  std::string wrong = storesThread;
  wrong.replace(wrong.find("st.global"), 2, "xx");
  std::string error = errorOf(assemblePtx(wrong, "sm_80", functions));
  EXPECT_TRUE(has(error, "Not a name of any known instruction")) << error;
}
