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

/// The C interface's handle; copies share the memory.
struct itx_tensor {
  itx_dtype dtype = ITX_F32;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  std::shared_ptr<void> data; // never null, for empty tensors neither
  bool readOnly = false;      // its memory is another's, who forbids writing to it
  bool isCopy = false;        // of strided memory, whose owner would not see what is written here
};

namespace intarsia {
class OutputFile;
}

namespace intarsia::runtime {

using Tensor = ::itx_tensor;

/// A tensor with memory of its own, not initialised.
Status makeTensor(itx_dtype dtype, const int64_t *shape, size_t rank, Tensor &tensor);
Status loadNpy(const std::string &path, Tensor &tensor);
Status writeNpy(const Tensor &tensor, OutputFile &file);
Status saveNpy(const Tensor &tensor, const std::string &path);

} // namespace intarsia::runtime

#endif
