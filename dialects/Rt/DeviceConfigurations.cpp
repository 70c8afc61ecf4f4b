//===- DeviceConfigurations.cpp - Devices that a model's author had in mind ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/DeviceConfigurations.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace intarsia::rt {

static bool isNumber(Attribute value) {
  auto number = dyn_cast_if_present<IntegerAttr>(value);
  return number && number.getType().isSignlessInteger(64);
}

static bool isNode(Attribute value) {
  auto node = dyn_cast<DictionaryAttr>(value);
  return node && node.getAs<StringAttr>("node") && node.getAs<DenseI64ArrayAttr>("devices") &&
         node.getAs<DenseI64ArrayAttr>("axes") && (!node.contains("stage") || isNumber(node.get("stage")));
}

LogicalResult verifyDeviceConfigurations(Operation *op, Attribute value) {
  if (!isa<ModuleOp>(op))
    return op->emitOpError() << deviceConfigurationsAttr << " stands on a '" << op->getName()
                             << "', must be on a 'builtin.module'";
  auto all = dyn_cast<ArrayAttr>(value);
  if (!all)
    return op->emitOpError() << deviceConfigurationsAttr << " is " << value << ", must be an array of dictionaries";
  for (Attribute each : all) {
    auto configuration = dyn_cast<DictionaryAttr>(each);
    auto devices = configuration ? configuration.getAs<ArrayAttr>("devices") : ArrayAttr();
    auto nodes = configuration ? configuration.getAs<ArrayAttr>("nodes") : ArrayAttr();
    if (!devices || !nodes || !configuration.getAs<StringAttr>("name") || !isNumber(configuration.get("count")) ||
        !llvm::all_of(devices, llvm::IsaPred<StringAttr>))
      return op->emitOpError() << deviceConfigurationsAttr << " has " << each
                               << ", must have 'name', a string, 'count', an i64, 'devices', an array of strings, and "
                                  "'nodes', an array of dictionaries";
    for (Attribute node : nodes)
      if (!isNode(node))
        return op->emitOpError() << deviceConfigurationsAttr << " has the node " << node
                                 << ", must have 'node', a string, 'devices' and 'axes', each array<i64>, and "
                                    "'stage', an i64, or no stage";
  }
  return success();
}

} // namespace intarsia::rt
