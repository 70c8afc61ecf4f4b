//===- EventOrder.h - What has happened once an event has --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_EVENTORDER_H
#define INTARSIA_LIB_LOWER_EVENTORDER_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace intarsia::lower {

/// The partial order of the events of a straight-line program, to leave out waits that others imply.
class EventOrder {
public:
  /// Records an event that happens after those in `after`, all of them recorded before.
  void add(mlir::Value event, mlir::ValueRange after) {
    unsigned number = events.size();
    llvm::BitVector before(number + 1);
    before.set(number);
    for (mlir::Value other : after)
      before |= implied[indices.at(other)];
    indices[event] = number;
    events.push_back(event);
    implied.push_back(std::move(before));
  }

  /// The events of the list that no other one of it implies, in program order, each once.
  llvm::SmallVector<mlir::Value> prune(mlir::ValueRange list) const {
    llvm::BitVector wanted(events.size()), impliedByOthers(events.size());
    for (mlir::Value event : list)
      wanted.set(indices.at(event));
    for (unsigned number : wanted.set_bits()) {
      llvm::BitVector before = implied[number];
      before.reset(number);
      impliedByOthers |= before;
    }
    wanted.reset(impliedByOthers);
    llvm::SmallVector<mlir::Value> result;
    for (unsigned number : wanted.set_bits())
      result.push_back(events[number]);
    return result;
  }

  /// All events that nothing waits for yet.
  llvm::SmallVector<mlir::Value> last() const { return prune(events); }

private:
  llvm::DenseMap<mlir::Value, unsigned> indices;
  llvm::SmallVector<mlir::Value> events;
  llvm::SmallVector<llvm::BitVector> implied; // of each event: itself and what has happened before it
};

} // namespace intarsia::lower

#endif
