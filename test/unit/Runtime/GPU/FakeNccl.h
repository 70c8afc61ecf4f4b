//===- FakeNccl.h - A library between GPUs of several processes, for tests ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIME_GPU_FAKENCCL_H
#define INTARSIA_TEST_UNIT_RUNTIME_GPU_FAKENCCL_H

#include "lib/Runtime/GPU/NcclApi.h"

namespace intarsia::testing {

class FakeDriver;

/// Stands in for NCCL between processes that are forked after this object was made, each with one FakeDriver. What is
/// put on a stream is done by the stream's thread, which waits for the other ranks; exchanges are in shared memory. As
/// with NCCL, ranks that do different things have undefined results: here they are an error of asyncError.
class FakeNccl {
public:
  static constexpr int largestSize = 4;
  static constexpr size_t mailboxBytes = 1 << 16; ///< of one message

  FakeNccl();
  ~FakeNccl();

  /// Returns the functions for the devices of this process.
  runtime::nccl::Api api(FakeDriver &driver, const char *version = "NCCL 2.27.3");

  struct Shared;

private:
  Shared *shared_;
};

} // namespace intarsia::testing

#endif
