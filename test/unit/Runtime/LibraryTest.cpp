//===- LibraryTest.cpp - What libintarsia_runtime.so depends on and exports ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Testing.h"

#include <elf.h>
#include <set>

using namespace intarsia;
using namespace intarsia::testing;

namespace {

class Library : public ::testing::Test {
protected:
  void SetUp() override {
    bytes = readFile(ITX_TEST_LIBRARY);
    Status status = ElfReader::parse(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), "library", elf);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_NE(elf.find(".dynstr"), nullptr);
  }

  template <typename T> std::vector<T> table(const char *name) {
    const ElfSection *section = elf.find(name);
    std::vector<T> result(section ? section->bytes / sizeof(T) : 0);
    if (section)
      std::memcpy(result.data(), bytes.data() + section->offset, result.size() * sizeof(T));
    return result;
  }

  std::string text(uint64_t offset) { return bytes.c_str() + elf.find(".dynstr")->offset + offset; }

  std::string bytes;
  ElfReader elf;
};

} // namespace

TEST_F(Library, NeedsTheSystemLibrariesOnly) {
  if (ITX_TEST_SANITIZED)
    GTEST_SKIP() << "sanitizers bring libraries of their own";
  for (const Elf64_Dyn &entry : table<Elf64_Dyn>(".dynamic")) {
    if (entry.d_tag == DT_NULL)
      break;
    if (entry.d_tag != DT_NEEDED)
      continue;
    std::string name = text(entry.d_un.d_val);
    std::string stem = name.substr(0, name.find(".so"));
    static const std::set<std::string> allowed = {"libc", "libm", "libstdc++", "libpthread", "libdl"};
    EXPECT_TRUE(allowed.count(stem) || stem.rfind("ld-linux", 0) == 0) << name;
  }
}

TEST_F(Library, ExportsTheInterfaceOnly) {
  size_t exported = 0;
  for (const Elf64_Sym &symbol : table<Elf64_Sym>(".dynsym")) {
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0)
      continue;
    EXPECT_EQ(text(symbol.st_name).rfind("itx_", 0), 0u) << text(symbol.st_name);
    ++exported;
  }
  EXPECT_GT(exported, 40u);
}

TEST_F(Library, IsSmall) {
  if (ITX_TEST_SANITIZED)
    GTEST_SKIP() << "instrumented code is larger";
  uint64_t loaded = 0;
  for (const char *name : {".text", ".rodata", ".eh_frame", ".gcc_except_table", ".data.rel.ro", ".dynstr", ".dynsym"})
    if (const ElfSection *section = elf.find(name))
      loaded += section->bytes;
  // An eighth of it decompresses objects of GPUs, a tenth drives or emulates them, an eighth is for worlds on one host
  // and on several, a fourteenth simulates wafers, a fiftieth reads weights from disk,
  // a sixtieth lets GPUs of several ranks exchange data, another one runs several stages of a rank, a tenth computes
  // many requests at the same time, a fiftieth keeps states of sessions and goes on with sizes that a call computes.
  EXPECT_LE(loaded, 2150000u);
}
