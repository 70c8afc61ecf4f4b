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
#include "llvm/Support/GlobPattern.h"

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
    for (StringRef text : options.placements) {
      auto [pattern, device] = text.rsplit("=@");
      llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
      if (glob)
        placements.push_back({text, device, std::move(*glob)});
      else
        llvm::consumeError(glob.takeError()); // the pass that places refuses it
    }
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
  /// One of --place.
  struct Placement {
    StringRef text, device;
    llvm::GlobPattern glob;
  };

  /// True if --world has a stage of this number. Each stage is on a rank at least.
  bool hasStage(int64_t stage) const { return stage >= 0 && stage < options.world; }

  /// Returns the ops of a node that devices compute.
  SmallVector<Operation *> computedOps(const NodeDevices &node) const {
    SmallVector<Operation *> ops = opsOf.lookup(node.node);
    llvm::erase_if(ops, [](Operation *op) { return !rt::runsOnDevice(op); });
    return ops;
  }

  /// Returns the placement that holds for an op; null if there is none.
  const Placement *placementOf(Operation *op) const {
    const Placement *last = nullptr;
    op->getLoc()->walk([&](Location part) {
      if (auto name = dyn_cast<NameLoc>(part))
        for (const Placement &each : placements)
          if ((!last || &each > last) && each.glob.match(name.getName().getValue()))
            last = &each;
      return WalkResult::advance();
    });
    return last;
  }

  /// Takes the partition that a configuration describes, where the user gives none.
  void choosePartition(const Configuration &configuration) {
    int64_t stages = 0;
    bool dividesExamples = false, dividesOthers = false;
    for (const NodeDevices &node : configuration.nodes) {
      if (node.stage && hasStage(*node.stage))
        stages = std::max(stages, *node.stage + 1);
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
    if (!options.gpuMemory.empty())
      return "--gpu-memory chooses devices";
    SmallVector<Operation *> ops = computedOps(node);
    if (ops.empty())
      return nothingComputed;
    std::string why;
    for (Operation *op : ops) {
      op->setAttr(rt::deviceAttr, FlatSymbolRefAttr::get(module.getContext(), name));
      if (const Placement *placement = placementOf(op); placement && placement->device != name)
        why = "--place=" + placement->text.str() + " places it";
    }
    return why;
  }

  /// Asks for the stage of a node. Returns why not, where that is known before stages are cut.
  std::string share(const NodeDevices &node, FollowedDevices &outcome) {
    std::string partition = "--partition=" + partitionText(options);
    SmallVector<Operation *> ops = computedOps(node);
    if (ops.empty())
      return nothingComputed;
    if (node.stage) {
      if (!hasStage(*node.stage))
        return "there is no stage " + std::to_string(*node.stage) + ": --world=" + std::to_string(options.world) +
               " has at most the stages 0 to " + std::to_string(options.world - 1);
      if (options.stages < 2)
        return partition + " has no stages";
      outcome.isStage = true;
      Builder builder(module.getContext());
      for (Operation *op : ops)
        op->setAttr(rt::wantedStageAttr, builder.getI64IntegerAttr(*node.stage));
      return "";
    }
    if (options.data == options.world && llvm::all_of(node.axes, [](int64_t axis) { return axis == 0; }))
      return isOnAll(node)
                 ? ""
                 : partition + " computes a part of it on each of " + std::to_string(options.world) + " devices";
    return partition + " divides layers by its own rules";
  }

  /// True if the devices of a node are those of all ranks.
  bool isOnAll(const NodeDevices &node) const {
    llvm::SmallDenseSet<int64_t> ranks;
    for (int64_t device : node.devices)
      if (device >= 0 && device < options.world)
        ranks.insert(device);
    return int64_t(ranks.size()) == options.world && ranks.size() == node.devices.size();
  }

  static constexpr const char *nothingComputed = "nothing is computed for it when the model runs";

  ModuleOp module;
  PartitionOptions &options;
  std::vector<Placement> placements;
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
