//===- KernelMemory.cpp - Temporary memory of kernels that cannot handle running out of it ----------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/KernelMemory.h"

#include "lib/Runtime/Core/Memory.h"

#include <csetjmp>

namespace intarsia::runtime {

namespace {

/// The header of a temporary, whose bytes follow it with the same alignment.
struct alignas(ITX_BUFFER_ALIGNMENT) Temporary {
  Temporary *previous;
  uint64_t bytes;
};

enum Ending { Returned = 0, OutOfMemory, FreesForeignMemory };

/// The temporaries of a running kernel. A long jump ends the kernel, so nothing here has a destructor.
struct Temporaries {
  Temporary *last = nullptr;
  uint64_t usedBytes = 0;
  uint64_t limit = 0;
  uint64_t wantedBytes = 0; ///< where memory runs out
  void *foreign = nullptr;  ///< where foreign memory is freed
  std::jmp_buf end;
};

} // namespace

/// The temporaries of the kernel that this thread runs; null if it runs none.
static thread_local Temporaries *running = nullptr;

void *allocateTemporary(size_t bytes) {
  Temporaries *temporaries = running;
  if (!temporaries)
    return nullptr;
  void *memory = nullptr;
  if (bytes <= temporaries->limit - temporaries->usedBytes)
    memory = allocateAligned(sizeof(Temporary) + bytes);
  if (!memory) {
    temporaries->wantedBytes = bytes;
    std::longjmp(temporaries->end, OutOfMemory);
  }
  Temporary *temporary = static_cast<Temporary *>(memory);
  *temporary = {temporaries->last, bytes};
  temporaries->last = temporary;
  temporaries->usedBytes += bytes;
  return temporary + 1;
}

void freeTemporary(void *data) {
  Temporaries *temporaries = running;
  if (!data || !temporaries)
    return;
  // Kernels have few temporaries at once and free the latest first.
  for (Temporary **link = &temporaries->last; *link; link = &(*link)->previous)
    if (*link + 1 == data) {
      Temporary *found = *link;
      *link = found->previous;
      temporaries->usedBytes -= found->bytes;
      freeAligned(found);
      return;
    }
  temporaries->foreign = data;
  std::longjmp(temporaries->end, FreesForeignMemory);
}

/// Calls the kernel. It has no local variables, whose values a long jump would leave undefined.
static Ending callKernel(Temporaries &temporaries, ReferenceKernel kernel, void *const *buffers, const int64_t *sizes) {
  switch (setjmp(temporaries.end)) {
  case Returned:
    kernel(buffers, sizes);
    return Returned;
  case OutOfMemory:
    return OutOfMemory;
  default:
    return FreesForeignMemory;
  }
}

Status runKernel(ReferenceKernel kernel, void *const *buffers, const int64_t *sizes, uint64_t limit,
                 const std::string &what) {
  Temporaries temporaries;
  temporaries.limit = limit;
  running = &temporaries;
  Ending ending = callKernel(temporaries, kernel, buffers, sizes);
  running = nullptr;
  while (Temporary *temporary = temporaries.last) {
    temporaries.last = temporary->previous;
    freeAligned(temporary);
  }
  if (ending == OutOfMemory)
    return error(ITX_OUT_OF_MEMORY,
                 "%s needs a temporary of %llu bytes on the reference device, which allows its temporaries %llu bytes "
                 "(ITX_REFERENCE_MEMORY_BYTES), of which %llu are in use",
                 what.c_str(), (unsigned long long)temporaries.wantedBytes, (unsigned long long)limit,
                 (unsigned long long)temporaries.usedBytes);
  if (ending == FreesForeignMemory)
    return error(ITX_INTERNAL, "%s frees memory at %p, which it has not allocated", what.c_str(), temporaries.foreign);
  return Status::success();
}

} // namespace intarsia::runtime
