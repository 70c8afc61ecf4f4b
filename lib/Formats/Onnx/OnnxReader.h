//===- OnnxReader.h - Messages of ONNX files ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ONNX_ONNXREADER_H
#define INTARSIA_LIB_FORMATS_ONNX_ONNXREADER_H

#include "lib/Formats/Onnx/ExternalFiles.h"
#include "lib/Formats/Onnx/OnnxModel.h"

namespace intarsia::onnx {

/// Reads a model from bytes that outlive it. `external` may be null. Returns what is wrong, and where; empty if nothing
/// is.
std::string readModel(std::string_view bytes, ExternalFiles *external, Model &model);

} // namespace intarsia::onnx

#endif
