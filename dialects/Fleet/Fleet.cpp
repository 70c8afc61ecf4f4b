//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Fleet/Fleet.h"

#include "lib/Support/ElementTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include <optional>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fleet;

#include "dialects/Fleet/FleetDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Fleet/FleetAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Fleet/FleetOps.cpp.inc"

void FleetDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Fleet/FleetAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Fleet/FleetOps.cpp.inc"
      >();
}

namespace {
// Ranges: from the cheapest to the most expensive and from the slowest to the fastest on offer, with an order of
// magnitude of room. A T4 is rented for 0.1 $/h and a wafer costs some millions; memory of a wafer gives 20 PB/s, but
// no link comes near it.
constexpr FigureRange dollarsPerHourRange = {0.001, 2000, "is it in dollars, of one device and one hour?", true};
constexpr FigureRange dollarsRange = {10, 1e7, "is it in dollars, of one device?"};
constexpr FigureRange yearsRange = {0.25, 30, "is it in years?"};
constexpr FigureRange interestRange = {0.0001, 0.5, "8 % a year is 0.08", true};
constexpr FigureRange dollarsPerKilowattHourRange = {0.001, 3, "is it in dollars per kWh, not cents?", true};
constexpr FigureRange bandwidthRange = {0.001, 20000, "is it in GB/s (10^9 bytes), not bits or bytes?"};
constexpr FigureRange microsecondsRange = {0.01, 1e6, "is it in microseconds?", true};
constexpr FigureRange kilowattsRange = {0.005, 1e6, "is it in kilowatts, not watts?"};
constexpr FigureRange gramsRange = {0.1, 2000, "is it in grams of carbon dioxide per kWh?", true};
/// Limit of devices; the largest clusters have some hundred thousand.
constexpr int64_t mostDevices = 10'000'000;
constexpr FigureRange dollarsPerGigabyteRange = {1e-6, 10, "is it in dollars per 10^9 bytes?", true};
} // namespace

//===-- Prices and placements ---------------------------------------------------------------------------------===//

Attribute RentalAttr::parse(AsmParser &parser, Type) {
  FloatAttr dollarsPerHour;
  SMLoc location = parser.getCurrentLocation();
  if (parseFigures(parser, {{"dollars_per_hour", &dollarsPerHour}}))
    return {};
  return parser.getChecked<RentalAttr>(location, parser.getContext(), dollarsPerHour);
}

void RentalAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printFigures(printer.getStream(), {{"dollars_per_hour", getDollarsPerHour()}});
  printer << '>';
}

LogicalResult RentalAttr::verify(EmitError emitError, FloatAttr dollarsPerHour) {
  if (!dollarsPerHour)
    return emitError() << "rental has no dollars_per_hour";
  return verifyFigure(emitError, "dollars_per_hour", dollarsPerHour, dollarsPerHourRange);
}

Attribute OwnedAttr::parse(AsmParser &parser, Type) {
  FloatAttr dollars, years, interest, dollarsPerKilowattHour;
  SMLoc location = parser.getCurrentLocation();
  if (parseFigures(parser, {{"dollars", &dollars},
                            {"years", &years},
                            {"interest", &interest},
                            {"dollars_per_kilowatt_hour", &dollarsPerKilowattHour}}))
    return {};
  return parser.getChecked<OwnedAttr>(location, parser.getContext(), dollars, years, interest, dollarsPerKilowattHour);
}

void OwnedAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printFigures(printer.getStream(), {{"dollars", getDollars()},
                                     {"years", getYears()},
                                     {"interest", getInterest()},
                                     {"dollars_per_kilowatt_hour", getDollarsPerKilowattHour()}});
  printer << '>';
}

LogicalResult OwnedAttr::verify(EmitError emitError, FloatAttr dollars, FloatAttr years, FloatAttr interest,
                                FloatAttr dollarsPerKilowattHour) {
  std::pair<StringRef, FloatAttr> all[] = {{"dollars", dollars},
                                           {"years", years},
                                           {"interest", interest},
                                           {"dollars_per_kilowatt_hour", dollarsPerKilowattHour}};
  for (auto [name, figure] : all)
    if (!figure)
      return emitError() << "owned has no " << name;
  if (failed(verifyFigure(emitError, "dollars", dollars, dollarsRange)) ||
      failed(verifyFigure(emitError, "years", years, yearsRange)) ||
      failed(verifyFigure(emitError, "interest", interest, interestRange)))
    return failure();
  return verifyFigure(emitError, "dollars_per_kilowatt_hour", dollarsPerKilowattHour, dollarsPerKilowattHourRange);
}

LogicalResult PlacementAttr::verify(EmitError emitError, SymbolRefAttr pool, int64_t tensor, int64_t pipeline,
                                    int64_t expert, int64_t data, int64_t parts, std::optional<int64_t> replicas,
                                    int64_t batch, StringAttr precision, bool aggregated) {
  std::pair<StringRef, int64_t> all[] = {{"tensor", tensor}, {"pipeline", pipeline}, {"expert", expert},
                                         {"data", data},     {"parts", parts},       {"replicas", replicas.value_or(1)},
                                         {"batch", batch}};
  for (auto [name, degree] : all)
    if (degree < 1 || degree > 1'000'000)
      return emitError() << name << " is " << degree << ", must be between 1 and 1000000";
  if ((tensor * data) % expert != 0)
    return emitError() << "expert is " << expert << ", must divide tensor * data, which is " << tensor * data;
  if (parts != 1 && parts != 2 && parts != 4 && parts != 8)
    return emitError() << "parts is " << parts << ", must be 1, 2, 4 or 8";
  if (parts > 1 && tensor * pipeline * data > 1)
    return emitError() << "a replica takes one of " << parts << " parts of a device, and " << tensor * pipeline * data
                       << " devices";
  if (parts > 1 && aggregated)
    return emitError() << "prefill and decode in the same replicas take whole devices, and parts is " << parts;
  return precision ? verifyPrecision(emitError, precision.getValue()) : success();
}

LogicalResult fleet::verifyPrecision(EmitError emitError, StringRef precision) {
  if (llvm::is_contained(elementTypes, std::string_view(precision)))
    return success();
  return emitError() << "precision '" << precision << "' is unknown"
                     << nearestNames(precision, llvm::to_vector_of<llvm::StringRef>(elementTypes));
}

/// Returns the first control character of a UTF-8 text (Unicode's category Cc), or nothing.
static std::optional<unsigned> controlCharacterIn(StringRef text) {
  for (size_t at = 0; at < text.size(); ++at) {
    unsigned char byte = text[at], next = at + 1 < text.size() ? text[at + 1] : 0;
    if (byte < 0x20 || byte == 0x7F)
      return byte;
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) // U+0080 to U+009F
      return next;
  }
  return std::nullopt;
}

static LogicalResult verifyTexts(Operation *op) {
  for (NamedAttribute attribute : op->getAttrs()) {
    StringRef name = attribute.getName();
    if (name.contains('.'))
      continue;
    std::optional<unsigned> found;
    attribute.getValue().walk([&](StringAttr text) {
      if (!found)
        found = controlCharacterIn(text.getValue());
    });
    if (found)
      return op->emitOpError() << name << " has the control character U+"
                               << llvm::utohexstr(*found, /*LowerCase=*/false, /*Width=*/4)
                               << ", which no name or text may have; leave it out";
  }
  return success();
}

LogicalResult fleet::verifyKnownAttributes(Operation *op) {
  if (failed(verifyTexts(op)))
    return failure();
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    StringRef name = attribute.getName();
    if (name.contains('.'))
      continue;
    SmallVector<StringRef> known;
    for (StringAttr own : op->getName().getAttributeNames())
      known.push_back(own.getValue());
    return op->emitOpError() << "has no attribute '" << name << "'" << nearestNames(name, known);
  }
  return success();
}

LogicalResult fleet::verifyPlacement(Operation *op, PlacementAttr placement, SymbolTableCollection &tables) {
  auto pool = lookupNamed<PoolOp>(op, placement.getPool(), tables, "fleet.pool");
  if (!pool)
    return failure();
  int64_t perReplica = placement.getDevicesPerReplica(), parts = placement.getParts();
  int64_t replicas = placement.getReplicas().value_or(1), needed = (perReplica * replicas + parts - 1) / parts;
  if (uint64_t(needed) > pool.getCount())
    return op->emitOpError() << "is placed on " << needed << " devices of " << placement.getPool() << " (" << replicas
                             << " replicas of " << perReplica << "), which has " << pool.getCount();
  return success();
}

//===-- Systems -----------------------------------------------------------------------------------------------===//

/// Returns the error function of an op, for the verifiers of figures.
static auto errorsOf(Operation *op) {
  return [op] { return op->emitOpError(); };
}

LogicalResult SystemOp::verify() {
  auto errors = errorsOf(*this);
  if (failed(verifyFigure(errors, "power_cap_kilowatts", getPowerCapKilowattsAttr(), kilowattsRange)))
    return failure();
  return verifyFigure(errors, "grams_per_kilowatt_hour", getGramsPerKilowattHourAttr(), gramsRange);
}

LogicalResult SystemOp::verifyRegions() {
  if (getBody().getOps<PoolOp>().empty())
    return emitOpError() << "@" << getSymName()
                         << " has no pool: nothing can be placed on it; add a fleet.pool of one of its devices";
  if (auto networks = llvm::to_vector(getBody().getOps<NetworkOp>()); networks.size() > 1)
    return (networks[1].emitOpError() << "is a second network, must be the only one").attachNote(networks[0].getLoc())
           << "the first is here";
  llvm::DenseMap<std::pair<Attribute, Attribute>, LinkOp> seen;
  for (LinkOp link : getBody().getOps<LinkOp>()) {
    SmallVector<std::pair<Attribute, Attribute>> ways = {{link.getSourceAttr(), link.getDestinationAttr()}};
    if (!link.getOneWay() && link.getSourceAttr() != link.getDestinationAttr())
      ways.emplace_back(link.getDestinationAttr(), link.getSourceAttr());
    for (auto way : ways) {
      auto [entry, inserted] = seen.try_emplace(way, link);
      if (!inserted)
        return (link.emitOpError() << "is a second link from " << way.first << " to " << way.second
                                   << ", must be the only one")
                   .attachNote(entry->second.getLoc())
               << "the first is here";
    }
  }
  return success();
}

LogicalResult DeviceOp::verify() {
  if (!getCatalogue() == !getFile())
    return emitOpError() << "@" << getSymName() << (getFile() ? " has both" : " has neither")
                         << " a name in the catalogue " << (getFile() ? "and" : "nor")
                         << " a file, must have one of them: catalogue = \"nvidia/h100-sxm\" or file = \"device.yaml\"";
  if (getSet() && *getSet() != "datasheet" && *getSet() != "paper")
    return emitOpError() << "set is '" << *getSet() << "', must be 'datasheet' or 'paper'";
  return success();
}

LogicalResult PoolOp::verify() {
  // The count is unsigned: a negative one would pass as a large one.
  int64_t count = int64_t(getCount());
  if (count < 1)
    return emitOpError() << "@" << getSymName() << " has " << count << " devices, must have at least one";
  if (count > mostDevices)
    return emitOpError() << "@" << getSymName() << " has " << count << " devices, must have at most " << mostDevices
                         << ": no fleet has more, and a plan counts them one by one";
  if (getDevicesPerNode() < 1 || uint64_t(getDevicesPerNode()) > getCount())
    return emitOpError() << "@" << getSymName() << " has " << getDevicesPerNode() << " devices in a node and "
                         << getCount() << " in all";
  if (getWholeNodes() && getCount() % getDevicesPerNode() != 0)
    return emitOpError() << "@" << getSymName() << " has " << getCount()
                         << " devices, which is no whole number of nodes of " << getDevicesPerNode();
  if (getPrice() && !isa<RentalAttr, OwnedAttr>(*getPrice()))
    return emitOpError() << "price is " << *getPrice() << ", must be #fleet.rental<…> or #fleet.owned<…>";
  return verifyFigure(errorsOf(*this), "availability", getAvailabilityAttr(),
                      {0.01, 1, "it is a fraction: 95 % is 0.95"});
}

LogicalResult PoolOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(lookupNamed<DeviceOp>(*this, getDeviceAttr(), tables, "fleet.device") != nullptr);
}

/// Verifies the figures of a link or a network.
template <typename Op> static LogicalResult verifyWire(Op op) {
  auto errors = errorsOf(op);
  if (failed(verifyFigure(errors, "gigabytes_per_second", op.getGigabytesPerSecondAttr(), bandwidthRange)) ||
      failed(verifyFigure(errors, "microseconds", op.getMicrosecondsAttr(), microsecondsRange)))
    return failure();
  return verifyFigure(errors, "dollars_per_gigabyte", op.getDollarsPerGigabyteAttr(), dollarsPerGigabyteRange);
}

LogicalResult LinkOp::verify() { return verifyWire(*this); }

LogicalResult NetworkOp::verify() { return verifyWire(*this); }

LogicalResult LinkOp::verifySymbolUses(SymbolTableCollection &tables) {
  for (FlatSymbolRefAttr end : {getSourceAttr(), getDestinationAttr()})
    if (!lookupNamed<PoolOp>(*this, end, tables, "fleet.pool"))
      return failure();
  return success();
}
