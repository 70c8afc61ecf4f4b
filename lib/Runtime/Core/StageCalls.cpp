//===- StageCalls.cpp - Calls of ranks that have several stages of a pipeline -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/StageCalls.h"

#include "lib/Formats/Dtype.h"
#include "lib/Runtime/Collectives/World.h"

#include <cstring>

namespace intarsia::runtime {

StageCalls::StageCalls(const Module &module, const FunctionInfo &function)
    : module_(module), function_(function), world_(*module.world()), lock_(world_.mutex()), ranks_(function.stages),
      rank_(world_.rank() * ranks_ / world_.size()) {}

Status StageCalls::run(::itx_call &call, const StageTurn &item) {
  item_ = item;
  received_ = 0;
  int64_t begins = item.position + rank_;
  ITX_RETURN_IF_ERROR(sendUpTo(call.function->turn.receives == 0 ? begins : begins - 1));
  call.stageCalls = this;
  Status status = runCallOfWorld(call);
  call.stageCalls = nullptr;
  return status;
}

Status StageCalls::sendUpTo(int64_t time) {
  // They are in the order in which they are due: parts come to each turn in the same order.
  for (; !sends_.empty() && sends_.front().due <= time; sends_.pop_front())
    ITX_RETURN_IF_ERROR(exchangeNow(module_, *sends_.front().function, sends_.front().exchange));
  return Status::success();
}

Status StageCalls::keep(const ::itx_call &call, const CollectiveCall &given) {
  if (item_.due < 0)
    return error(ITX_CORRUPT, "function '%s' is the last stage of all, and sends something to the next",
                 call.function->name.c_str());
  uint64_t bytes = uint64_t(given.elements) * dtypeInfo(itx_dtype(given.element))->bytes;
  Send send = {item_.due, call.function, given, std::unique_ptr<uint8_t[]>(new uint8_t[bytes])};
  std::memcpy(send.data.get(), given.source, bytes);
  send.exchange.source = send.data.get();
  sends_.push_back(std::move(send));
  return Status::success();
}

Status StageCalls::exchange(::itx_call &call, const CollectiveCall &given, itx_event &event) {
  if (given.device && (given.kind == ITX_COLLECTIVE_SEND || given.kind == ITX_COLLECTIVE_RECEIVE))
    return error(ITX_CORRUPT, "function '%s' is one of several stages of a rank, and sends data in a device's memory",
                 call.function->name.c_str());
  if (given.kind == ITX_COLLECTIVE_BROADCAST_RESULT) {
    broadcast_ = given;
    if (isLast() && given.destination != given.source)
      std::memcpy(given.destination, given.source,
                  uint64_t(given.elements) * dtypeInfo(itx_dtype(given.element))->bytes);
    return Status::success();
  }
  if (given.kind == ITX_COLLECTIVE_SEND && isLast())
    return keep(call, given);
  ITX_RETURN_IF_ERROR(exchangeInMemory(call, given, event));
  if (given.kind == ITX_COLLECTIVE_RECEIVE && ++received_ == call.function->turn.receives)
    return sendUpTo(item_.position + rank_);
  return Status::success();
}

Status StageCalls::broadcastResult(void *data, uint64_t elements) {
  if (!broadcast_)
    return error(ITX_CORRUPT, "function '%s' gives no result to the other ranks", function_.name.c_str());
  CollectiveCall all = *broadcast_;
  all.source = all.destination = data;
  all.elements = int64_t(elements);
  return exchangeNow(module_, function_, all);
}

} // namespace intarsia::runtime
