//===- CheckWeights.cpp - Whether archives hold what a module reads -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Weights/CheckWeights.h"

#include "lib/Weights/Archives.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::weights;
using llvm::createStringError;

std::string intarsia::weights::typeText(StringRef dtype, ArrayRef<int64_t> shape) {
  return dtype.str() + " " + shapeText(shape);
}

/// Returns true if a weight of this type reads what an archive holds.
static bool agree(RankedTensorType type, const ArchiveTensor &stored) {
  ArrayRef<int64_t> shape = type.getShape(), storedShape(stored.shape);
  if (!type.getElementType().isInteger(4)) {
    // Integers without a sign are bits, whose meaning formats and ops know.
    auto bits = dyn_cast<IntegerType>(type.getElementType());
    bool areBits =
        bits && bits.isSignless() &&
        (stored.dtype == "U" + std::to_string(bits.getWidth()) || (bits.getWidth() == 8 && stored.dtype == "F8_E8M0"));
    // A word of 32 bits may be four bytes, which the last dimensions of the archive's tensor have.
    if (bits && bits.getWidth() == 32 && stored.dtype == "U8")
      return !shape.empty() && storedShape.size() >= shape.size() &&
             shape.drop_back() == storedShape.take_front(shape.size() - 1) &&
             ShapedType::getNumElements(storedShape.drop_front(shape.size() - 1)) == shape.back() * 4;
    return (areBits || safetensorsDtype(type.getElementType()) == stored.dtype) && shape == storedShape;
  }
  // Two values a byte; the last dimension may be several of bytes.
  return stored.dtype == "U8" && !shape.empty() && storedShape.size() >= shape.size() &&
         shape.drop_back() == storedShape.take_front(shape.size() - 1) && shape.back() % 2 == 0 &&
         ShapedType::getNumElements(storedShape.drop_front(shape.size() - 1)) == shape.back() / 2;
}

llvm::Expected<const ArchiveTensor *> intarsia::weights::findWeight(nn::WeightOp weight, Archives &archives) {
  auto tensor = archives.find(weight.getArchiveAttr(), weight.getKeyAttr());
  auto type = cast<RankedTensorType>(weight.getType());
  if (!tensor || agree(type, **tensor))
    return tensor;
  StringRef dtype = type.getElementType().isInteger(4) ? "I4" : safetensorsDtype(type.getElementType());
  return createStringError("tensor '" + (*tensor)->name + "' is " + typeText((*tensor)->dtype, (*tensor)->shape) +
                           " in its archive, the model reads " + typeText(dtype, type.getShape()));
}

llvm::Error intarsia::checkWeights(ModuleOp module, StringRef archiveDirectory) {
  weights::Archives archives(module, archiveDirectory);
  llvm::Error error = llvm::Error::success();
  module.walk([&](nn::WeightOp weight) {
    auto stored = weights::findWeight(weight, archives);
    if (stored)
      return WalkResult::advance();
    error = llvm::joinErrors(std::move(error), stored.takeError());
    return WalkResult::interrupt();
  });
  return error;
}
