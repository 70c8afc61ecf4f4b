//===- AmdMetadata.cpp - What machine code of AMD GPUs says of its kernels ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/AmdMetadata.h"

#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/AMDGPUMetadata.h"

using namespace llvm;

namespace intarsia::gpu {

namespace {

using Elf = object::ELF64LE;

/// Returns the MessagePack text of a code object's metadata note; empty if it has none.
Expected<StringRef> findMetadata(StringRef codeObject) {
  auto file = object::ELFFile<Elf>::create(codeObject);
  if (!file)
    return file.takeError();
  auto segments = file->program_headers();
  if (!segments)
    return segments.takeError();
  StringRef metadata;
  for (const auto &segment : *segments) {
    if (segment.p_type != ELF::PT_NOTE)
      continue;
    Error error = Error::success();
    for (const auto &note : file->notes(segment, error))
      if (note.getName() == "AMDGPU" && note.getType() == ELF::NT_AMDGPU_METADATA)
        metadata = note.getDescAsStringRef(segment.p_align);
    if (error)
      return std::move(error);
  }
  return metadata;
}

/// Returns a number of a kernel's metadata; none if it lacks it.
std::optional<uint64_t> numberOf(msgpack::MapDocNode &kernel, StringRef key) {
  auto found = kernel.find(key);
  if (found == kernel.end() || found->second.getKind() != msgpack::Type::UInt)
    return std::nullopt;
  return found->second.getUInt();
}

} // namespace

Error readAmdMetadata(StringRef codeObject, std::vector<GpuFunction> &functions) {
  auto metadata = findMetadata(codeObject);
  if (!metadata)
    return createStringError("a code object is no ELF file: " + toString(metadata.takeError()));
  msgpack::Document document;
  if (metadata->empty() || !document.readFromBlob(*metadata, /*Multi=*/false) || !document.getRoot().isMap())
    return createStringError("a code object has no metadata on its kernels");
  msgpack::MapDocNode &root = document.getRoot().getMap();
  auto kernels = root.find("amdhsa.kernels");
  if (kernels == root.end() || !kernels->second.isArray())
    return createStringError("the metadata of a code object lists no kernels");
  for (msgpack::DocNode &node : kernels->second.getArray()) {
    if (!node.isMap())
      return createStringError("a kernel in the metadata of a code object is no map");
    msgpack::MapDocNode &kernel = node.getMap();
    auto name = kernel.find(".name");
    if (name == kernel.end() || !name->second.isString())
      return createStringError("a kernel in the metadata of a code object has no name");
    GpuFunction function{name->second.getString().str()};
    function.registers = numberOf(kernel, ".vgpr_count");
    if (std::optional<uint64_t> spilled = numberOf(kernel, ".vgpr_spill_count"))
      function.spilledBytes = *spilled * 4;
    function.sharedBytes = numberOf(kernel, ".group_segment_fixed_size");
    function.localBytes = numberOf(kernel, ".private_segment_fixed_size");
    function.scalarRegisters = numberOf(kernel, ".sgpr_count");
    function.spilledScalars = numberOf(kernel, ".sgpr_spill_count");
    functions.push_back(std::move(function));
  }
  return Error::success();
}

} // namespace intarsia::gpu
