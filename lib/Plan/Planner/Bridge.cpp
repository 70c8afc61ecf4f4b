//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Converts between the planner's plain data and the IR: fleets in, placements out.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "dialects/Agent/Agent.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace mlir;

namespace intarsia::plan {

std::string pathOfDeviceFile(StringRef file, StringRef directory) {
  if (llvm::sys::path::is_absolute(file))
    return file.str();
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, file);
  return path.str().str();
}

/// Returns the catalogue's entry of a device, from its own file, or from the set that it names.
static FailureOr<CatalogueDevice> deviceOf(fleet::DeviceOp op, StringRef directory) {
  auto fail = [&](llvm::Error error) -> FailureOr<CatalogueDevice> {
    return op.emitError() << "device @" << op.getSymName() << ": " << llvm::toString(std::move(error));
  };
  if (op.getFile()) {
    std::string path = pathOfDeviceFile(*op.getFile(), directory);
    // Refuses pipes: reading one could block forever.
    if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path))
      return op.emitError() << "device @" << op.getSymName() << ": '" << path << "' is not a regular file";
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return op.emitError() << "device @" << op.getSymName() << ": cannot read '" << path
                            << "': " << buffer.getError().message();
    llvm::Expected<CatalogueDevice> device = CatalogueDevice::parse((*buffer)->getBuffer(), *op.getFile());
    if (!device)
      return fail(device.takeError());
    if (StringRef(device->wafer).ends_with(".yaml"))
      device->wafer = pathOfDeviceFile(device->wafer, llvm::sys::path::parent_path(path));
    return *device;
  }
  if (!op.getCatalogue())
    return op.emitError() << "device @" << op.getSymName() << " names neither a 'catalogue' entry nor a 'file'";
  // The entries of a set of figures have their own names: paper/h100.
  std::string name = op.getCatalogue()->str();
  if (std::optional<StringRef> set = op.getSet(); set && *set != "datasheet" && !StringRef(name).starts_with(*set)) {
    StringRef model = StringRef(name).rsplit('/').second;
    name = (*set + "/" + (model.empty() ? StringRef(name) : model)).str();
  }
  llvm::Expected<const CatalogueDevice *> device = findDevice(name);
  if (!device)
    return fail(device.takeError());
  return **device;
}

static FailureOr<FleetPool> poolOf(fleet::PoolOp op, const llvm::StringMap<CatalogueDevice> &devices) {
  FleetPool pool;
  pool.name = op.getSymName().str();
  pool.device = devices.lookup(op.getDevice());
  pool.count = op.getCount();
  pool.perNode = op.getDevicesPerNode();
  pool.wholeNodes = op.getWholeNodes();
  pool.availability = op.getAvailability() ? op.getAvailability()->convertToDouble() : 1;
  // A link inside a node connects at most the devices of a node of this pool.
  auto within = [&](std::optional<Figure> &figure) {
    if (figure)
      figure->value = std::min(figure->value, double(pool.perNode));
  };
  within(pool.device.nodeDevices);
  within(pool.device.linkDomain);
  if (auto rental = dyn_cast_or_null<fleet::RentalAttr>(op.getPriceAttr())) {
    if (rental.getDollarsPerHour())
      pool.rentalDollarsPerHour = rental.getDollarsPerHour().getValueAsDouble();
  } else if (auto owned = dyn_cast_or_null<fleet::OwnedAttr>(op.getPriceAttr())) {
    OwnershipTerms terms;
    if (owned.getDollars())
      pool.device.purchaseDollars = Figure{owned.getDollars().getValueAsDouble(), "the fleet", "", false};
    if (owned.getYears())
      terms.years = owned.getYears().getValueAsDouble();
    if (owned.getInterest())
      terms.interestPerYear = owned.getInterest().getValueAsDouble();
    if (owned.getDollarsPerKilowattHour())
      terms.dollarsPerKWh = owned.getDollarsPerKilowattHour().getValueAsDouble();
    pool.owned = terms;
  }
  return pool;
}

/// Returns the link of a fleet.link or fleet.network, without its ends.
template <typename Op> static FleetLink linkOf(Op op) {
  FleetLink link;
  link.gigabytesPerSecond = op.getGigabytesPerSecond().convertToDouble();
  link.microseconds = op.getMicroseconds().convertToDouble();
  link.shared = op.getShared().value_or("").str();
  if (op.getDollarsPerGigabyte())
    link.dollarsPerGigabyte = op.getDollarsPerGigabyte()->convertToDouble();
  return link;
}

/// Adds links between all pools that have none.
static void addNetwork(fleet::NetworkOp network, Fleet &fleet) {
  std::set<std::pair<int, int>> linked;
  for (const FleetLink &link : fleet.links) {
    linked.insert({link.from, link.to});
    if (!link.oneWay)
      linked.insert({link.to, link.from});
  }
  for (int from = 0; from < int(fleet.pools.size()); ++from)
    for (int to = from + 1; to < int(fleet.pools.size()); ++to) {
      FleetLink link = linkOf(network);
      bool there = linked.count({from, to}), back = linked.count({to, from});
      link.from = there ? to : from, link.to = there ? from : to;
      link.oneWay = there || back;
      if (!(there && back))
        fleet.links.push_back(std::move(link));
    }
}

FailureOr<Fleet> fleetOf(fleet::SystemOp system, StringRef directory) {
  Fleet result;
  result.name = system.getSymName().str();
  if (system.getPowerCapKilowatts())
    result.wattsCap = system.getPowerCapKilowatts()->convertToDouble() * 1000;
  if (system.getGramsPerKilowattHour())
    result.gramsPerKilowattHour = system.getGramsPerKilowattHour()->convertToDouble();
  llvm::StringMap<CatalogueDevice> devices;
  bool failed = false; // all unknown devices are listed at once
  for (auto op : system.getBody().getOps<fleet::DeviceOp>()) {
    FailureOr<CatalogueDevice> device = deviceOf(op, directory);
    if (succeeded(device))
      devices[op.getSymName()] = *device;
    else
      failed = true;
  }
  if (failed)
    return failure();
  llvm::StringMap<int> pools;
  for (auto op : system.getBody().getOps<fleet::PoolOp>()) {
    FailureOr<FleetPool> pool = poolOf(op, devices);
    if (mlir::failed(pool))
      return failure();
    pools[op.getSymName()] = int(result.pools.size());
    result.pools.push_back(std::move(*pool));
  }
  for (auto op : system.getBody().getOps<fleet::LinkOp>()) {
    FleetLink link = linkOf(op);
    link.from = pools.lookup(op.getSource());
    link.to = pools.lookup(op.getDestination());
    link.oneWay = op.getOneWay();
    result.links.push_back(std::move(link));
  }
  for (auto network : system.getBody().getOps<fleet::NetworkOp>())
    addNetwork(network, result);
  return result;
}

void writePlacements(ModuleOp module, StringRef system, const BuiltProblem &built, const Placements &placements) {
  MLIRContext *context = module.getContext();
  size_t graphIndex = 0;
  for (auto graph : module.getOps<agent::GraphOp>()) {
    if (graphIndex == built.pieceOfTask.size())
      return;
    const std::vector<int> &pieces = built.pieceOfTask[graphIndex++];
    size_t task = 0;
    // Numbers tasks as extractAgentGraph does.
    graph.walk<WalkOrder::PreOrder>([&](agent::TaskOpInterface op) {
      int piece = pieces[task++];
      const Placed &placed = placements[piece];
      const ChoiceMeaning &meaning = built.meanings[piece][placed.choice];
      if (meaning.outside)
        return;
      const std::string &pool = built.problem.pools[built.problem.pieces[piece].candidates[placed.choice].pool].name;
      auto reference = SymbolRefAttr::get(context, system, FlatSymbolRefAttr::get(context, pool));
      int64_t replicas = placements[hostOf(built.problem, placements, piece)].replicas;
      auto precision = meaning.precision.empty() ? StringAttr() : StringAttr::get(context, meaning.precision);
      op.setPlaceAttr(fleet::PlacementAttr::get(context, reference, meaning.tensor, meaning.pipeline, meaning.expert,
                                                meaning.data, meaning.parts, replicas, meaning.batch, precision,
                                                meaning.aggregate > 0));
    });
  }
}

} // namespace intarsia::plan
