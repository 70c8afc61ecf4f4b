//===- Archive.cpp - Files of weights of any kind -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Archive.h"

#include "lib/Formats/GgufFile.h"
#include "lib/Formats/Onnx/OnnxFile.h"
#include "lib/Formats/Safetensors.h"

namespace intarsia {

// A kind of archive is a row here; its reader and its Archive lie in files of their own.
std::span<const ArchiveKind> archiveKinds() {
  static const ArchiveKind table[] = {
      {"safetensors file", ".safetensors", openSafetensorsArchive},
      {"GGUF file", ".gguf", gguf::openArchive},
      {"ONNX file", ".onnx", onnx::openArchive},
  };
  return table;
}

const ArchiveKind *findArchiveKind(std::string_view path) {
  for (const ArchiveKind &kind : archiveKinds())
    if (path.ends_with(kind.extension))
      return &kind;
  return nullptr;
}

Status Archive::open(const std::string &path, std::unique_ptr<Archive> &archive) {
  if (const ArchiveKind *kind = findArchiveKind(path))
    return kind->open(path, archive);
  std::string known;
  for (const ArchiveKind &kind : archiveKinds())
    known += (known.empty() ? "" : ", ") + std::string(kind.extension);
  return error(ITX_INVALID_ARGUMENT,
               "%s: weights are not read from files of this kind; they are read from files named %s", path.c_str(),
               known.c_str());
}

} // namespace intarsia
