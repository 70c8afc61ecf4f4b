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

/// Runs the operation, and notes its time and its name.
static Status runNow(const Module &module, const FunctionInfo &function, const CollectiveCall &given) {
  static const char *const names[] = {"all-reduce", "all-reduce",     "all-gather", "reduce-scatter", "all-to-all",
                                      "broadcast",  "send",           "receive",    "reduce-scatter", "all-gather",
                                      "all-reduce", "reduce-scatter", "broadcast"};
  const std::vector<std::string> &labels = module.manifest().labels;
  const char *label = given.label < labels.size() ? labels[given.label].c_str() : "";
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
    return runNow(*call.module, *call.function, given);
  std::vector<std::shared_ptr<void>> memory;
  for (const Tensor &output : call.outputs)
    memory.push_back(output.data);
  call.module->world()->late().add(call.number, call.module,
                                   [module = call.module, function = call.function, given, memory = std::move(memory)] {
                                     return runNow(*module, *function, given);
                                   });
  return Status::success();
}

Status runCollective(::itx_call &call, const CollectiveCall &given) {
  ITX_RETURN_IF_ERROR(checkCollective(call, given));
  if (given.kind == ITX_COLLECTIVE_BROADCAST_RESULT && call.results == Results::None)
    return Status::success();
  ITX_RETURN_IF_ERROR(finishEarlierCalls(call, given));
  if (given.kind == ITX_COLLECTIVE_BROADCAST_RESULT && call.results == Results::Later)
    return broadcastLater(call, given);
  return runNow(*call.module, *call.function, given);
}

} // namespace intarsia::runtime
