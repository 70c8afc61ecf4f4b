//===- Driver.h - What a device must do for the runtime -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// There is one driver for each kind of device. test/unit/Runtime/DriverTest.cpp tests what the comments here say, with
// every driver.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_DRIVER_H
#define INTARSIA_RUNTIME_CORE_DRIVER_H

#include "intarsia/module_abi.h"
#include "lib/Runtime/Core/Memory.h"
#include "lib/Support/Status.h"

#include <vector>

namespace intarsia {
struct OperandInfo;
}

namespace intarsia::runtime {

/// One kernel launch.
struct Launch {
  const itx_kernel_entry *kernel = nullptr;
  const char *name = "";
  const char *label = "";
  void *const *buffers = nullptr;
  const int64_t *sizes = nullptr;
  const std::vector<OperandInfo> *operands = nullptr; // one for each buffer; null where the manifest has none
  ScratchBuffer *shared = nullptr;                    // of the call; lives until the launch's event has happened
};

/// All members may be called from several threads at once. Events are only valid for the driver that made them.
class Driver {
public:
  virtual ~Driver() = default;

  virtual const char *name() const = 0;
  /// Returns the JSON object of itx_device_info.
  virtual std::string info() const = 0;

  /// Returns memory aligned to ITX_BUFFER_ALIGNMENT, valid for 0 bytes too; null when out of memory.
  virtual void *allocate(uint64_t bytes) = 0;
  /// Frees memory of allocate(); null is allowed.
  virtual void release(void *data) = 0;

  /// Starts a kernel after the given events; `event` receives one that happens when it is done.
  virtual Status dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                          itx_event &event) = 0;
  /// Starts a copy after the given events.
  virtual Status copy(uint32_t queue, void *destination, const void *source, int64_t bytes, const itx_event *after,
                      uint32_t afterCount, itx_event &event) = 0;
  /// Waits until the event has happened; returns at once for 0.
  virtual Status wait(itx_event event) = 0;

  /// Sets how many threads of the host compute a launch, the caller among them; 0: as many as the driver chooses.
  virtual Status setThreads(int32_t threads) = 0;
  virtual int32_t threads() const = 0;
  /// Returns an error if an environment variable that the driver reads has an invalid value.
  virtual Status checkEnvironment() const = 0;
};

/// The drivers of this build, the host's CPU first.
const std::vector<Driver *> &drivers();
/// Returns the first driver, which runs the code that artifacts hold for the host.
inline Driver &hostDriver() { return *drivers().front(); }

} // namespace intarsia::runtime

#endif
