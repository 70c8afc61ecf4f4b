//===- DeviceConfigurations.cpp - Devices that an ONNX model names ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/DeviceConfigurations.h"
#include "lib/Import/Onnx/OpTable.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace intarsia::onnx {

/// Returns what a configuration says of a node, as rt.device_configurations has it.
static DictionaryAttr attributeOf(const Node &node, const NodeDevices &given, Builder &builder) {
  llvm::SmallSetVector<int64_t, 4> devices, axes;
  for (const ShardingSpec &spec : given.specs) {
    for (int64_t device : spec.devices) {
      auto group = llvm::find_if(spec.groups, [&](const auto &each) { return each.first == device; });
      if (group == spec.groups.end())
        devices.insert(device);
      else
        devices.insert(group->second.begin(), group->second.end());
    }
    for (const ShardingSpec::Dimension &dimension : spec.dimensions)
      if (llvm::any_of(dimension.shardCounts, [](int64_t count) { return count > 1; }))
        axes.insert(dimension.axis);
  }
  llvm::SmallVector<NamedAttribute> entries = {
      builder.getNamedAttr("node", builder.getStringAttr(nameOf(node))),
      builder.getNamedAttr("devices", builder.getDenseI64ArrayAttr(devices.getArrayRef())),
      builder.getNamedAttr("axes", builder.getDenseI64ArrayAttr(axes.getArrayRef()))};
  if (given.stage)
    entries.push_back(builder.getNamedAttr("stage", builder.getI64IntegerAttr(*given.stage)));
  return builder.getDictionaryAttr(entries);
}

static void collect(const std::vector<Node> &nodes, std::string_view configuration, Builder &builder,
                    llvm::SmallVectorImpl<mlir::Attribute> &found) {
  for (const Node &node : nodes) {
    for (const NodeDevices &given : node.devices)
      if (given.configuration == configuration)
        found.push_back(attributeOf(node, given, builder));
    for (const onnx::Attribute &attribute : node.attributes)
      for (const Graph &graph : attribute.graphs)
        collect(graph.nodes, configuration, builder, found);
  }
}

void noteDeviceConfigurations(const Model &model, ModuleOp module) {
  Builder builder(module.getContext());
  llvm::SmallVector<mlir::Attribute> configurations;
  for (const DeviceConfiguration &configuration : model.configurations) {
    llvm::SmallVector<mlir::Attribute> devices, nodes;
    for (std::string_view device : configuration.devices)
      devices.push_back(builder.getStringAttr(printable(device)));
    collect(model.graph.nodes, configuration.name, builder, nodes);
    configurations.push_back(
        builder.getDictionaryAttr({builder.getNamedAttr("name", builder.getStringAttr(printable(configuration.name))),
                                   builder.getNamedAttr("count", builder.getI64IntegerAttr(configuration.count)),
                                   builder.getNamedAttr("devices", builder.getArrayAttr(devices)),
                                   builder.getNamedAttr("nodes", builder.getArrayAttr(nodes))}));
  }
  if (!configurations.empty())
    module->setAttr(rt::deviceConfigurationsAttr, builder.getArrayAttr(configurations));
}

} // namespace intarsia::onnx
