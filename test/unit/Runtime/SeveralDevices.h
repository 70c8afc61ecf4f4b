//===- SeveralDevices.h - Load modules of alternatives and of verified kernels -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIMESEVERALDEVICES_H
#define INTARSIA_TEST_UNIT_RUNTIMESEVERALDEVICES_H

#include "test/unit/Runtime/Modules.h"

namespace intarsia::testing {

/// The weights of modules/alternatives_device.c and modules/verified_device.c: factors[k] = k + 1.
inline std::string factorWeights() {
  std::vector<float> data(16);
  for (int k = 0; k < 4; ++k)
    data[k] = float(k + 1);
  return safetensorsBytes(R"({"factors":{"dtype":"F32","shape":[16],"data_offsets":[0,64]}})",
                          std::string(reinterpret_cast<const char *>(data.data()), 64));
}

/// Returns a manifest for the host's CPU and a reference device, which both have the factors.
inline std::string manifestOfTwo(const std::string &verifies, const std::string &kernels,
                                 const std::string &functions) {
  return R"({"format":1,"producer":"test 1.0","flags":[],
 "target":{"triple":"test","variants":[{"name":"plain","cpu":"x","features":[]}]},
 "devices":[{"name":"cpu","kind":"cpu"},{"name":"reference","kind":"reference",)" +
         verifies + R"("objects":[{"variant":")" + hostVariant() + R"(","object":0}]}],
 )" + kernels +
         R"(,
 "weights":{)" +
         archiveText("factors.safetensors", factorWeights()) + R"(,"tensors":["factors","factors"],"devices":[-1,1]},
 "functions":[)" +
         functions + "]}";
}

/// Returns a function's entry whose inputs and outputs have one element for each of "count".
inline std::string functionOfCount(const std::string &name, const std::string &devices, const std::string &inputs,
                                   const std::string &outputs) {
  return R"({"name":")" + name + R"(","devices":)" + devices + R"(,"sizes":[{"name":"count"}],"inputs":[)" + inputs +
         R"(],"outputs":[)" + outputs + "]}";
}

inline std::string valueOfCount(const std::string &name, const std::string &dtype, const std::string &more = "") {
  return R"({"name":")" + name + R"(","dtype":")" + dtype + R"(","shape":["count"])" + more + "}";
}

/// Returns the manifest of modules/alternatives_device.c.
inline std::string alternativesManifest() {
  std::string functions;
  for (auto [name, devices] :
       {std::pair("main", "[0,1]"), {"main", "[0]"}, {"main", "[1]"}, {"other", "[1]"}, {"other", "[0]"}})
    functions += (functions.empty() ? "" : ",\n  ") +
                 functionOfCount(name, devices, valueOfCount("x", "f32"), valueOfCount("out", "f32"));
  return manifestOfTwo("", R"("kernels":["host_kernel","reference_kernel"],"kernel_devices":[0,1],"labels":["h","r"])",
                       functions);
}

/// Returns the manifest of modules/verified_device.c.
inline std::string verifiedManifest() {
  std::string x = valueOfCount("x", "f32"), scaled = valueOfCount("scaled", "f32");
  std::string both = scaled + "," + valueOfCount("which", "i64");
  std::string total = valueOfCount("total", "f32", R"(,"state":true)");
  return manifestOfTwo(R"("verifies":true,)", R"("kernels":["scale","scale_wrongly","accumulate","scale_there"],
 "kernel_devices":[0,0,0,1],"labels":["layer.scale","layer.faulty","layer.accumulate","layer.there"],
 "operands":[[[[4,0],[64]],[[4,0],[8,0]]],[[[4,0],[64]],[[4,0],[8,0]]],
             [[[4,0],[4,0]],[[4,0],[4,"s0"]]],[[[4,0],[64]],[[4,0]]]],
 "operand_types":[[["f32",""],["f32","i64"]],[["f32",""],["f32","i64"]],
                  [["f32","f32"],["f32","f32"]],[["f32",""],["f32"]]])",
                       functionOfCount("scale", "[0]", x, both) + "," + functionOfCount("faulty", "[0]", x, both) +
                           "," + functionOfCount("accumulate", "[0]", total + "," + x, valueOfCount("sum", "f32")) +
                           "," + functionOfCount("there", "[1]", x, scaled));
}

/// Writes a module and factors.safetensors; returns the path of the former.
inline std::string writeOfTwo(const TemporaryFolder &folder, const std::string &manifest, const char *module) {
  std::string elf = sampleElf(manifest, module), path = folder / "two.itx";
  writeFile(folder / "factors.safetensors", factorWeights());
  Status status = writeArtifact(path, elf.data(), elf.size());
  EXPECT_TRUE(status.ok()) << status.message();
  return path;
}

inline std::string writeAlternatives(const TemporaryFolder &folder,
                                     const std::string &manifest = alternativesManifest()) {
  return writeOfTwo(folder, manifest, ITX_TEST_ALTERNATIVES);
}

inline std::string writeVerified(const TemporaryFolder &folder, const std::string &manifest = verifiedManifest()) {
  return writeOfTwo(folder, manifest, ITX_TEST_VERIFIED);
}

} // namespace intarsia::testing

#endif
