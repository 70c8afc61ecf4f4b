//===- call.cpp - Fuzz a call with inputs from NumPy files --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The module is test/unit/Runtime/modules/sample.c: it reads a row of a table for each id, so that an id or a size that
// was not checked is found by the sanitizer. The first byte says where the second file begins, in parts of 256.
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Modules.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace intarsia::testing;

namespace {

/// A file in memory that is written anew for each input.
class MemoryFile {
public:
  MemoryFile() : descriptor_(memfd_create("npy", 0)) {}
  TensorPointer load(const uint8_t *data, size_t bytes) {
    if (ftruncate(descriptor_, 0) != 0 || pwrite(descriptor_, data, bytes, 0) != ssize_t(bytes))
      std::abort();
    itx_tensor *tensor = nullptr;
    (void)itx_tensor_load_npy(("/proc/self/fd/" + std::to_string(descriptor_)).c_str(), &tensor);
    return TensorPointer(tensor);
  }

private:
  int descriptor_;
};

const itx_function *sampleFunction() {
  static TemporaryFolder folder;
  static ModulePointer module = load(writeSample(folder));
  return find(module, "main");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const itx_function *function = sampleFunction();
  static MemoryFile first, second;
  if (bytes == 0)
    return 0;
  size_t cut = 1 + (bytes - 1) * data[0] / 256;
  TensorPointer ids = first.load(data + 1, cut - 1), mask = second.load(data + cut, bytes - cut), output;
  if (!ids)
    return 0;
  // A large batch of an empty sequence is right, and takes long. A mask of -7 asks the module to wait.
  if (itx_tensor_elements(ids.get()) > 4096)
    return 0;
  if (mask && itx_tensor_dtype(mask.get()) == ITX_I64) {
    auto *values = static_cast<const int64_t *>(itx_tensor_data(mask.get()));
    if (std::count(values, values + itx_tensor_elements(mask.get()), -7))
      return 0;
  }
  itx_status status = invoke(function, {ids.get(), mask.get()}, output);
  if ((status == ITX_OK) != (output != nullptr) || (status == ITX_OK && !mask && !isRight(ids, output)))
    std::abort();
  return 0;
}
