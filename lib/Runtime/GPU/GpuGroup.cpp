//===- GpuGroup.cpp - Ranks whose GPUs exchange data themselves -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuGroup.h"

#include "lib/Formats/Dtype.h"
#include "lib/Runtime/GPU/GpuDevice.h"

#include <algorithm>
#include <cstring>

namespace intarsia::runtime {

static_assert(sizeof(DeviceGroupId) == sizeof(nccl::UniqueId));

/// How long an abort waits for a call of the library to return by itself: one that only puts work on a stream takes
/// microseconds. One that waits for a rank that has ended returns because of the abort.
static constexpr std::chrono::seconds longestCall{1};

Status elementOf(itx_dtype dtype, nccl::Element &element) {
  static constexpr std::pair<itx_dtype, nccl::Element> elements[] = {
      {ITX_F32, nccl::elementFloat32}, {ITX_F16, nccl::elementFloat16}, {ITX_BF16, nccl::elementBfloat16},
      {ITX_F64, nccl::elementFloat64}, {ITX_I8, nccl::elementInt8},     {ITX_U8, nccl::elementUint8},
      {ITX_I32, nccl::elementInt32},   {ITX_I64, nccl::elementInt64}};
  for (const auto &[ours, theirs] : elements)
    if (ours == dtype) {
      element = theirs;
      return Status::success();
    }
  const DtypeInfo *info = dtypeInfo(dtype);
  return error(ITX_UNSUPPORTED, "GPUs do not add elements of type %s between ranks", info ? info->name : "?");
}

Status GpuGroup::check(nccl::Result result, const char *call) const {
  if (result == 0 || result == nccl::inProgress)
    return Status::success();
  return error(ITX_DEVICE_LOST,
               "%s of %s failed on the device '%s': %s; NCCL_DEBUG=WARN in the environment lets it say more", call,
               api_.text.c_str(), device_.name(), api_.errorText(result));
}

#define INTARSIA_TRY(function, ...) ITX_RETURN_IF_ERROR(check(api_.function(__VA_ARGS__), nccl::Symbols::function))

Status GpuGroup::join(const nccl::Api &api, GpuDevice &device, const DeviceGroupId &id, size_t index, size_t size,
                      std::unique_ptr<DeviceGroup> &group) {
  std::unique_ptr<GpuGroup> made(new GpuGroup(api, device, nullptr, size));
  nccl::UniqueId bytes;
  std::memcpy(bytes.bytes, id.data(), id.size());
  nccl::Handle communicator = nullptr;
  ITX_RETURN_IF_ERROR(made->check(api.join(&communicator, int(size), bytes, int(index)), nccl::Symbols::join));
  made->communicator_ = communicator;
  group = std::move(made);
  return Status::success();
}

GpuGroup::~GpuGroup() {
  if (communicator_ && !isAborted_)
    device_.useFor([&] { (void)api_.destroy(communicator_); });
}

void GpuGroup::abort() {
  if (isAborted_.exchange(true) || !communicator_)
    return;
  // A call that waits for other ranks ends because of the abort; another one is let return.
  std::unique_lock lock(mutex_, longestCall);
  device_.useFor([&] { (void)api_.abort(communicator_); });
}

Status GpuGroup::check() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || isAborted_)
    return Status::success();
  nccl::Result result = 0;
  INTARSIA_TRY(asyncError, communicator_, &result);
  return check(result, "an exchange");
}

Status GpuGroup::start(uint32_t queue, const DeviceExchange &exchange, const itx_event *after, uint32_t afterCount,
                       itx_event &event) {
  return device_.submit(queue, "collective", exchange.name, exchange.label, after, afterCount, event,
                        [&](void *stream) -> Status {
                          std::lock_guard lock(mutex_);
                          if (isAborted_)
                            return error(ITX_RANK_LOST, "the exchanges of this group were ended");
                          return put(exchange, stream);
                        });
}

/// Puts sums of rows on the stream, or the way back: reduceScatterRows and allGatherRows of Operations.h.
Status GpuGroup::putRows(const DeviceExchange &exchange, nccl::Element element, uint64_t elementBytes, void *stream) {
  bool gathers = exchange.kind == ITX_COLLECTIVE_ALL_GATHER_ROWS;
  uint64_t rows = exchange.rows, rowElements = exchange.elements / rows, each = (rows + size_ - 1) / size_;
  auto *source = static_cast<const char *>(exchange.source);
  auto *destination = static_cast<char *>(exchange.destination);
  uint64_t partBytes = each * rowElements * elementBytes, rowBytes = rowElements * elementBytes;
  if (each == rows && gathers)
    return device_.copyInStream(destination, source, rows * rowBytes, stream);
  if (each == rows) {
    INTARSIA_TRY(allReduce, source, destination, exchange.elements, element, nccl::operationSum, communicator_, stream);
    return Status::success();
  }
  if (rows % size_ == 0 && gathers) {
    INTARSIA_TRY(allGather, source, destination, each * rowElements, element, communicator_, stream);
    return Status::success();
  }
  if (rows % size_ == 0) {
    INTARSIA_TRY(reduceScatter, source, destination, each * rowElements, element, nccl::operationSum, communicator_,
                 stream);
    return Status::success();
  }
  INTARSIA_TRY(beginGroup);
  Status status;
  auto add = [&](nccl::Result result, const char *call) {
    if (status.ok())
      status = check(result, call);
  };
  for (uint64_t member = 0; member < size_; ++member) {
    uint64_t own = std::min(each, rows - std::min(rows, member * each));
    if (gathers && own != 0)
      add(api_.broadcast(source, destination + member * partBytes, own * rowElements, element, int(member),
                         communicator_, stream),
          nccl::Symbols::broadcast);
    if (!gathers && own != 0)
      add(api_.reduce(source + member * partBytes, destination, own * rowElements, element, nccl::operationSum,
                      int(member), communicator_, stream),
          nccl::Symbols::reduce);
    for (uint64_t row = own; !gathers && row < each; ++row) // what is behind the last row repeats it
      add(api_.reduce(source + (rows - 1) * rowBytes, destination + row * rowBytes, rowElements, element,
                      nccl::operationSum, int(member), communicator_, stream),
          nccl::Symbols::reduce);
  }
  add(api_.endGroup(), nccl::Symbols::endGroup);
  return status;
}

/// Puts an exchange on the stream.
Status GpuGroup::put(const DeviceExchange &exchange, void *stream) {
  if (exchange.elements == 0)
    return Status::success();
  const DtypeInfo *info = dtypeInfo(exchange.element);
  uint64_t elementBytes = info->bytes;
  auto *source = static_cast<const char *>(exchange.source);
  auto *destination = static_cast<char *>(exchange.destination);
  // Exchanges that add nothing copy their elements as bytes, whatever their type is.
  nccl::Element element = nccl::elementUint8;
  uint64_t elements = exchange.elements, bytes = elements * elementBytes;
  switch (exchange.kind) {
  case ITX_COLLECTIVE_ALL_REDUCE:
  case ITX_COLLECTIVE_ALL_REDUCE_MAX:
    ITX_RETURN_IF_ERROR(elementOf(exchange.element, element));
    INTARSIA_TRY(allReduce, source, destination, elements, element,
                 exchange.kind == ITX_COLLECTIVE_ALL_REDUCE ? nccl::operationSum : nccl::operationMaximum,
                 communicator_, stream);
    return Status::success();
  case ITX_COLLECTIVE_REDUCE_SCATTER:
    ITX_RETURN_IF_ERROR(elementOf(exchange.element, element));
    INTARSIA_TRY(reduceScatter, source, destination, elements / size_, element, nccl::operationSum, communicator_,
                 stream);
    return Status::success();
  case ITX_COLLECTIVE_REDUCE_SCATTER_ROWS:
    ITX_RETURN_IF_ERROR(elementOf(exchange.element, element));
    return putRows(exchange, element, elementBytes, stream);
  case ITX_COLLECTIVE_ALL_GATHER_ROWS: {
    DeviceExchange ofBytes = exchange;
    ofBytes.elements = bytes;
    return putRows(ofBytes, element, 1, stream);
  }
  case ITX_COLLECTIVE_ALL_GATHER:
    INTARSIA_TRY(allGather, source, destination, bytes, element, communicator_, stream);
    return Status::success();
  case ITX_COLLECTIVE_BROADCAST:
    INTARSIA_TRY(broadcast, source, destination, bytes, element, /*root=*/0, communicator_, stream);
    return Status::success();
  case ITX_COLLECTIVE_SEND:
    INTARSIA_TRY(send, source, bytes, element, /*peer=*/1, communicator_, stream);
    return Status::success();
  case ITX_COLLECTIVE_RECEIVE:
    INTARSIA_TRY(receive, destination, bytes, element, /*peer=*/0, communicator_, stream);
    return Status::success();
  case ITX_COLLECTIVE_ALL_TO_ALL:
    break;
  default:
    return error(ITX_UNSUPPORTED, "GPUs do not exchange data by operation %u", exchange.kind);
  }
  uint64_t part = bytes / size_;
  INTARSIA_TRY(beginGroup);
  Status status;
  for (uint64_t member = 0; member < size_ && status.ok(); ++member) {
    status = check(api_.send(source + member * part, part, element, int(member), communicator_, stream),
                   nccl::Symbols::send);
    if (status.ok())
      status = check(api_.receive(destination + member * part, part, element, int(member), communicator_, stream),
                     nccl::Symbols::receive);
  }
  Status ended = check(api_.endGroup(), nccl::Symbols::endGroup);
  return status.ok() ? ended : status;
}

} // namespace intarsia::runtime
