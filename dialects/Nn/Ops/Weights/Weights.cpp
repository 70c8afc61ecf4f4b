//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/FileNames.h"
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Ops/Constants/Constants.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

LogicalResult ArchiveOp::verify() {
  if (getFile().empty())
    return emitOpError("file is empty, must name an archive");
  if (!isBelowDirectory(getFile()))
    return emitOpError() << "file is " << getFileAttr()
                         << ", which is not below the directory of the model: name archives from a directory that "
                            "holds them all, and give that with --archives";
  return success();
}

LogicalResult WeightOp::verify() {
  if (getKey().empty())
    return emitOpError("key is empty, must name a tensor of the archive");
  if (!cast<RankedTensorType>(getType()).hasStaticShape())
    return emitOpError() << "has type " << getType() << ", a weight has a static shape";
  return success();
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  Operation *symbol = symbolTable.lookupNearestSymbolFrom(*this, getArchiveAttr());
  if (!symbol)
    return emitOpError() << "archive " << getArchiveAttr() << " is not defined";
  if (auto constants = dyn_cast<ConstantsOp>(symbol)) {
    auto tensor = constants.getTensors().getAs<DenseResourceElementsAttr>(getKey());
    if (!tensor)
      return emitOpError() << getArchiveAttr() << " holds no tensor " << getKeyAttr();
    if (tensor.getType() != cast<ShapedType>(getType()))
      return emitOpError() << "has type " << getType() << ", " << getArchiveAttr() << " holds " << getKeyAttr()
                           << " as " << tensor.getType();
    return success();
  }
  if (!isa<ArchiveOp>(symbol))
    return emitOpError() << "archive " << getArchiveAttr() << " is a '" << symbol->getName()
                         << "', must be an 'nn.archive'";
  return success();
}
