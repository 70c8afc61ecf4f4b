//===- CallCollective.cpp - Exchanges of a call with other ranks -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/CallCollective.h"

#include "lib/Formats/Dtype.h"
#include "lib/Runtime/Collectives/Operations.h"
#include "lib/Runtime/Collectives/World.h"
#include "lib/Runtime/Core/Call.h"
#include "lib/Runtime/Core/Profile.h"
#include "lib/Runtime/Core/StageCalls.h"

namespace intarsia::runtime {

/// Refuses what a module cannot mean.
static Status checkCollective(const ::itx_call &call, const CollectiveCall &given) {
  const std::vector<Communicator *> &groups = call.module->groups();
  if (given.group >= groups.size() || given.kind > ITX_COLLECTIVE_BROADCAST_RESULT ||
      !dtypeInfo(itx_dtype(given.element)) || given.elements < 0 || given.rows < 0)
    return error(ITX_CORRUPT, "function '%s' exchanges %lld elements of type %u by operation %u in group %u of %zu",
                 call.function->name.c_str(), (long long)given.elements, given.element, given.kind, given.group,
                 groups.size());
  int32_t index = groups[given.group]->index();
  if ((given.kind == ITX_COLLECTIVE_ALL_GATHER_ROWS || given.kind == ITX_COLLECTIVE_REDUCE_SCATTER_ROWS ||
       given.kind == ITX_COLLECTIVE_REDUCE_SCATTER_ROWS_INT8) &&
      (given.rows == 0 ? given.elements != 0 : given.elements % given.rows != 0))
    return error(ITX_CORRUPT, "function '%s' exchanges %lld rows of %lld elements in all", call.function->name.c_str(),
                 (long long)given.rows, (long long)given.elements);
  if (given.device && given.kind == ITX_COLLECTIVE_BROADCAST_RESULT)
    return error(ITX_CORRUPT,
                 "function '%s' broadcasts a result in the memory of a device, results are broadcast in the "
                 "host's",
                 call.function->name.c_str());
  bool isTransfer = given.kind == ITX_COLLECTIVE_SEND || given.kind == ITX_COLLECTIVE_RECEIVE;
  if (isTransfer && index != (given.kind == ITX_COLLECTIVE_SEND ? 0 : 1))
    return error(
        ITX_CORRUPT, "function '%s' %s, which is rank %d of group %u: the first of a group sends to the second",
        call.function->name.c_str(), given.kind == ITX_COLLECTIVE_SEND ? "sends" : "receives", index, given.group);
  return Status::success();
}

/// Runs the operation.
static Status run(Communicator &group, const CollectiveCall &given) {
  auto dtype = itx_dtype(given.element);
  auto elements = uint64_t(given.elements), rows = uint64_t(given.rows), rowElements = rows ? elements / rows : 0;
  switch (given.kind) {
  case ITX_COLLECTIVE_ALL_REDUCE:
    return allReduce(group, Reduction::Sum, dtype, given.destination, given.source, elements);
  case ITX_COLLECTIVE_ALL_REDUCE_MAX:
    return allReduce(group, Reduction::Maximum, dtype, given.destination, given.source, elements);
  case ITX_COLLECTIVE_ALL_GATHER:
    return allGather(group, dtype, given.destination, given.source, elements);
  case ITX_COLLECTIVE_REDUCE_SCATTER:
    return reduceScatter(group, Reduction::Sum, dtype, given.destination, given.source, elements);
  case ITX_COLLECTIVE_ALL_TO_ALL:
    return allToAll(group, dtype, given.destination, given.source, elements);
  case ITX_COLLECTIVE_BROADCAST:
  case ITX_COLLECTIVE_BROADCAST_RESULT:
    return broadcast(group, dtype, 0, given.destination, given.source, elements);
  case ITX_COLLECTIVE_REDUCE_SCATTER_ROWS:
    return reduceScatterRows(group, Reduction::Sum, dtype, given.destination, given.source, rows, rowElements);
  case ITX_COLLECTIVE_ALL_GATHER_ROWS:
    return allGatherRows(group, dtype, given.destination, given.source, rows, rowElements);
  case ITX_COLLECTIVE_ALL_REDUCE_INT8:
    return allReduce(group, Reduction::SumInt8, dtype, given.destination, given.source, elements);
  case ITX_COLLECTIVE_REDUCE_SCATTER_ROWS_INT8:
    return reduceScatterRows(group, Reduction::SumInt8, dtype, given.destination, given.source, rows, rowElements);
  case ITX_COLLECTIVE_SEND:
    return send(group, dtype, given.source, elements);
  default:
    return receive(group, dtype, given.destination, elements);
  }
}

/// Names of the operations by their kind.
static const char *const names[] = {"all-reduce", "all-reduce",     "all-gather", "reduce-scatter", "all-to-all",
                                    "broadcast",  "send",           "receive",    "reduce-scatter", "all-gather",
                                    "all-reduce", "reduce-scatter", "broadcast"};

static const char *labelOf(const Module &module, const CollectiveCall &given) {
  const std::vector<std::string> &labels = module.manifest().labels;
  return given.label < labels.size() ? labels[given.label].c_str() : "";
}

Status exchangeNow(const Module &module, const FunctionInfo &function, const CollectiveCall &given) {
  const char *label = labelOf(module, given);
  bool profiled = isProfiling();
  int64_t beginNs = profiled ? profileClockNs() : 0;
  Status status = run(*module.groups()[given.group], given);
  if (profiled)
    recordEvent({"collective", names[given.kind], label, beginNs, profileClockNs(), 0, 0});
  if (status.ok())
    return status;
  return error(status.code(), "function '%s': %s of '%s': %s", function.name.c_str(), names[given.kind], label,
               status.message().c_str());
}

/// Takes part in the broadcasts of results of earlier calls that come before this exchange (LateBroadcasts.h).
static Status finishEarlierCalls(::itx_call &call, const CollectiveCall &given) {
  World &world = *call.module->world();
  int64_t stages = call.function->stages;
  if (given.kind == ITX_COLLECTIVE_BROADCAST_RESULT)
    return call.results == Results::Later ? Status::success() : world.late().finish();
  if (given.kind != ITX_COLLECTIVE_SEND || stages == 1)
    return Status::success();
  auto behind = uint64_t(stages - 1 - world.rank() * stages / world.size());
  return call.number > behind ? world.late().finish(call.number - behind) : Status::success();
}

/// Lets this rank get a result after the call, unless it is the one that gives it.
static Status broadcastLater(::itx_call &call, const CollectiveCall &given) {
  const Communicator &group = *call.module->groups()[given.group];
  const World &world = *call.module->world();
  int64_t stages = call.function->stages, owner = group.ranks()[0] * stages / world.size();
  if (owner != stages - 1)
    return error(
        ITX_UNSUPPORTED,
        "function '%s': a result is of stage %lld of %lld, only those of the last stage can be taken after the "
        "call",
        call.function->name.c_str(), (long long)owner + 1, (long long)stages);
  if (group.index() == 0)
    return exchangeNow(*call.module, *call.function, given);
  std::vector<std::shared_ptr<void>> memory;
  for (const Tensor &output : call.outputs)
    memory.push_back(output.data);
  call.module->world()->late().add(call.number, call.module,
                                   [module = call.module, function = call.function, given, memory = std::move(memory)] {
                                     return exchangeNow(*module, *function, given);
                                   });
  return Status::success();
}

/// Finds the group of devices that makes an exchange; null if it goes by way of the host's memory.
static Status findDevices(const ::itx_call &call, const CollectiveCall &given, DeviceGroup *&devices) {
  devices = nullptr;
  Communicator &group = *call.module->groups()[given.group];
  bool isRounded =
      given.kind == ITX_COLLECTIVE_ALL_REDUCE_INT8 || given.kind == ITX_COLLECTIVE_REDUCE_SCATTER_ROWS_INT8;
  DeviceGroups *all = call.module->deviceGroups();
  if (!given.device || !all || (isRounded && !group.isOnOneHost()))
    return Status::success();
  return all->find(group, devices);
}

/// Starts an exchange that the devices make.
static Status startOnDevices(::itx_call &call, const CollectiveCall &given, DeviceGroup &devices, itx_event &event) {
  DeviceExchange exchange;
  // Nothing is rounded between ranks of one host.
  exchange.kind = given.kind == ITX_COLLECTIVE_ALL_REDUCE_INT8            ? ITX_COLLECTIVE_ALL_REDUCE
                  : given.kind == ITX_COLLECTIVE_REDUCE_SCATTER_ROWS_INT8 ? ITX_COLLECTIVE_REDUCE_SCATTER_ROWS
                                                                          : given.kind;
  exchange.element = itx_dtype(given.element);
  exchange.destination = given.destination;
  exchange.source = given.source;
  exchange.elements = uint64_t(given.elements);
  exchange.rows = uint64_t(given.rows);
  exchange.name = names[given.kind];
  exchange.label = labelOf(*call.module, given);
  call.module->deviceGroups()->beginExchange(*call.module->groups()[given.group]);
  Status status = devices.start(given.queue, exchange, call.after.data(), uint32_t(call.after.size()), event);
  return status.ok() ? status
                     : error(status.code(), "function '%s': %s of '%s': %s", call.function->name.c_str(), exchange.name,
                             exchange.label, status.message().c_str());
}

/// Makes an exchange of data in a device's memory by way of the host's.
static Status runStaged(::itx_call &call, const CollectiveCall &given) {
  const Communicator &group = *call.module->groups()[given.group];
  auto elements = uint64_t(given.elements), rows = uint64_t(given.rows), members = uint64_t(group.size());
  uint64_t sourceElements = elements, destinationElements = elements;
  uint64_t ownRows = rows ? (rows + members - 1) / members * (elements / rows) : 0; // elements of a member's rows
  switch (given.kind) {
  case ITX_COLLECTIVE_ALL_GATHER:
    destinationElements = elements * members;
    break;
  case ITX_COLLECTIVE_REDUCE_SCATTER:
    destinationElements = elements / members;
    break;
  case ITX_COLLECTIVE_REDUCE_SCATTER_ROWS:
  case ITX_COLLECTIVE_REDUCE_SCATTER_ROWS_INT8:
    destinationElements = ownRows;
    break;
  case ITX_COLLECTIVE_ALL_GATHER_ROWS:
    sourceElements = ownRows;
    break;
  default:
    break;
  }
  uint64_t bytes = dtypeInfo(itx_dtype(given.element))->bytes;
  uint64_t sourceBytes = given.source ? sourceElements * bytes : 0;
  uint64_t destinationBytes = given.destination ? destinationElements * bytes : 0;
  void *source = call.exchangeSource.reserve(sourceBytes);
  void *destination = call.exchangeDestination.reserve(destinationBytes);
  if (!source || !destination)
    return error(ITX_OUT_OF_MEMORY, "no memory for the %llu bytes that ranks exchange by way of the host",
                 (unsigned long long)(sourceBytes + destinationBytes));
  itx_event event = 0;
  if (given.source)
    ITX_RETURN_IF_ERROR(given.device->copy(given.queue, source, MemoryKind::Host, given.source, MemoryKind::Device,
                                           sourceBytes, call.after.data(), uint32_t(call.after.size()), event));
  ITX_RETURN_IF_ERROR(given.device->wait(event));
  CollectiveCall onHost = given;
  onHost.device = nullptr;
  onHost.source = given.source ? source : nullptr;
  onHost.destination = given.destination ? destination : nullptr;
  ITX_RETURN_IF_ERROR(exchangeNow(*call.module, *call.function, onHost));
  if (!given.destination)
    return Status::success();
  // `call.after` holds the events of all work that has used the destination before.
  ITX_RETURN_IF_ERROR(given.device->copy(given.queue, given.destination, MemoryKind::Device, destination,
                                         MemoryKind::Host, destinationBytes, call.after.data(),
                                         uint32_t(call.after.size()), event));
  return given.device->wait(event);
}

Status exchangeInMemory(::itx_call &call, const CollectiveCall &given, itx_event &event) {
  event = 0;
  DeviceGroup *devices = nullptr;
  ITX_RETURN_IF_ERROR(findDevices(call, given, devices));
  if (devices)
    return startOnDevices(call, given, *devices, event);
  return given.device ? runStaged(call, given) : exchangeNow(*call.module, *call.function, given);
}

Status runCollective(::itx_call &call, const CollectiveCall &given, itx_event &event) {
  event = 0;
  ITX_RETURN_IF_ERROR(checkCollective(call, given));
  if (call.stageCalls)
    return call.stageCalls->exchange(call, given, event);
  if (given.kind == ITX_COLLECTIVE_BROADCAST_RESULT && call.results == Results::None)
    return Status::success();
  ITX_RETURN_IF_ERROR(finishEarlierCalls(call, given));
  if (given.kind == ITX_COLLECTIVE_BROADCAST_RESULT && call.results == Results::Later)
    return broadcastLater(call, given);
  return exchangeInMemory(call, given, event);
}

} // namespace intarsia::runtime
