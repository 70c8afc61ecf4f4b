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
  std::vector<const GgmlType *> blocks;        // types of the parts that are decoded, null for others; empty if none is
  std::vector<char> data;                      // bytes of constants that the IR holds
  std::shared_ptr<SafetensorsEntry> dataEntry; // the part with the contents of `data`
  bool transposed = false;
  int64_t panelWidth = 0;              // 0: row-major
  int64_t slices = 1;                  // slices of the rows, whose panels alternate
  int64_t rows = 0, columns = 0;       // for panels those of the whole item; if transposed, those of the parts
  int64_t matrixRows = 0;              // for panels: rows of one matrix
  std::vector<int64_t> shape, strides; // view of the concatenated parts, if their elements are reordered
  nn::BlockFormatAttr format;          // the format that values are quantized to
  std::optional<BlockPanels> coded;    // layout of codes and scales; nullopt: values are stored
  std::vector<float> tensorScales;     // scale of each part, if the format has one for the tensor
  bool mxfp4 = false;                  // true if the parts are blocks and scales; then there are strides too
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
/// Returns the bytes of an element in the archive.
unsigned sourceBytes(const Item &item);
uint64_t elementsOf(const Item &item, size_t part);
/// Returns the rows of the tensor before a panel; every matrix begins a new panel.
int64_t rowsBefore(const Item &item, uint64_t panel);
/// Maps the index of a stored panel to its logical panel index; they differ only in items with several slices.
uint64_t panelStoredAs(const Item &item, uint64_t number);
/// Drops pages of a mapped source that nothing reads again.
void dropPages(const void *data, uint64_t bytes);

/// Returns the name of a format: "i4-f16-32", "q4_k". Unlike printing the attribute it does not use the context, which
/// other threads may be changing.
std::string nameOf(mlir::Attribute format);

/// Returns true if no value of this type (a name of the safetensors format) is NaN or infinite.
bool areFinite(llvm::StringRef dtype, llvm::StringRef bytes);
/// Describes the first value of an item that is NaN or infinite: "tensor 'w' has NaN at [3, 5]".
std::string describeNonFinite(const Item &item);

/// Sets the tensor scale of each part of an item, if its format has one.
llvm::Error findTensorScales(Item &item);
/// Returns the bytes that a unit stores, in the buffer or in the source. An error names a value that has no code.
llvm::Expected<llvm::StringRef> makeUnit(const Unit &unit, std::vector<char> &buffer);

} // namespace intarsia::assemble

#endif
