//===- Tensor.h - Arrays that go into and come out of calls -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_TENSOR_H
#define INTARSIA_RUNTIME_CORE_TENSOR_H

#include "lib/Formats/Dtype.h"

#include <memory>
#include <vector>

namespace intarsia::runtime {
class Device;
}

/// The C interface's handle; copies share the memory.
struct itx_tensor {
  itx_dtype dtype = ITX_F32;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  std::shared_ptr<void> data;                  // never null, not even for empty tensors
  intarsia::runtime::Device *device = nullptr; // whose own memory `data` lies in; null: memory of the host
  bool readOnly = false;                       // true if the memory's owner forbids writing
  bool isCopy = false;                         // true for a copy of strided memory, whose owner would not see writes
};

namespace intarsia {
class OutputFile;
}

namespace intarsia::runtime {

using Tensor = ::itx_tensor;

/// Returns an error if a tensor is not in the memory of the host. `purpose` says what needs it there: "saved".
Status requireHostMemory(const Tensor &tensor, const char *purpose);

/// Makes a tensor with its own, uninitialised memory of the host.
Status makeTensor(itx_dtype dtype, const int64_t *shape, size_t rank, Tensor &tensor);
/// Makes a tensor with uninitialised memory of a device; null: of the host.
Status makeTensorOn(Device *device, itx_dtype dtype, const int64_t *shape, size_t rank, Tensor &tensor);
/// Makes a tensor in the memory of a device (null: of the host) with the contents of another.
Status copyTensor(const Tensor &from, Device *device, Tensor &tensor);
/// Returns the device if it has memory of its own; null if it uses that of the host.
Device *ownMemoryOf(Device &device);
Status loadNpy(const std::string &path, Tensor &tensor);
Status writeNpy(const Tensor &tensor, OutputFile &file);
Status saveNpy(const Tensor &tensor, const std::string &path);

} // namespace intarsia::runtime

#endif
