//===- Exchange.cpp - What all ranks of a group do together ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Exchange.h"

#include "intarsia/module_abi.h"
#include "lib/Formats/Dtype.h"
#include "lib/Runtime/Collectives/WorldState.h"

namespace intarsia::runtime {

/// Returns "an all-gather of 16 f32".
static std::string operationText(const Exchange &operation) {
  static const char *const names[] = {"an all-reduce",
                                      "an all-reduce by maximum",
                                      "an all-gather",
                                      "a reduce-scatter",
                                      "an all-to-all",
                                      "a broadcast",
                                      "a transfer",
                                      "a transfer",
                                      "a reduce-scatter",
                                      "an all-gather",
                                      "an all-reduce in INT8",
                                      "a reduce-scatter in INT8"};
  if (operation.kind == barrierKind)
    return "a barrier";
  std::string text = operation.kind < std::size(names) ? names[operation.kind] : "an all-to-all of unequal parts";
  const DtypeInfo *info = dtypeInfo(operation.element);
  return text + " of " + std::to_string(operation.elements) + " " + (info ? info->name : "bytes");
}

Status compareExchanges(WorldState &world, int32_t otherRank, const Exchange &other, const Exchange &own) {
  if (other.kind == own.kind && other.element == own.element && other.root == own.root &&
      (other.elements == own.elements || own.hasOwnElements))
    return Status::success();
  return world.fail(error(ITX_INVALID_ARGUMENT,
                          "the ranks of the world do different things: rank %d does %s, rank %d %s%s", otherRank,
                          operationText(other).c_str(), world.rank(), operationText(own).c_str(),
                          other.kind == own.kind && other.root != own.root ? " of another kind or root" : ""));
}

} // namespace intarsia::runtime
