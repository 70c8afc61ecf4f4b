//===- Mixed.h - Load the sample module of several devices -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIMEMIXED_H
#define INTARSIA_TEST_UNIT_RUNTIMEMIXED_H

#include "test/unit/Runtime/Modules.h"

#include "lib/Runtime/Reference/ReferenceDevice.h"

namespace intarsia::testing {

/// The weights of modules/mixed_device.c: table[i, k] = i, factor[k] = k + 1, offset[k] = k / 2.
inline std::string mixedWeights() {
  std::vector<float> data(64 * 4 + 16 + 16);
  for (int i = 0; i < 256; ++i)
    data[i] = float(i / 4);
  for (int k = 0; k < 4; ++k) {
    data[256 + k] = float(k + 1);
    data[272 + k] = float(k) / 2;
  }
  return safetensorsBytes(R"({"table":{"dtype":"F32","shape":[64,4],"data_offsets":[0,1024]},)"
                          R"("factor":{"dtype":"F32","shape":[16],"data_offsets":[1024,1088]},)"
                          R"("offset":{"dtype":"F32","shape":[16],"data_offsets":[1088,1152]}})",
                          std::string(reinterpret_cast<const char *>(data.data()), data.size() * sizeof(float)));
}

inline float mixedResult(int64_t id, int64_t k) { return (float(id) + float(k) / 2) * float(k + 1); }

/// Returns the manifest of modules/mixed_device.c: the host's CPU, and a reference device.
inline std::string mixedManifest() {
  return R"({"format":1,"producer":"test 1.0","flags":[],
 "target":{"triple":"test","variants":[{"name":"plain","cpu":"x","features":[]}]},
 "devices":[{"name":"cpu","kind":"cpu"},{"name":"r1","kind":"reference",
   "objects":[{"variant":"pdp11-unknown-none","object":0},{"variant":")" +
         hostVariant() + R"(","object":0}]}],
 "kernels":["scale_kernel","look_up_kernel"],"kernel_devices":[0,1],"labels":["layer.scale","layer.look_up"],
 "weights":{)" +
         archiveText("x.safetensors", mixedWeights()) + R"(,"tensors":["table","factor","offset"],"devices":[1,-1,1]},
 "functions":[
  {"name":"main","sizes":[{"name":"rows"}],"inputs":[{"name":"ids","dtype":"i64","shape":["rows"],"range":[0,64]}],
   "outputs":[{"name":"out","dtype":"f32","shape":["rows",4]}]},
  {"name":"hasty","sizes":[{"name":"count"}],"inputs":[{"name":"values","dtype":"i64","shape":["count"]}],
   "outputs":[{"name":"out","dtype":"i64","shape":[18,"count"]}]},
  {"name":"there","sizes":[{"name":"rows"}],"inputs":[{"name":"ids","dtype":"i64","shape":["rows"],"device":1},
    {"name":"more","dtype":"i64","shape":["rows"],"default":5,"device":1}],
   "outputs":[{"name":"out","dtype":"f32","shape":["rows",4],"device":1},
    {"name":"out_of_more","dtype":"f32","shape":["rows",4],"device":1}]},
  {"name":"wrong","sizes":[{"name":"count"}],"inputs":[{"name":"values","dtype":"i64","shape":["count"]}],
   "outputs":[{"name":"out","dtype":"i64","shape":["count"]}]}]})";
}

/// Writes x.itx and x.safetensors; returns the path of the former.
inline std::string writeMixed(const TemporaryFolder &folder, const std::string &manifest = mixedManifest()) {
  std::string elf = sampleElf(manifest, ITX_TEST_MIXED), path = folder / "x.itx";
  writeFile(folder / "x.safetensors", mixedWeights());
  Status status = writeArtifact(path, elf.data(), elf.size());
  EXPECT_TRUE(status.ok()) << status.message();
  return path;
}

inline runtime::ReferenceDevice &reference() {
  return static_cast<runtime::ReferenceDevice &>(runtime::referenceDevice());
}

/// Makes the reference device fail at a command, counted from the next one, until the end of its scope.
class ScopedFault {
public:
  ScopedFault(runtime::Fault fault, uint64_t command) { reference().health().failAt(fault, command); }
  ~ScopedFault() {
    reference().health().failAt(runtime::Fault::None, 0);
    reference().health().restore();
  }
  ScopedFault(const ScopedFault &) = delete;
  ScopedFault &operator=(const ScopedFault &) = delete;
};

/// Delays the commands of the reference device until the end of its scope.
class ScopedDelay {
public:
  explicit ScopedDelay(uint64_t microseconds) {
    Status status = reference().setDelay(microseconds, /*seed=*/7);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  ~ScopedDelay() { (void)reference().setDelay(0, 1); }
  ScopedDelay(const ScopedDelay &) = delete;
  ScopedDelay &operator=(const ScopedDelay &) = delete;
};

} // namespace intarsia::testing

#endif
