//===- Windows.cpp - Attributes of ops on windows of images -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Windows.h"

#include "dialects/Nn/Verify.h"

#include <limits>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

bool WindowAttributes::areComplete() const {
  return llvm::all_of(ArrayRef({strides, dilations, padsLow, padsHigh, beyond}),
                      [&](const Entries &entries) { return !entries || entries->size() == window.size(); });
}

WindowDimension WindowAttributes::operator[](unsigned dimension) const {
  auto entry = [&](const Entries &entries, int64_t otherwise) { return entries ? (*entries)[dimension] : otherwise; };
  return {.window = window[dimension],
          .stride = entry(strides, 1),
          .dilation = entry(dilations, 1),
          .padLow = entry(padsLow, 0),
          .padHigh = entry(padsHigh, 0),
          .beyond = entry(beyond, 0)};
}

LogicalResult nn::verifyWindows(Operation *op, Value image, const WindowAttributes &attributes, StringRef beyond) {
  if (failed(verifyLeastRank(op, "input", image, 3)))
    return failure();
  size_t spatial = typeOf(image).getRank() - 2;
  if (spatial > 3)
    return op->emitOpError() << "input has " << spatial << " spatial dimensions, the most are 3";
  struct {
    StringRef name;
    WindowAttributes::Entries entries;
    int64_t least;
  } all[] = {{"window sizes", attributes.window, 1}, {"strides", attributes.strides, 1},
             {"dilations", attributes.dilations, 1}, {"low pads", attributes.padsLow, 0},
             {"high pads", attributes.padsHigh, 0},  {beyond, attributes.beyond, 0}};
  for (const auto &[name, entries, least] : all) {
    if (!entries)
      continue;
    if (entries->size() != spatial)
      return op->emitOpError() << "has " << entries->size() << " " << name << " for " << spatial
                               << " spatial dimensions";
    // Products of two entries, or of one and a size, have 64 bits.
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    for (int64_t entry : *entries)
      if (entry < least || entry > most)
        return op->emitOpError() << "has " << entry << " among its " << name << ", the "
                                 << (entry < least ? "least is " : "most is ") << (entry < least ? least : most);
  }
  return success();
}

LogicalResult nn::verifyResultSize(Operation *op, unsigned dimension, WindowDimension window, int64_t size,
                                   int64_t resultSize) {
  if (resultSize >= 1)
    return success();
  return op->emitOpError() << "has a result of size " << resultSize << " in spatial dimension " << dimension
                           << ": its input has " << size << " positions and pads of " << window.padLow << " and "
                           << window.padHigh << ", a window reaches over " << window.extent();
}
