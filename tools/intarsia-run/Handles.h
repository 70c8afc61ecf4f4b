//===- Handles.h - Handles of the C interface that free themselves ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_RUN_HANDLES_H
#define INTARSIA_TOOLS_RUN_HANDLES_H

#include "intarsia/runtime.h"
#include "lib/Runtime/Collectives/Launch.h"
#include "lib/Support/Status.h"

#include <memory>
#include <string>

namespace intarsia::run {

/// Carries a failure of the C interface to runSession.
struct Failure {
  std::string message;
  int exitCode = 1;
};

inline void check(itx_status status) {
  if (status != ITX_OK)
    throw Failure{itx_last_error(), status == ITX_RANK_LOST ? runtime::rankLostExit : 1};
}

inline void check(const Status &status) {
  if (!status.ok())
    throw Failure{status.message()};
}

struct FreeHandle {
  void operator()(itx_tensor *tensor) const { itx_tensor_free(tensor); }
  void operator()(itx_module *module) const { itx_module_free(module); }
  void operator()(itx_cache *cache) const { itx_cache_free(cache); }
  void operator()(itx_sequence *sequence) const { itx_sequence_free(sequence); }
};
using TensorHandle = std::unique_ptr<itx_tensor, FreeHandle>;
using ModuleHandle = std::unique_ptr<itx_module, FreeHandle>;
using CacheHandle = std::unique_ptr<itx_cache, FreeHandle>;
using SequenceHandle = std::unique_ptr<itx_sequence, FreeHandle>;

} // namespace intarsia::run

#endif
