//===- CheckWeights.cpp - Whether archives hold what a module reads -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Assemble/Assemble.h"
#include "lib/Assemble/Mxfp4.h"
#include "lib/Assemble/PackWeights.h"

using namespace mlir;
using llvm::createStringError;

std::string intarsia::assemble::typeText(StringRef dtype, ArrayRef<int64_t> shape) {
  return dtype.str() + " " + shapeText(shape);
}

llvm::Error intarsia::checkWeights(ModuleOp module, StringRef archiveDirectory) {
  using namespace intarsia::assemble;
  Archives archives(module, archiveDirectory);
  llvm::Error error = llvm::Error::success();
  module.walk([&](nn::WeightOp weight) {
    auto entry = archives.find(weight.getArchiveAttr(), weight.getKeyAttr());
    if (!entry) {
      error = llvm::joinErrors(std::move(error), entry.takeError());
      return WalkResult::interrupt();
    }
    const SafetensorsEntry *stored = *entry;
    auto type = cast<RankedTensorType>(weight.getType());
    StringRef dtype = safetensorsDtype(type.getElementType());
    SmallVector<int64_t> shape(type.getShape());
    if (weight.getMxfp4Scales()) {
      auto scales = archives.find(weight.getScalesArchiveAttr(), weight.getMxfp4ScalesAttr());
      if (!scales) {
        error = llvm::joinErrors(std::move(error), scales.takeError());
        return WalkResult::interrupt();
      }
      dtype = "U8";
      shape.back() /= mxfp4Block;
      if ((*scales)->dtype != dtype || ArrayRef<int64_t>((*scales)->shape) != ArrayRef<int64_t>(shape))
        stored = *scales;
      else
        shape.push_back(mxfp4Block / 2);
    }
    if (dtype == stored->dtype && ArrayRef<int64_t>(shape) == ArrayRef<int64_t>(stored->shape))
      return WalkResult::advance();
    error = llvm::joinErrors(std::move(error),
                             createStringError("tensor '" + stored->name + "' is " +
                                               typeText(stored->dtype, stored->shape) +
                                               " in its archive, the model reads " + typeText(dtype, shape)));
    return WalkResult::interrupt();
  });
  return error;
}
