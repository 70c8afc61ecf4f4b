//===- Testing.h - Files and modules for tests of the runtime ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIMETESTING_H
#define INTARSIA_TEST_UNIT_RUNTIMETESTING_H

#include "lib/Formats/ArtifactWriter.h"
#include "lib/Formats/ElfReader.h"
#include "lib/Formats/Safetensors.h"
#include "lib/Support/Hash.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace intarsia::testing {

/// A folder that is removed at the end of the test.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "itx-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }
  const std::string &path() const { return path_; }
  size_t files() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

private:
  std::string path_;
};

/// Sets an environment variable until the end of its scope.
class ScopedVariable {
public:
  ScopedVariable(const char *name, const char *value) : name_(name) {
    if (const char *before = getenv(name))
      before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable &) = delete;
  ScopedVariable &operator=(const ScopedVariable &) = delete;

private:
  const char *name_;
  std::optional<std::string> before_;
};

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream stream;
  stream << file.rdbuf();
  return stream.str();
}

inline void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), std::streamsize(bytes.size()));
}

inline std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// Returns the variant of the reference device's objects for this machine: the triple of its architecture.
inline std::string hostVariant() {
#if defined(__x86_64__)
  return "x86_64-unknown-linux-gnu";
#elif defined(__aarch64__)
  return "aarch64-unknown-linux-gnu";
#else
  return "riscv64-unknown-linux-gnu";
#endif
}

/// Makes a safetensors file from its JSON header and data; the header is padded to 64 bytes as in packed weights.
inline std::string safetensorsBytes(std::string header, const std::string &data) {
  while ((8 + header.size()) % 64 != 0)
    header += ' ';
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + header + data;
}

/// The weights of modules/sample.c: table[i, k] = i + k / 4.
inline std::string sampleWeights() {
  std::vector<float> table(100 * 4);
  for (int i = 0; i < 400; ++i)
    table[i] = float(i / 4) + float(i % 4) / 4;
  return safetensorsBytes(R"({"table":{"dtype":"F32","shape":[100,4],"data_offsets":[0,1600]}})",
                          std::string(reinterpret_cast<const char *>(table.data()), 1600));
}

inline const char *sampleManifest() {
  return R"({"format":1,"producer":"test 1.0","flags":[],
 "target":{"triple":"test","variants":[{"name":"marked","cpu":"x","features":["a-feature-of-tomorrow"]},
                                       {"name":"plain","cpu":"x","features":[]}]},
 "kernels":["rows_kernel","total_kernel"],"labels":["layer.rows","layer.total"],
 "weights":{"file":"m.safetensors","bytes":BYTES,"header_hash":"HEADER_HASH","hash":"FULL_HASH","tensors":["table"]},
 "functions":[
  {"name":"main","sizes":[{"name":"batch"},{"name":"sequence","maximum":512}],
   "inputs":[{"name":"ids","dtype":"i64","shape":["batch","sequence"],"range":[0,100]},
             {"name":"mask","dtype":"i64","shape":["batch","sequence"],"default":1},
             {"name":"scale","dtype":"f32","shape":[4],"default":2}],
   "outputs":[{"name":"rows","dtype":"f32","shape":["batch","sequence",4]}],"metadata":{"labels":["a","b"]}},
  {"name":"total","sizes":[{"name":"batch"},{"name":"sequence","maximum":512}],
   "checks":[{"relation":"at_most","left":"batch * sequence","right":"4096","why":"'sum' needs it"},
             {"relation":"at_most","left":"2","right":"batch * sequence"},
             {"relation":"equal","left":"sequence","right":"batch + sequence - batch"}],
   "inputs":[{"name":"ids","dtype":"i64","shape":["batch","sequence"],"range":[0,100]},
             {"name":"mask","dtype":"i64","shape":["batch","sequence"],"default":1},
             {"name":"scale","dtype":"f32","shape":[4],"default":2}],
   "outputs":[{"name":"sums","dtype":"f32","shape":["batch"]}]}]})";
}

/// Returns the sample manifest with the figures of the sample weights.
inline std::string filledManifest(std::string manifest = sampleManifest()) {
  std::string weights = sampleWeights();
  uint64_t length;
  std::memcpy(&length, weights.data(), 8);
  manifest = replaced(manifest, "BYTES", std::to_string(weights.size()));
  manifest = replaced(manifest, "HEADER_HASH", hashTextOf(weights.data(), 8 + length));
  return replaced(manifest, "FULL_HASH", hashTextOf(weights.data() + 8 + length, weights.size() - 8 - length));
}

/// Returns modules/sample.c, or another module, as linked, with a manifest.
inline std::string sampleElf(std::string manifest, const char *module = ITX_TEST_MODULE) {
  std::string elf = readFile(module);
  ElfReader reader;
  auto status = ElfReader::parse(reinterpret_cast<const uint8_t *>(elf.data()), elf.size(), "sample", reader);
  EXPECT_TRUE(status.ok()) << status.message();
  const ElfSection *section = reader.find(".itx.manifest");
  if (!section || manifest.size() > section->bytes) {
    ADD_FAILURE() << "no room for the manifest";
    return elf;
  }
  manifest.resize(section->bytes, ' ');
  return elf.replace(section->offset, manifest.size(), manifest);
}

/// Writes m.itx and m.safetensors; returns the path of the former.
inline std::string writeSample(const TemporaryFolder &folder, const std::string &manifest = filledManifest(),
                               const std::string &name = "m.itx") {
  std::string elf = sampleElf(manifest), path = folder / name;
  writeFile(folder / "m.safetensors", sampleWeights());
  Status status = writeArtifact(path, elf.data(), elf.size());
  EXPECT_TRUE(status.ok()) << status.message();
  return path;
}

} // namespace intarsia::testing

#endif
