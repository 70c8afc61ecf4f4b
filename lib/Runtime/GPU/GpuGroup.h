//===- GpuGroup.h - Ranks whose GPUs exchange data themselves ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUGROUP_H
#define INTARSIA_RUNTIME_GPU_GPUGROUP_H

#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/GPU/NcclApi.h"

#include <atomic>
#include <mutex>

namespace intarsia::runtime {

class GpuDevice;

/// A communicator of NCCL or RCCL. Exchanges go on the stream of a queue, like kernels.
class GpuGroup final : public DeviceGroup {
public:
  /// Joins; the device must have been entered.
  static Status join(const nccl::Api &api, GpuDevice &device, const DeviceGroupId &id, size_t index, size_t size,
                     std::unique_ptr<DeviceGroup> &group);
  ~GpuGroup() override;

  Status start(uint32_t queue, const DeviceExchange &exchange, const itx_event *after, uint32_t afterCount,
               itx_event &event) override;
  Status check() override;
  void abort() override;

private:
  GpuGroup(const nccl::Api &api, GpuDevice &device, nccl::Handle communicator, size_t size)
      : api_(api), device_(device), communicator_(communicator), size_(size) {}
  Status check(nccl::Result result, const char *call) const;
  Status put(const DeviceExchange &exchange, void *stream);
  Status putRows(const DeviceExchange &exchange, nccl::Element element, uint64_t elementBytes, void *stream);

  const nccl::Api &api_;
  GpuDevice &device_;
  nccl::Handle communicator_;
  const size_t size_;
  std::atomic<bool> isAborted_{false};
  std::timed_mutex mutex_; ///< while the library is called
};

/// Returns how the library counts elements of a type that it adds; ITX_UNSUPPORTED for types that it cannot add.
Status elementOf(itx_dtype dtype, nccl::Element &element);

} // namespace intarsia::runtime

#endif
