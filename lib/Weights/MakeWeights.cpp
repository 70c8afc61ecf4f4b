//===- MakeWeights.cpp - Units of the packed file -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/WeightItem.h"

#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace intarsia::weights {

void dropPages(const void *data, uint64_t bytes) {
  uintptr_t page = sysconf(_SC_PAGESIZE), begin = llvm::alignTo(reinterpret_cast<uintptr_t>(data), page);
  uintptr_t end = llvm::alignDown(reinterpret_cast<uintptr_t>(data) + bytes, page);
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

void divide(const Item &item, uint64_t dataBegin, std::vector<Unit> &units) {
  constexpr uint64_t unitBytes = 2 << 20; // about the size of a core's second-level cache
  // Steps are bytes, elements of which a granule is made as a whole, or pieces.
  int64_t steps = item.bytes, granule = 1;
  uint64_t stepBytes = 1;
  if (item.storage) {
    steps = item.storage->pieces;
    stepBytes = item.storage->pieceBytes;
    granule = item.storage->isInOrder ? item.source->granule() : 1;
  }
  int64_t stride = std::max<uint64_t>(1, unitBytes / std::max<uint64_t>(1, stepBytes * granule)) * granule;
  for (int64_t first = 0; stepBytes && first < steps; first += stride) {
    int64_t last = std::min(steps, first + stride);
    units.push_back({&item, first, last, dataBegin + item.begin + first * stepBytes, (last - first) * stepBytes});
  }
}

/// Makes one piece from its rows, in memory that is zero.
static llvm::Error makePiece(const Item &item, int64_t number, char *piece, Scratch &memory) {
  const TensorStorage &storage = *item.storage;
  const TensorSource &source = *item.source;
  int64_t columns = source.shape().back(), rowBytes = columns * source.elementBytes();
  auto [firstRow, lastRow] = storage.rowsOf(number);
  if (storage.isQuantized) {
    storage.clear(piece);
    for (int64_t row = firstRow; row < lastRow; ++row)
      if (llvm::Error error =
              source.storeQuantized(row * columns, columns, QuantizedTarget{storage, row - firstRow, piece}))
        return error;
    return llvm::Error::success();
  }
  char *scratch = memory.reserve((lastRow - firstRow) * rowBytes);
  llvm::SmallVector<StoredRun, 64> rows;
  for (int64_t row = firstRow; row < lastRow; ++row) {
    auto stored = source.read({row * columns, columns}, scratch + (row - firstRow) * rowBytes);
    if (!stored)
      return stored.takeError();
    rows.push_back(*stored);
  }
  storage.storeRows(rows, piece);
  return llvm::Error::success();
}

llvm::Expected<llvm::StringRef> makeUnit(const Unit &unit, UnitMemory &memory) {
  const Item &item = *unit.item;
  if (!item.storage)
    return llvm::StringRef(item.data.data() + unit.first, unit.bytes);
  char *result = memory.result.reserve(unit.bytes);
  if (item.storage->isInOrder) {
    int64_t count = unit.last - unit.first;
    auto stored = item.source->read({unit.first, count}, result);
    if (!stored)
      return stored.takeError();
    if (stored->stride == 1)
      return llvm::StringRef(stored->data, unit.bytes); // often still in the archive
    gatherElements(*stored, count, item.source->elementBytes(), result);
    return llvm::StringRef(result, unit.bytes);
  }
  std::memset(result, 0, unit.bytes);
  for (int64_t number = unit.first; number < unit.last; ++number) {
    char *piece = result + (number - unit.first) * item.storage->pieceBytes;
    if (llvm::Error error = makePiece(item, number, piece, memory.rows))
      return std::move(error);
  }
  return llvm::StringRef(result, unit.bytes);
}

void dropSources(const Unit &unit) {
  const Item &item = *unit.item;
  if (!item.storage)
    return;
  if (item.storage->isInOrder)
    return item.source->drop(unit.first, unit.last - unit.first);
  std::vector<TensorStorage::Rows> ranges;
  for (int64_t number = unit.first; number < unit.last; ++number)
    ranges.push_back(item.storage->rowsOf(number));
  llvm::sort(ranges, [](auto a, auto b) { return a.first < b.first; });
  int64_t columns = item.source->shape().back();
  for (size_t begin = 0, end; begin < ranges.size(); begin = end) {
    for (end = begin + 1; end < ranges.size() && ranges[end].first == ranges[end - 1].last;)
      ++end;
    int64_t first = ranges[begin].first, last = ranges[end - 1].last;
    item.source->drop(first * columns, (last - first) * columns);
  }
}

} // namespace intarsia::weights
