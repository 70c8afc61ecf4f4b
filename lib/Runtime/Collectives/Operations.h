//===- Operations.h - Collective operations of a group -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All members call the same operation with the same sizes. Data are in memory of the host, at any alignment. Each
// returns when this rank's part is done: its source may be changed and its destination read. An error is the world's
// failure, which all ranks get, or ITX_INVALID_ARGUMENT for arguments that no rank can use.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_OPERATIONS_H
#define INTARSIA_RUNTIME_COLLECTIVES_OPERATIONS_H

#include "lib/Runtime/Collectives/Communicator.h"
#include "lib/Runtime/Collectives/Reduce.h"

namespace intarsia::runtime {

/// destination[i] = source of member 0 [i] + source of member 1 [i] + …, added in this order, with the same bits on all
/// ranks. Between hosts sums of the members on a host are added. The destination may be the source.
Status allReduce(Communicator &group, Reduction reduction, itx_dtype dtype, void *destination, const void *source,
                 uint64_t elements);

/// The member's part of such a sum: `elements` in the source, which are divisible by the members.
Status reduceScatter(Communicator &group, Reduction reduction, itx_dtype dtype, void *destination, const void *source,
                     uint64_t elements);

/// The member's rows of such a sum of rows of `rowElements`: each gets ceil(rows / members), in their order; what is
/// behind the last row repeats it.
Status reduceScatterRows(Communicator &group, Reduction reduction, itx_dtype dtype, void *destination,
                         const void *source, uint64_t rows, uint64_t rowElements);

/// Puts the rows that reduceScatterRows has shared together again: the source has ceil(rows / members), the destination
/// all. Nothing is exchanged where each member has all of them.
Status allGatherRows(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t rows,
                     uint64_t rowElements);

/// Puts the sources of all members one after another. `elements` is the number of this member's, `counts` those of all;
/// null: they may be unequal and are read from the others. The source may lie at its place in the destination.
Status allGather(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t elements,
                 const uint64_t *counts = nullptr);

/// Sends the i-th of equal parts of the source to member i and puts the parts of all one after another.
Status allToAll(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t elements);

/// The same with parts of sendCounts[i] elements to and receiveCounts[i] from member i.
Status allToAllUnequal(Communicator &group, itx_dtype dtype, void *destination, const void *source,
                       const uint64_t *sendCounts, const uint64_t *receiveCounts);

/// Copies the data of one member to all. The source is read by the root alone, and may be the destination.
Status broadcast(Communicator &group, itx_dtype dtype, size_t root, void *destination, const void *source,
                 uint64_t elements);

/// Sends to the other one of a group of two. It returns before that has received when two rounds hold the data.
Status send(Communicator &group, itx_dtype dtype, const void *source, uint64_t elements);
Status receive(Communicator &group, itx_dtype dtype, void *destination, uint64_t elements);

/// Returns when all members have come.
Status barrier(Communicator &group);

} // namespace intarsia::runtime

#endif
