//===- WeightItem.h - Tensors of the packed file -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_WEIGHTITEM_H
#define INTARSIA_LIB_ASSEMBLE_WEIGHTITEM_H

#include "dialects/Nn/Nn.h"
#include "intarsia/BlockPanels.h"
#include "intarsia/GgmlTypes.h"
#include "lib/Runtime/Core/Safetensors.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace intarsia::assemble {

/// A tensor of the packed file.
struct Item {
  std::string name, dtype;
  std::vector<int64_t> fileShape;
  unsigned elementBytes = 0;
  std::vector<const runtime::SafetensorsEntry *> parts;
  std::vector<const GgmlType *> blocks; // of the parts that are decoded, null for others; empty if none is
  std::vector<char> data;               // of constants that the IR holds
  std::shared_ptr<runtime::SafetensorsEntry> dataEntry; // the part that is `data`
  bool transposed = false;
  int64_t panelWidth = 0;              // 0: row-major
  int64_t slices = 1;                  // of the rows, whose panels alternate
  int64_t rows = 0, columns = 0;       // of the whole, for panels; of the parts, if transposed
  int64_t matrixRows = 0;              // of one of the matrices, for panels
  std::vector<int64_t> shape, strides; // of the elements in the joined parts, if they lie in another order
  nn::BlockFormatAttr format;          // the numbers are rounded to it
  std::optional<BlockPanels> coded;    // codes and scales are stored so, else numbers
  std::vector<float> tensorScales;     // of each part, where the format has them
  bool mxfp4 = false;                  // the parts are blocks and scales; strides are there too
  bool isReordered() const { return transposed || !strides.empty(); }
  uint64_t bytes = 0, begin = 0; // in the packed file
};

/// A piece of the packed file that one thread makes: bytes of an item, or its panels, from `first` to `last`.
struct Unit {
  const Item *item = nullptr;
  uint64_t first = 0, last = 0;
  uint64_t fileOffset = 0, bytes = 0;
};

/// The type of the blocks that a part is decoded from; null for parts that hold numbers.
const GgmlType *blocksOf(const Item &item, size_t part);
/// Bytes of an element as the archive has it.
unsigned sourceBytes(const Item &item);
uint64_t elementsOf(const Item &item, size_t part);
/// Rows of the whole before a panel: those of a matrix begin a panel of their own.
int64_t rowsBefore(const Item &item, uint64_t panel);
/// The panel of the rows in their order that is stored as the panel of this number; of other items the same number.
uint64_t panelStoredAs(const Item &item, uint64_t number);
/// Drops pages of a mapped source that nothing reads again.
void dropPages(const void *data, uint64_t bytes);

/// "i4-f16-32", "q4_k". Unlike printing the attribute it needs nothing of the context, which others may be changing.
std::string nameOf(mlir::Attribute format);

/// Whether no number of this type (a name of the safetensors format) is NaN or infinite.
bool areFinite(llvm::StringRef dtype, llvm::StringRef bytes);
/// Which number of an item that holds such numbers is the first: "tensor 'w' has NaN at [3, 5]".
std::string describeNonFinite(const Item &item);

/// Fills in the scale of each part of an item whose format has one for the tensor.
llvm::Error findTensorScales(Item &item);
/// What a unit stores, in the buffer or where the source has it. An error names a number that has no code.
llvm::Expected<llvm::StringRef> makeUnit(const Unit &unit, std::vector<char> &buffer);

} // namespace intarsia::assemble

#endif
