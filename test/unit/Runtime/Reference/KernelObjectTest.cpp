//===- KernelObjectTest.cpp - Objects are loaded, and damaged ones refused --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/KernelObject.h"
#include "test/unit/Testing.h"

#include <cmath>
#include <elf.h>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::readFile;
using intarsia::testing::replaced;
using ::testing::HasSubstr;

namespace {

const std::vector<std::string> kernelNames = {"add", "elsewhere", "exp", "temporaries", "foreign", "count", "affine"};

Status load(const std::string &bytes, std::vector<uint32_t> wanted, std::unique_ptr<Executable> &executable) {
  ExecutableSource source;
  source.name = "model.itx";
  source.object = bytes.data();
  source.bytes = bytes.size();
  source.kernels = &kernelNames;
  source.wanted = std::move(wanted);
  return KernelObject::load(source, executable);
}

std::unique_ptr<Executable> loadObject() {
  std::unique_ptr<Executable> executable;
  Status status = load(readFile(ITX_TEST_REFERENCE_OBJECT), {0, 2, 3, 4, 5}, executable);
  EXPECT_TRUE(status.ok()) << status.message();
  return executable;
}

ReferenceKernel kernelOf(const Executable &executable, uint32_t index) {
  return static_cast<const KernelObject &>(executable).kernel(index);
}

Status run(const Executable &executable, uint32_t index, std::vector<void *> buffers, std::vector<int64_t> sizes,
           uint64_t limit = 1 << 20) {
  return runKernel(kernelOf(executable, index), buffers.data(), sizes.data(), limit, "kernel 'x' (layer.3)");
}

TEST(KernelObject, KernelsAreThoseOfTheirIndex) {
  std::unique_ptr<Executable> executable = loadObject();
  ASSERT_TRUE(executable);
  for (uint32_t index : {0, 2, 3, 4, 5})
    EXPECT_NE(kernelOf(*executable, index), nullptr) << index;
  for (uint32_t index : {1, 6, 7})
    EXPECT_EQ(kernelOf(*executable, index), nullptr) << index << " was not asked for";
  std::vector<float> x = {1, 2, 3}, y = {10, 20, 30}, z(3);
  ASSERT_TRUE(run(*executable, 0, {x.data(), y.data(), z.data()}, {3}).ok());
  EXPECT_EQ(z, (std::vector<float>{11, 22, 33}));
  ASSERT_TRUE(run(*executable, 2, {x.data(), z.data()}, {3}).ok());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(z[i], expf(x[i])) << "the function of C's library itself";
}

TEST(KernelObject, EachLoadHasDataOfItsOwn) {
  std::unique_ptr<Executable> first = loadObject(), second = loadObject();
  ASSERT_TRUE(first && second);
  int64_t count = 0;
  for (int64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(run(*first, 5, {&count}, {}).ok());
    EXPECT_EQ(count, i);
  }
  ASSERT_TRUE(run(*second, 5, {&count}, {}).ok());
  EXPECT_EQ(count, 1);
  first.reset();
  ASSERT_TRUE(run(*second, 5, {&count}, {}).ok());
  EXPECT_EQ(count, 2);
}

TEST(KernelObject, MissingKernelsAreNamed) {
  std::unique_ptr<Executable> executable;
  Status status = load(readFile(ITX_TEST_REFERENCE_OBJECT), {0, 1}, executable);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("model.itx: its code for the reference device: lacks kernel 'elsewhere'"));
  EXPECT_EQ(load(readFile(ITX_TEST_REFERENCE_OBJECT), {99}, executable).code(), ITX_CORRUPT);
  EXPECT_FALSE(executable);
}

/// Replaces a string everywhere in a file.
std::string replacedEverywhere(std::string bytes, const std::string &from, const std::string &to) {
  bytes = replaced(bytes, from, to);
  for (size_t at; (at = bytes.find(from)) != std::string::npos;)
    bytes.replace(at, from.size(), to);
  return bytes;
}

TEST(KernelObject, UnknownImportsAreNamed) {
  std::string bytes = readFile(ITX_TEST_REFERENCE_OBJECT);
  std::unique_ptr<Executable> executable;
  Status status = load(replacedEverywhere(bytes, std::string("cbrt", 5), std::string("cbrq", 5)), {0}, executable);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("calls the function 'cbrq'"));
  bytes = replacedEverywhere(bytes, "itx_reference_imports", "itx_reference_importx");
  status = load(bytes, {0}, executable);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("does not export 'itx_reference_imports'"));
}

TEST(KernelObject, WrongFilesAreRefused) {
  std::string bytes = readFile(ITX_TEST_REFERENCE_OBJECT);
  std::unique_ptr<Executable> executable;
  for (size_t size : {size_t(0), size_t(3), size_t(50), bytes.size() / 2, bytes.size() - 1})
    EXPECT_EQ(load(bytes.substr(0, size), {0}, executable).code(), ITX_CORRUPT) << size;
  EXPECT_EQ(load(std::string(1000, 'x'), {0}, executable).code(), ITX_CORRUPT);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.e_machine = header.e_machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  std::memcpy(bytes.data(), &header, sizeof(header));
  Status status = load(bytes, {0}, executable);
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("this machine is"));
}

TEST(KernelMemory, TemporariesAreFreedInAnyOrder) {
  std::unique_ptr<Executable> executable = loadObject();
  ASSERT_TRUE(executable);
  int64_t count = 0;
  constexpr int64_t kept = 0, freedAtOnce = 1, freedOldestFirst = 2;
  EXPECT_TRUE(run(*executable, 3, {&count}, {40, 1000, kept}).ok());
  EXPECT_TRUE(run(*executable, 3, {&count}, {40, 1000, freedOldestFirst}).ok());
  EXPECT_TRUE(run(*executable, 3, {&count}, {40, 0, freedOldestFirst}).ok());
  EXPECT_TRUE(run(*executable, 3, {&count}, {40, 1 << 20, freedAtOnce}).ok()) << "the limit is of what is in use";
  EXPECT_EQ(count, 40);
}

TEST(KernelMemory, LackEndsTheKernel) {
  std::unique_ptr<Executable> executable = loadObject();
  ASSERT_TRUE(executable);
  int64_t count = 0;
  for (int round = 0; round < 3; ++round) {
    Status status = run(*executable, 3, {&count}, {40, 100000, 0});
    EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
    EXPECT_THAT(status.message(), HasSubstr("kernel 'x' (layer.3) needs a temporary of 100000 bytes"));
    EXPECT_THAT(status.message(), HasSubstr("1048576 bytes (ITX_REFERENCE_MEMORY_BYTES), of which 1000000"));
    EXPECT_EQ(count, 10);
  }
  std::vector<float> x = {0}, y = {0};
  EXPECT_TRUE(run(*executable, 2, {x.data(), y.data()}, {1}).ok()) << "an error must not stay";
  EXPECT_EQ(y[0], 1);
}

TEST(KernelMemory, ForeignMemoryIsNotFreed) {
  std::unique_ptr<Executable> executable = loadObject();
  ASSERT_TRUE(executable);
  int64_t other = 0;
  Status status = run(*executable, 4, {&other}, {});
  EXPECT_EQ(status.code(), ITX_INTERNAL);
  EXPECT_THAT(status.message(), HasSubstr("frees memory at"));
}

TEST(KernelImports, AreCsFunctions) {
  for (const char *name : {"malloc", "free", "expf", "exp", "erff", "tanhf", "powf", "fmaf", "sqrt", "roundevenf"})
    EXPECT_NE(findImport(name), nullptr) << name;
  for (const char *name : {"", "system", "exi", "expff", "expl", "calloc", "memcpy"})
    EXPECT_EQ(findImport(name), nullptr) << name;
  auto power = reinterpret_cast<double (*)(double, double)>(findImport("pow"));
  EXPECT_EQ(power(2, 10), 1024);
  EXPECT_EQ(allocateTemporary(1), nullptr) << "outside of kernels there are no temporaries";
  freeTemporary(nullptr);
}

} // namespace
