//===- HostOperations.h - Exchanges between hosts ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For groups with members on several hosts. The first member on each host speaks for the others there: what ranks of a
// host have is put together in its memory, goes between hosts once, and is handed out in memory. What has one receiver
// is sent to it. Operations.h says what each does; arguments are checked, and the exchange has begun.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_HOSTOPERATIONS_H
#define INTARSIA_RUNTIME_COLLECTIVES_HOSTOPERATIONS_H

#include "lib/Runtime/Collectives/Communicator.h"
#include "lib/Runtime/Collectives/SharedOperations.h"

namespace intarsia::runtime::across {

/// Elements of each host are added in the order of the ranks, then the sums of the hosts in their order.
Status allReduce(Communicator &group, const Reducer &reducer, void *destination, const void *source, uint64_t elements);
Status reduceScatterRows(Communicator &group, const Reducer &reducer, void *destination, const void *source,
                         const RowShares &shares, uint64_t rowElements);
/// `counts`: elements of each member.
Status allGather(Communicator &group, uint64_t elementBytes, void *destination, const void *source,
                 const std::vector<uint64_t> &counts);
Status exchangeParts(Communicator &group, void *destination, const void *source, uint64_t longest, const Parts &sent,
                     const Parts &received);
Status broadcast(Communicator &group, size_t root, void *data, uint64_t bytes);
/// To and from the other one of a group of two.
Status send(Communicator &group, const void *source, uint64_t bytes);
Status receive(Communicator &group, void *destination, uint64_t bytes);
Status barrier(Communicator &group);

} // namespace intarsia::runtime::across

#endif
