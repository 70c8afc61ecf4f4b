//===- index.cpp - Fuzz the index of weights in several files ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/SafetensorsArchive.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace intarsia::importer;

namespace {
/// A folder with the two files that the seeds' indices name.
class Folder {
public:
  Folder() {
    char name[] = "/tmp/fuzz-index-XXXXXX";
    if (!mkdtemp(name))
      __builtin_trap();
    path = name;
    write("a.safetensors", safetensors("a"));
    write("b.safetensors", safetensors("b"));
  }
  ~Folder() { std::filesystem::remove_all(path); }

  void write(const std::string &name, const std::string &bytes) {
    std::ofstream(path / name, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
  }

  std::filesystem::path path;

private:
  static std::string safetensors(const std::string &tensor) {
    std::string header = R"({")" + tensor + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    uint64_t length = header.size();
    return std::string(reinterpret_cast<char *>(&length), sizeof(length)) + header + std::string(8, 'x');
  }
};
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static Folder folder;
  folder.write("model.safetensors.index.json", std::string(reinterpret_cast<const char *>(data), bytes));
  Errors errors;
  if (!SafetensorsArchive::open(folder.path.string(), "", errors) && errors.message().empty())
    __builtin_trap();
  return 0;
}
