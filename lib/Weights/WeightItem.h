//===- WeightItem.h - Tensors of the packed file -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_WEIGHTITEM_H
#define INTARSIA_LIB_WEIGHTS_WEIGHTITEM_H

#include "lib/Weights/TensorSource.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace intarsia::weights {

/// A tensor of the packed file: made from a recipe, or bytes that are there.
struct Item {
  std::string name, dtype;
  std::vector<int64_t> shape;    // in the file
  uint64_t bytes = 0, begin = 0; // in the file
  std::vector<char> data;        // if there is no source
  SharedSource source;
  std::shared_ptr<const TensorStorage> storage;
  std::vector<const ArchiveTensor *> tensors; // that are read
  bool mayBeInfinite = false;                 // data of the IR, such as masks
};

/// A part of the packed file that one thread makes: the pieces of an item's storage from `first` to `last`, or elements
/// if the storage has them in order, or bytes if the item has no storage.
struct Unit {
  const Item *item = nullptr;
  int64_t first = 0, last = 0;
  uint64_t fileOffset = 0, bytes = 0;
};

/// Divides an item into units, in their order. The file has its data at `dataBegin`.
void divide(const Item &item, uint64_t dataBegin, std::vector<Unit> &units);

/// Memory that grows and is not written until it is used: most sources give rows where they lie in their archive.
class Scratch {
public:
  char *reserve(size_t bytes) {
    if (bytes > capacity)
      memory = std::make_unique_for_overwrite<char[]>(capacity = bytes);
    return memory.get();
  }

private:
  std::unique_ptr<char[]> memory;
  size_t capacity = 0;
};

/// Memory that a thread uses for one unit after another.
struct UnitMemory {
  Scratch result, rows;
};
/// Returns the bytes that a unit stores, in the memory or in the source. An error names a value that cannot be
/// quantized.
llvm::Expected<llvm::StringRef> makeUnit(const Unit &unit, UnitMemory &memory);
/// Drops pages of mapped sources that a unit has read and nothing reads again.
void dropSources(const Unit &unit);

/// Drops the pages that lie in some memory of a mapped file.
void dropPages(const void *data, uint64_t bytes);
/// Copies elements, of 1, 2, 4 or 8 bytes, one after another to `to`, where they may be already.
void gatherElements(StoredRun run, int64_t count, unsigned elementBytes, char *to);

/// Returns true if no value of this type (a name of the safetensors format) is NaN or infinite.
bool areFinite(llvm::StringRef dtype, llvm::StringRef bytes);
/// Describes the first value of an item that is NaN or infinite: "tensor 'w' has NaN at [3, 5]".
std::string describeNonFinite(const Item &item);

} // namespace intarsia::weights

#endif
