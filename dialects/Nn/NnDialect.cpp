//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

#include "dialects/Nn/NnDialect.cpp.inc"
#include "dialects/Nn/NnEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Nn/NnAttrs.cpp.inc"

void NnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Nn/NnAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Nn/NnOps.cpp.inc"
      >();
}

Operation *NnDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

//===-- Attributes of functions, arguments and results --------------------------------------------------------===//

static LogicalResult verifyName(Operation *op, const Twine &where, NamedAttribute attribute) {
  auto name = dyn_cast<StringAttr>(attribute.getValue());
  if (!name || name.empty())
    return op->emitOpError() << "nn.name of " << where << " is " << attribute.getValue()
                             << ", must be a string that is not empty";
  return success();
}

static LogicalResult verifySizes(Operation *op, const Twine &where, Type type, NamedAttribute attribute) {
  auto names = dyn_cast<ArrayAttr>(attribute.getValue());
  if (!names || !llvm::all_of(names, [](Attribute name) { return isa<StringAttr>(name); }))
    return op->emitOpError() << "nn.sizes of " << where << " is " << attribute.getValue()
                             << ", must be a list of strings";
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || !shaped.hasRank())
    return op->emitOpError() << "nn.sizes of " << where << " stands on " << type << ", which has no dimensions";
  if (static_cast<int64_t>(names.size()) != shaped.getRank())
    return op->emitOpError() << "nn.sizes of " << where << " has " << names.size() << " names, " << type << " has "
                             << shaped.getRank() << " dimensions";
  for (auto [dimension, name] : llvm::enumerate(names.getAsRange<StringAttr>()))
    if (!shaped.isDynamicDim(dimension) && !name.empty())
      return op->emitOpError() << "nn.sizes of " << where << " names dimension " << dimension << " '" << name.getValue()
                               << "', the type says " << shaped.getDimSize(dimension);
  return success();
}

static LogicalResult verifyUniqueName(FunctionOpInterface function, unsigned index, bool isResult, Attribute name) {
  for (unsigned other = 0; other != index; ++other) {
    Attribute otherName = isResult ? function.getResultAttr(other, "nn.name") : function.getArgAttr(other, "nn.name");
    if (otherName == name)
      return function->emitOpError() << (isResult ? "results " : "arguments ") << other << " and " << index
                                     << " are both named " << name;
  }
  return success();
}

LogicalResult NnDialect::verifyRegionArgAttribute(Operation *op, unsigned regionIndex, unsigned argIndex,
                                                  NamedAttribute attribute) {
  auto function = cast<FunctionOpInterface>(op);
  std::string where = "argument " + std::to_string(argIndex);
  Type type = function.getArgumentTypes()[argIndex];
  auto shaped = dyn_cast<ShapedType>(type);
  Type element = shaped ? shaped.getElementType() : type;
  StringRef name = attribute.getName();
  if (name == "nn.name") {
    if (failed(verifyName(op, where, attribute)))
      return failure();
    return verifyUniqueName(function, argIndex, /*isResult=*/false, attribute.getValue());
  }
  if (name == "nn.sizes")
    return verifySizes(op, where, type, attribute);
  if (name == "nn.default") {
    if (!isa<IntegerAttr>(attribute.getValue()))
      return op->emitOpError() << "nn.default of " << where << " is " << attribute.getValue() << ", must be an integer";
    if (!element.isIntOrFloat())
      return op->emitOpError() << "nn.default of " << where << " stands on " << type << ", which holds no numbers";
    return success();
  }
  if (name == "nn.range") {
    auto range = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
    if (!range || range.size() != 2 || range[0] >= range[1])
      return op->emitOpError() << "nn.range of " << where << " is " << attribute.getValue()
                               << ", must be array<i64: low, high> with low < high";
    if (!element.isInteger())
      return op->emitOpError() << "nn.range of " << where << " stands on " << type << ", which holds no integers";
    return success();
  }
  return op->emitOpError() << "argument attribute " << name << " of " << where
                           << " is unknown; known are nn.name, nn.sizes, nn.default, nn.range";
}

LogicalResult NnDialect::verifyRegionResultAttribute(Operation *op, unsigned regionIndex, unsigned resultIndex,
                                                     NamedAttribute attribute) {
  auto function = cast<FunctionOpInterface>(op);
  std::string where = "result " + std::to_string(resultIndex);
  StringRef name = attribute.getName();
  if (name == "nn.name") {
    if (failed(verifyName(op, where, attribute)))
      return failure();
    return verifyUniqueName(function, resultIndex, /*isResult=*/true, attribute.getValue());
  }
  if (name == "nn.sizes")
    return verifySizes(op, where, function.getResultTypes()[resultIndex], attribute);
  return op->emitOpError() << "result attribute " << name << " of " << where
                           << " is unknown; known are nn.name, nn.sizes";
}

LogicalResult NnDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == "nn.metadata") {
    if (!isa<DictionaryAttr>(attribute.getValue()))
      return op->emitOpError() << "nn.metadata is " << attribute.getValue() << ", must be a dictionary";
    return success();
  }
  if (name != "nn.size_limits")
    return success();
  if (!isa<FunctionOpInterface>(op))
    return op->emitOpError() << "nn.size_limits stands on an op that is no function";
  auto limits = dyn_cast<DictionaryAttr>(attribute.getValue());
  if (!limits)
    return op->emitOpError() << "nn.size_limits is " << attribute.getValue() << ", must be a dictionary";
  for (NamedAttribute limit : limits) {
    auto value = dyn_cast<IntegerAttr>(limit.getValue());
    if (!value || value.getValue().getSExtValue() <= 0)
      return op->emitOpError() << "nn.size_limits gives " << limit.getName().getValue() << " = " << limit.getValue()
                               << ", must be a positive integer";
  }
  return success();
}
