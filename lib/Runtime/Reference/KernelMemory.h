//===- KernelMemory.h - Temporary memory of kernels that cannot handle running out of it ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_REFERENCE_KERNELMEMORY_H
#define INTARSIA_RUNTIME_REFERENCE_KERNELMEMORY_H

#include "lib/Support/Status.h"

#include <cstddef>
#include <cstdint>

namespace intarsia::runtime {

/// A kernel of an object: buffers are inputs, then outputs, at addresses that the host can follow.
using ReferenceKernel = void (*)(void *const *buffers, const int64_t *sizes);

/// Runs a kernel on the calling thread. The kernel's temporaries may take `limit` bytes; ITX_OUT_OF_MEMORY if it wants
/// more, ITX_INTERNAL if it frees what it has not allocated. `what` names the kernel. When this returns, all
/// temporaries are freed.
Status runKernel(ReferenceKernel kernel, void *const *buffers, const int64_t *sizes, uint64_t limit,
                 const std::string &what);

/// The `malloc` and `free` of kernels. They leave the kernel by a long jump where C's functions would fail.
void *allocateTemporary(size_t bytes);
void freeTemporary(void *data);

} // namespace intarsia::runtime

#endif
