//===- CheckWeights.cpp - Whether archives hold what a module reads -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Assemble/Assemble.h"
#include "lib/Assemble/PackWeights.h"

using namespace mlir;
using llvm::createStringError;

/// Elements of a block in MXFP4, which share a scale.
static constexpr int64_t mxfp4Block = 32;

std::string intarsia::assemble::typeText(StringRef dtype, ArrayRef<int64_t> shape) {
  return dtype.str() + " " + shapeText(shape);
}

llvm::Expected<intarsia::assemble::StoredWeight> intarsia::assemble::findWeight(nn::WeightOp weight,
                                                                                Archives &archives) {
  auto tensor = archives.find(weight.getArchiveAttr(), weight.getKeyAttr());
  if (!tensor)
    return tensor.takeError();
  StoredWeight stored = {*tensor};
  const SafetensorsEntry *differs = stored.tensor;
  auto type = cast<RankedTensorType>(weight.getType());
  StringRef dtype = safetensorsDtype(type.getElementType());
  SmallVector<int64_t> shape(type.getShape());
  if (weight.getMxfp4Scales()) {
    auto scales = archives.find(weight.getScalesArchiveAttr(), weight.getMxfp4ScalesAttr());
    if (!scales)
      return scales.takeError();
    stored.scales = *scales;
    dtype = "U8";
    shape.back() /= mxfp4Block;
    if (stored.scales->dtype != dtype || ArrayRef<int64_t>(stored.scales->shape) != ArrayRef<int64_t>(shape))
      differs = stored.scales;
    else
      shape.push_back(mxfp4Block / 2);
  }
  if (dtype == differs->dtype && ArrayRef<int64_t>(shape) == ArrayRef<int64_t>(differs->shape))
    return stored;
  return createStringError("tensor '" + differs->name + "' is " + typeText(differs->dtype, differs->shape) +
                           " in its archive, the model reads " + typeText(dtype, shape));
}

llvm::Error intarsia::checkWeights(ModuleOp module, StringRef archiveDirectory) {
  assemble::Archives archives(module, archiveDirectory);
  llvm::Error error = llvm::Error::success();
  module.walk([&](nn::WeightOp weight) {
    auto stored = assemble::findWeight(weight, archives);
    if (stored)
      return WalkResult::advance();
    error = llvm::joinErrors(std::move(error), stored.takeError());
    return WalkResult::interrupt();
  });
  return error;
}
