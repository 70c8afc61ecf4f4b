//===- ExternalData.h - Data of tensors beside an ONNX file
//--------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_FORMATS_ONNX_EXTERNALDATA_H
#define INTARSIA_FORMATS_ONNX_EXTERNALDATA_H

#include "lib/Formats/Onnx/ExternalFiles.h"
#include "lib/Formats/Onnx/OnnxModel.h"
#include <string_view>
#include <utility>
#include <vector>

namespace intarsia::onnx {

/// Finds the data of a tensor by its entries `location`, `offset` and `length`. Throws Malformed for entries that no
/// data has, and if `files` is null.
void readExternal(ExternalFiles *files, const std::vector<std::pair<std::string_view, std::string_view>> &entries,
                  Tensor &tensor);

} // namespace intarsia::onnx

#endif
