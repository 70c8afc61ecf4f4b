//===- WeightItem.h - Tensors of the packed file -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_WEIGHTITEM_H
#define INTARSIA_LIB_ASSEMBLE_WEIGHTITEM_H

#include "dialects/Nn/Nn.h"
#include "intarsia/Quantize/BlockPanels.h"
#include "lib/Formats/GgmlTypes.h"
#include "lib/Formats/Safetensors.h"
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
  std::vector<const SafetensorsEntry *> parts;
  std::vector<const GgmlType *> blocks; // of the parts that are decoded, null for others; empty if none is
  std::vector<char> data;               // of constants that the IR holds
  std::shared_ptr<SafetensorsEntry> dataEntry; // the part that is `data`
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

/// Returns the type of the blocks that a part is decoded from; null for parts that are not blocks.
const GgmlType *blocksOf(const Item &item, size_t part);
/// Bytes of an element as the archive has it.
unsigned sourceBytes(const Item &item);
uint64_t elementsOf(const Item &item, size_t part);
/// Returns the rows of the tensor before a panel; every matrix begins a new panel.
int64_t rowsBefore(const Item &item, uint64_t panel);
/// Maps the index of a stored panel to its logical panel index; they differ only in items with several slices.
uint64_t panelStoredAs(const Item &item, uint64_t number);
/// Drops pages of a mapped source that nothing reads again.
void dropPages(const void *data, uint64_t bytes);

/// "i4-f16-32", "q4_k". Unlike printing the attribute it needs nothing of the context, which others may be changing.
std::string nameOf(mlir::Attribute format);

/// Returns true if no value of this type (a name of the safetensors format) is NaN or infinite.
bool areFinite(llvm::StringRef dtype, llvm::StringRef bytes);
/// Describes the first value of an item that is NaN or infinite: "tensor 'w' has NaN at [3, 5]".
std::string describeNonFinite(const Item &item);

/// Fills in the scale of each part of an item whose format has one for the tensor.
llvm::Error findTensorScales(Item &item);
/// Returns the bytes that a unit stores, in the buffer or in the source. An error names a value that has no code.
llvm::Expected<llvm::StringRef> makeUnit(const Unit &unit, std::vector<char> &buffer);

} // namespace intarsia::assemble

#endif
