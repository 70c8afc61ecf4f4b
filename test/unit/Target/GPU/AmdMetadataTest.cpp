//===- AmdMetadataTest.cpp - What machine code of AMD GPUs says of its kernels -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code objects are made here, byte by byte: those of LLVM are read in test/EndToEnd/test_gpu_kernels.py and compared
// with what llvm-readelf shows of them.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/AmdMetadata.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Support/Alignment.h"
#include <gtest/gtest.h>

using namespace intarsia;
using namespace llvm;

namespace {

template <typename T> std::string bytesOf(const T &value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(T));
}

/// Returns an ELF file whose only segment is a note of an owner and a type.
std::string codeObject(const std::string &metadata, const std::string &owner = "AMDGPU",
                       uint32_t type = ELF::NT_AMDGPU_METADATA) {
  auto padded = [](std::string text) {
    text.resize(alignTo(text.size(), 4));
    return text;
  };
  ELF::Elf64_Nhdr note = {uint32_t(owner.size() + 1), uint32_t(metadata.size()), type};
  std::string notes = bytesOf(note) + padded(owner + '\0') + padded(metadata);
  ELF::Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELF::ElfMagic, 4);
  header.e_ident[ELF::EI_CLASS] = ELF::ELFCLASS64;
  header.e_ident[ELF::EI_DATA] = ELF::ELFDATA2LSB;
  header.e_ident[ELF::EI_VERSION] = header.e_version = ELF::EV_CURRENT;
  header.e_type = ELF::ET_DYN;
  header.e_machine = ELF::EM_AMDGPU;
  header.e_ehsize = header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(ELF::Elf64_Phdr);
  header.e_phnum = 1;
  ELF::Elf64_Phdr segment = {};
  segment.p_type = ELF::PT_NOTE;
  segment.p_offset = sizeof(header) + sizeof(segment);
  segment.p_filesz = segment.p_memsz = notes.size();
  segment.p_align = 4;
  return bytesOf(header) + bytesOf(segment) + notes;
}

/// Returns the metadata of one kernel, in the form of code object version 5.
std::string metadataOf(const std::map<std::string, uint64_t> &numbers, const std::string &name = "itx_k0_0") {
  msgpack::Document document;
  auto kernel = document.getMapNode();
  if (!name.empty())
    kernel[".name"] = document.getNode(name, /*Copy=*/true);
  for (const auto &[key, number] : numbers)
    kernel[document.getNode(key, /*Copy=*/true)] = document.getNode(number);
  auto kernels = document.getArrayNode();
  kernels.push_back(kernel);
  document.getRoot().getMap(/*Convert=*/true)["amdhsa.kernels"] = kernels;
  std::string bytes;
  document.writeToBlob(bytes);
  return bytes;
}

std::string errorOf(const std::string &object) {
  std::vector<GpuFunction> functions;
  std::string error = toString(gpu::readAmdMetadata(object, functions));
  EXPECT_TRUE(functions.empty() || error.empty());
  return error;
}

} // namespace

TEST(AmdMetadata, IsRead) {
  std::string metadata = metadataOf({{".vgpr_count", 84},
                                     {".agpr_count", 16},
                                     {".vgpr_spill_count", 3},
                                     {".sgpr_count", 40},
                                     {".sgpr_spill_count", 2},
                                     {".group_segment_fixed_size", 8704},
                                     {".private_segment_fixed_size", 48}});
  std::vector<GpuFunction> functions;
  ASSERT_EQ(toString(gpu::readAmdMetadata(codeObject(metadata), functions)), "");
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].name, "itx_k0_0");
  EXPECT_EQ(functions[0].registers, 84u) << "accumulation registers are among them";
  EXPECT_EQ(functions[0].spilledBytes, 12u) << "registers have 32 bits";
  EXPECT_EQ(functions[0].sharedBytes, 8704u);
  EXPECT_EQ(functions[0].localBytes, 48u);
  EXPECT_EQ(functions[0].scalarRegisters, 40u);
  EXPECT_EQ(functions[0].spilledScalars, 2u);
}

TEST(AmdMetadata, NumbersMayBeMissing) {
  std::vector<GpuFunction> functions;
  ASSERT_EQ(toString(gpu::readAmdMetadata(codeObject(metadataOf({{".sgpr_count", 8}})), functions)), "");
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].registers, std::nullopt);
  EXPECT_EQ(functions[0].spilledBytes, std::nullopt);
  EXPECT_EQ(functions[0].scalarRegisters, 8u);
}

TEST(AmdMetadata, DamagedObjectsAreRefused) {
  std::string good = metadataOf({{".vgpr_count", 8}});
  EXPECT_EQ(errorOf(codeObject(good)), "");
  EXPECT_NE(errorOf("no ELF file").find("is no ELF file"), std::string::npos);
  EXPECT_EQ(errorOf(codeObject(good, "GNU")), "a code object has no metadata on its kernels");
  EXPECT_EQ(errorOf(codeObject(good, "AMDGPU", 10)), "a code object has no metadata on its kernels");
  EXPECT_EQ(errorOf(codeObject(good.substr(0, good.size() / 2))), "a code object has no metadata on its kernels");
  EXPECT_EQ(errorOf(codeObject("\xc3")), "a code object has no metadata on its kernels") << "a boolean";
  EXPECT_EQ(errorOf(codeObject("\x80")), "the metadata of a code object lists no kernels") << "an empty map";
  EXPECT_EQ(errorOf(codeObject(metadataOf({}, ""))), "a kernel in the metadata of a code object has no name");
  std::string cut = codeObject(good);
  EXPECT_NE(errorOf(cut.substr(0, cut.size() - 8)).find("is no ELF file"), std::string::npos);
}
