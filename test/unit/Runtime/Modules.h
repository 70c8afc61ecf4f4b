//===- Modules.h - Load and call the sample module ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIMEMODULES_H
#define INTARSIA_TEST_UNIT_RUNTIMEMODULES_H

#include "test/unit/Testing.h"

#include "intarsia/runtime.h"

#include <memory>

namespace intarsia::testing {

struct FreeModule {
  void operator()(itx_module *module) const { itx_module_free(module); }
};
struct FreeTensor {
  void operator()(itx_tensor *tensor) const { itx_tensor_free(tensor); }
};
using ModulePointer = std::unique_ptr<itx_module, FreeModule>;
using TensorPointer = std::unique_ptr<itx_tensor, FreeTensor>;

inline ModulePointer load(const std::string &path, itx_load_options options = {}) {
  options.struct_bytes = sizeof(options);
  itx_module *module = nullptr;
  EXPECT_EQ(itx_module_load(path.c_str(), &options, &module), ITX_OK) << itx_last_error();
  return ModulePointer(module);
}

/// Returns the message of a load that must fail with this status.
inline std::string loadFailure(const std::string &path, itx_status expected, itx_load_options options = {}) {
  options.struct_bytes = sizeof(options);
  itx_module *module = nullptr;
  itx_status status = itx_module_load(path.c_str(), &options, &module);
  EXPECT_EQ(status, expected) << itx_last_error();
  EXPECT_EQ(module, nullptr);
  itx_module_free(module);
  return itx_last_error();
}

template <typename T>
TensorPointer tensorOf(itx_dtype dtype, std::vector<int64_t> shape, const std::vector<T> &values) {
  itx_tensor *tensor = nullptr;
  EXPECT_EQ(itx_tensor_create(dtype, uint32_t(shape.size()), shape.data(), values.data(), &tensor), ITX_OK);
  EXPECT_EQ(itx_tensor_bytes(tensor), values.size() * sizeof(T));
  return TensorPointer(tensor);
}

inline TensorPointer idsOf(int64_t batch, int64_t sequence, int64_t step = 7) {
  std::vector<int64_t> ids(batch * sequence);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = int64_t(i) * step % 100;
  return tensorOf(ITX_I64, {batch, sequence}, ids);
}

inline const itx_function *find(const ModulePointer &module, const char *name) {
  const itx_function *function = nullptr;
  EXPECT_EQ(itx_module_function(module.get(), name, &function), ITX_OK) << itx_last_error();
  return function;
}

inline itx_status invoke(const itx_function *function, std::vector<itx_tensor *> inputs, TensorPointer &output) {
  itx_tensor *made = nullptr;
  itx_status status = itx_invoke(function, inputs.data(), inputs.size(), &made, 1);
  output.reset(made);
  return status;
}

/// Returns the message of a call that must be refused.
inline std::string refusal(const itx_function *function, std::vector<itx_tensor *> inputs) {
  TensorPointer output;
  EXPECT_EQ(invoke(function, std::move(inputs), output), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(output, nullptr);
  return itx_last_error();
}

/// Returns the result of modules/sample.c with its defaults.
inline float expected(const TensorPointer &ids, int64_t i, int64_t k) {
  return (float(static_cast<int64_t *>(itx_tensor_data(ids.get()))[i]) + float(k) / 4) * 2;
}

inline bool isRight(const TensorPointer &ids, const TensorPointer &output) {
  const auto *values = static_cast<const float *>(itx_tensor_data(output.get()));
  for (int64_t i = 0; i < itx_tensor_elements(ids.get()); ++i)
    for (int64_t k = 0; k < 4; ++k)
      if (values[i * 4 + k] != expected(ids, i, k))
        return false;
  return itx_tensor_elements(output.get()) == 4 * itx_tensor_elements(ids.get());
}

/// A mask for idsOf(1, n) that blocks the call (modules/sample.c) from its arrival until `release`.
class HeldMask {
public:
  explicit HeldMask(int64_t n) : tensor_(tensorOf(ITX_I64, {1, n}, std::vector<int64_t>(n, 1))) { *first() = -7; }
  itx_tensor *get() const { return tensor_.get(); }
  bool hasArrived() const { return __atomic_load_n(first(), __ATOMIC_ACQUIRE) == -8; }
  void release() { __atomic_store_n(first(), 1, __ATOMIC_RELEASE); }

private:
  int64_t *first() const { return static_cast<int64_t *>(itx_tensor_data(tensor_.get())); }
  TensorPointer tensor_;
};

/// Writes an artifact with the weights inside; returns its path.
inline std::string writeEmbedded(const TemporaryFolder &folder) {
  std::string elf = sampleElf(replaced(filledManifest(), "\"file\":\"m.safetensors\"", "\"file\":null"));
  writeFile(folder / "packed", sampleWeights());
  Status status = writeArtifact(folder / "all.itx", elf.data(), elf.size(), folder / "packed");
  EXPECT_TRUE(status.ok()) << status.message();
  std::filesystem::remove(folder / "packed");
  return folder / "all.itx";
}

/// Returns what a manifest says about an archive of weights: its file, its bytes and its hashes.
inline std::string archiveText(const std::string &file, const std::string &weights) {
  uint64_t length;
  std::memcpy(&length, weights.data(), 8);
  return R"("file":")" + file + R"(","bytes":)" + std::to_string(weights.size()) + R"(,"header_hash":")" +
         hashTextOf(weights.data(), 8 + length) + R"(","hash":")" +
         hashTextOf(weights.data() + 8 + length, weights.size() - 8 - length) + "\"";
}

/// A test with a folder for its artifacts.
class ModuleTest : public ::testing::Test {
protected:
  TemporaryFolder folder;
};

} // namespace intarsia::testing

#endif
