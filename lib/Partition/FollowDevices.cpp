//===- FollowDevices.cpp - Devices that a model's author had in mind ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/DeviceConfigurations.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Partition/Partition.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace intarsia {
namespace {

/// What a configuration says of a node.
struct NodeDevices {
  StringRef node;
  ArrayRef<int64_t> devices, axes;
  std::optional<int64_t> stage;
};

struct Configuration {
  explicit Configuration(DictionaryAttr given) {
    name = given.getAs<StringAttr>("name").getValue();
    count = given.getAs<IntegerAttr>("count").getInt();
    for (Attribute device : given.getAs<ArrayAttr>("devices"))
      devices.push_back(cast<StringAttr>(device).getValue());
    for (Attribute each : given.getAs<ArrayAttr>("nodes")) {
      auto node = cast<DictionaryAttr>(each);
      auto stage = node.getAs<IntegerAttr>("stage");
      nodes.push_back({node.getAs<StringAttr>("node").getValue(), node.getAs<DenseI64ArrayAttr>("devices").asArrayRef(),
                       node.getAs<DenseI64ArrayAttr>("axes").asArrayRef(),
                       stage ? std::optional(stage.getInt()) : std::nullopt});
    }
  }

  StringRef name;
  int64_t count = 0;
  SmallVector<StringRef> devices;
  std::vector<NodeDevices> nodes;
};

/// Follows one configuration.
class Follower {
public:
  Follower(ModuleOp module, PartitionOptions &options) : module(module), options(options) {
    for (auto function : module.getOps<func::FuncOp>())
      function.walk([&](Operation *op) {
        op->getLoc()->walk([&](Location part) {
          if (auto name = dyn_cast<NameLoc>(part))
            opsOf[name.getName().getValue()].push_back(op);
          return WalkResult::advance();
        });
      });
    for (auto device : module.getOps<rt::DeviceOp>())
      devices.push_back(device.getSymName());
  }

  /// Returns the configuration that goes with the options; null if none does.
  const Configuration *choose(ArrayRef<Configuration> all) const {
    for (const Configuration &each : all)
      if (options.world > 1 ? each.count == options.world : llvm::any_of(each.devices, [&](StringRef name) {
            return llvm::is_contained(devices, name);
          }))
        return &each;
    return nullptr;
  }

  void follow(const Configuration &configuration) {
    if (options.world > 1 && !options.isGiven)
      choosePartition(configuration);
    for (const NodeDevices &node : configuration.nodes) {
      FollowedDevices &outcome = outcomes.emplace_back();
      outcome.node = node.node;
      outcome.configuration = configuration.name;
      outcome.why = options.world > 1 ? share(node, outcome) : place(node, configuration);
      outcome.isFollowed = outcome.why.empty();
    }
  }

  void overrule(const Configuration &configuration, const Twine &why) {
    for (const NodeDevices &node : configuration.nodes)
      outcomes.push_back({node.node.str(), configuration.name.str(), false, false, why.str()});
  }

  StringRef firstDevice() const { return devices.empty() ? "cpu" : devices.front(); }

  std::vector<FollowedDevices> outcomes;

private:
  /// Takes the partition that a configuration describes, where the user gives none.
  void choosePartition(const Configuration &configuration) {
    int64_t stages = 0;
    bool dividesExamples = false, dividesOthers = false;
    for (const NodeDevices &node : configuration.nodes) {
      stages = std::max(stages, node.stage.value_or(-1) + 1);
      for (int64_t axis : node.axes)
        (axis == 0 ? dividesExamples : dividesOthers) = true;
    }
    std::string text;
    if (stages > 1 && options.world % stages == 0)
      text = stages == options.world ? "pipeline" : "pipeline:" + std::to_string(stages) + ",tensor";
    else if (dividesExamples && !dividesOthers)
      text = "data";
    if (!text.empty())
      llvm::consumeError(parsePartition(text, options));
  }

  /// Puts the ops of a node on its device. Returns why not.
  std::string place(const NodeDevices &node, const Configuration &configuration) {
    if (node.devices.empty())
      return "a stage of a pipeline is on a process of its own: --world=" + std::to_string(configuration.count) +
             " starts them";
    if (node.devices.size() > 1)
      return "it is shared by " + std::to_string(node.devices.size()) +
             " devices, which are processes: --world=" + std::to_string(configuration.count) + " starts them";
    int64_t number = node.devices.front();
    if (number < 0 || number >= int64_t(configuration.devices.size()))
      return "the configuration names no device " + std::to_string(number);
    StringRef name = configuration.devices[number];
    if (!llvm::is_contained(devices, name))
      return "the model is not compiled for '" + name.str() + "': name that in --target too";
    bool any = false;
    for (Operation *op : opsOf.lookup(node.node))
      if (rt::runsOnDevice(op)) {
        any = true;
        op->setAttr(rt::deviceAttr, FlatSymbolRefAttr::get(module.getContext(), name));
      }
    return any ? "" : "nothing is computed for it when the model runs";
  }

  /// Asks for the stage of a node. Returns why not, where that is known before stages are cut.
  std::string share(const NodeDevices &node, FollowedDevices &outcome) {
    std::string partition = "--partition=" + partitionText(options);
    if (node.stage) {
      if (options.stages < 2)
        return partition + " has no stages";
      outcome.isStage = true;
      Builder builder(module.getContext());
      for (Operation *op : opsOf.lookup(node.node))
        op->setAttr(rt::wantedStageAttr, builder.getI64IntegerAttr(*node.stage));
      return "";
    }
    if (options.data == options.world && llvm::all_of(node.axes, [](int64_t axis) { return axis == 0; }))
      return "";
    return partition + " divides layers by its own rules";
  }

  ModuleOp module;
  PartitionOptions &options;
  llvm::StringMap<SmallVector<Operation *>> opsOf; ///< by names in the user's model
  SmallVector<StringRef> devices;                  ///< of the module
};

} // namespace

std::vector<FollowedDevices> followDevices(ModuleOp module, PartitionOptions &options) {
  auto given = module->getAttrOfType<ArrayAttr>(rt::deviceConfigurationsAttr);
  if (!given)
    return {};
  std::vector<Configuration> all;
  for (Attribute each : given)
    all.emplace_back(cast<DictionaryAttr>(each));
  module->removeAttr(rt::deviceConfigurationsAttr);
  Follower follower(module, options);
  const Configuration *chosen = follower.choose(all);
  if (chosen)
    follower.follow(*chosen);
  for (const Configuration &each : all)
    if (&each != chosen)
      follower.overrule(each, chosen ? "configuration '" + chosen->name + "' is followed"
                              : options.world > 1
                                  ? "it has " + Twine(each.count) + " devices, --world=" + Twine(options.world)
                                  : "none of its devices is '" + follower.firstDevice() +
                                        "' or another device of --target, and --world=" + Twine(each.count) +
                                        " was not given");
  return std::move(follower.outcomes);
}

void finishDevices(ModuleOp module, std::vector<FollowedDevices> &outcomes) {
  auto why = module->getAttrOfType<StringAttr>(rt::stagesOverruledAttr);
  module->removeAttr(rt::stagesOverruledAttr);
  module.walk([](Operation *op) { op->removeAttr(rt::wantedStageAttr); });
  for (FollowedDevices &outcome : outcomes)
    if (outcome.isStage && (!why || !why.getValue().empty())) {
      outcome.isFollowed = false;
      outcome.why = why ? why.getValue().str() : "the model was not divided into stages";
    }
  if (outcomes.empty())
    return;
  // One reason is often that of all nodes.
  llvm::MapVector<StringRef, unsigned> reasons;
  unsigned followed = 0;
  for (const FollowedDevices &outcome : outcomes)
    if (outcome.isFollowed)
      ++followed;
    else
      ++reasons[outcome.why];
  InFlightDiagnostic remark = module.emitRemark() << "devices that the model names: followed for " << followed << " of "
                                                  << outcomes.size() << " nodes";
  for (auto [reason, count] : reasons)
    remark << "\n  overruled for " << count << ": " << reason;
}

} // namespace intarsia
