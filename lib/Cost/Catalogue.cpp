//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/Catalogue.h"
#include "lib/Cost/Yaml.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace intarsia;

namespace {

/// Wide range of a figure: a value outside has a mistaken unit. The hints name the usual mistake.
struct Range {
  const char *name;
  double least, most;
  const char *below, *above;
};

constexpr Range ranges[] = {
    {"peak_tflops", 0.01, 1e6, "did you give PFLOP/s?", "did you give GFLOP/s?"},
    {"memory_gb", 0.5, 4096, "did you give TB?", "did you give MB?"},
    {"memory_gbps", 10, 1e8, "did you give TB/s?", "did you give MB/s?"},
    {"multiprocessors", 1, 2048, "a GPU has at least one multiprocessor", "did you count lanes?"},
    {"clock_ghz", 0.2, 10, "did you give THz?", "did you give MHz?"},
    {"cache_mb", 0.1, 4096, "did you give GB?", "did you give KB?"},
    {"link gbps", 1, 20000, "did you give TB/s?", "did you give MB/s or Mb/s?"},
    {"network_gbps", 0.1, 5000, "did you give TB/s?", "did you give MB/s or Mb/s?"},
    {"devices", 1, 1024, "a node has at least one device", "a node has at most 1024 devices"},
    {"link_domain", 1, 65536, "a link reaches at least one device", "a link reaches at most 65536 devices"},
    {"watts", 5, 200000, "did you give kW?", "did you give mW?"},
    {"clients", 1, 1024, "a device has at least one client", "a device has at most 1024 clients"},
    {"purchase_dollars", 50, 1e8, "did you give thousands of dollars?", "did you give cents?"},
    {"rental_dollars_per_hour", 0.01, 2000, "did you give dollars a second?", "did you give dollars a month?"},
    {"rental_low_dollars_per_hour", 0.01, 2000, "did you give dollars a second?", "did you give dollars a month?"},
    {"operating_dollars_per_hour", 0.001, 2000, "did you give dollars a second?", "did you give dollars a month?"},
};

/// An embedded file of the program.
struct EmbeddedFile {
  const char *path, *text;
};
const EmbeddedFile deviceFiles[] = {
#include "Devices.inc"
};

/// Reads the maps of one file and keeps the name for errors.
class Reader {
public:
  explicit Reader(StringRef file) : file(file) {}

  /// Factor that widens ranges for measured figures, which have no mistaken unit: busy or small machines are slower
  /// than anything on sale.
  double slack = 1;

  Error at(const YamlNode &node, const Twine &message) const { return yamlError(file, node.line, message); }

  Error checkKeys(const YamlNode &map, StringRef what, ArrayRef<StringRef> known) const {
    if (map.kind != YamlNode::Kind::Map)
      return at(map, what + ": is not a map");
    for (const auto &[key, node] : map.entries)
      if (!is_contained(known, StringRef(key)))
        return at(node, what + ": unknown key '" + key + "'; it has " + join(known, ", "));
    return Error::success();
  }

  Expected<std::string> word(const YamlNode &map, StringRef key) const {
    const YamlNode *node = map.find(key);
    if (!node || node->kind != YamlNode::Kind::Scalar || node->scalar.empty())
      return at(node ? *node : map, "'" + key + "' is missing or empty");
    return node->scalar;
  }

  /// Reads a figure: `range` names the plausible range, `name` is the name in messages.
  Expected<Figure> figure(const YamlNode &node, StringRef name, StringRef range) const {
    if (Error error = checkKeys(node, name, {"value", "source", "date", "unsure"}))
      return std::move(error);
    const YamlNode *value = node.find("value");
    if (!value)
      return at(node, name + ": 'value' is missing");
    Expected<double> number = value->number(file, name);
    if (!number)
      return number.takeError();
    Figure figure;
    figure.value = *number;
    for (auto [key, into] : {std::pair("source", &figure.source), std::pair("date", &figure.date)}) {
      const YamlNode *text = node.find(key);
      if (!text || text->scalar.empty())
        return at(node, name + ": '" + key + "' is missing: every figure says where it is from and when");
      *into = text->scalar;
    }
    if (const YamlNode *unsure = node.find("unsure")) {
      if (unsure->scalar != "true" && unsure->scalar != "false")
        return at(*unsure, name + ": unsure is true or false, not '" + unsure->scalar + "'");
      figure.unsure = unsure->scalar == "true";
    }
    if (figure.value < 0)
      return at(*value, name + " " + value->scalar + ": a figure is not negative");
    const Range *plausible = find_if(ranges, [&](const Range &entry) { return range == entry.name; });
    if (plausible != std::end(ranges)) {
      if (figure.value < plausible->least / slack)
        return at(*value, name + " " + value->scalar + ": " + plausible->below);
      if (figure.value > plausible->most)
        return at(*value, name + " " + value->scalar + ": " + plausible->above);
    }
    return figure;
  }

  Error optional(const YamlNode &map, StringRef key, StringRef range, std::optional<Figure> &into) const {
    const YamlNode *node = map.find(key);
    if (!node)
      return Error::success();
    Expected<Figure> read = figure(*node, range == key ? key : range, range);
    if (!read)
      return read.takeError();
    into = std::move(*read);
    return Error::success();
  }

private:
  std::string file;
};

} // namespace

Expected<CatalogueDevice> CatalogueDevice::parse(StringRef text, StringRef file) {
  Expected<YamlNode> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  Reader reader(file);
  if (Error error = reader.checkKeys(*root, "device",
                                     {"name", "set", "generation", "target", "efficiency_of", "wafer", "peak_tflops",
                                      "memory_gb", "memory_gbps", "multiprocessors", "clock_ghz", "cache_mb", "link",
                                      "node", "watts", "clients", "price", "serving"}))
    return std::move(error);
  CatalogueDevice device;
  device.file = file.str();
  for (auto [key, into] :
       {std::pair("name", &device.name), std::pair("set", &device.set), std::pair("generation", &device.generation)}) {
    Expected<std::string> value = reader.word(*root, key);
    if (!value)
      return value.takeError();
    *into = std::move(*value);
  }
  if (device.set != "datasheet" && device.set != "paper" && device.set != "measured")
    return reader.at(*root->find("set"), "set is datasheet, paper or measured, not '" + device.set + "'");
  reader.slack = device.set == "measured" ? 10 : 1;
  for (auto [key, into] : {std::pair("target", &device.target), std::pair("efficiency_of", &device.efficiencyOf),
                           std::pair("wafer", &device.wafer)}) {
    if (!root->find(key))
      continue;
    Expected<std::string> value = reader.word(*root, key);
    if (!value)
      return value.takeError();
    *into = std::move(*value);
  }
  const YamlNode *peaks = root->find("peak_tflops");
  if (!peaks || peaks->kind != YamlNode::Kind::Map || peaks->entries.empty())
    return reader.at(peaks ? *peaks : *root,
                     "'peak_tflops' is missing or empty: a device computes in some element type");
  for (const auto &[element, node] : peaks->entries) {
    if (!is_contained(elementTypes, std::string_view(element)))
      return reader.at(node, "peak_tflops: unknown element type '" + element + "'; they are " +
                                 join(ArrayRef(elementTypes), ", "));
    Expected<Figure> peak = reader.figure(node, "peak_tflops " + element, "peak_tflops");
    if (!peak)
      return peak.takeError();
    device.peakTflops[element] = std::move(*peak);
  }
  if (Error error = reader.optional(*root, "memory_gb", "memory_gb", device.memoryGB))
    return std::move(error);
  if (Error error = reader.optional(*root, "memory_gbps", "memory_gbps", device.memoryGBps))
    return std::move(error);
  for (auto [key, into] : {std::pair("multiprocessors", &device.multiprocessors),
                           std::pair("clock_ghz", &device.clockGHz), std::pair("cache_mb", &device.cacheMB)})
    if (Error error = reader.optional(*root, key, key, *into))
      return std::move(error);
  if (Error error = reader.optional(*root, "watts", "watts", device.watts))
    return std::move(error);
  if (Error error = reader.optional(*root, "clients", "clients", device.clients))
    return std::move(error);
  if (const YamlNode *serving = root->find("serving")) {
    Expected<MeasuredTimes> times = MeasuredTimes::parse(*serving, file);
    if (!times)
      return times.takeError();
    device.serving = std::move(*times);
  }
  if (const YamlNode *link = root->find("link")) {
    if (Error error = reader.checkKeys(*link, "link", {"direction", "gbps"}))
      return std::move(error);
    Expected<std::string> direction = reader.word(*link, "direction");
    if (!direction)
      return direction.takeError();
    if (*direction != "both" && *direction != "one_way")
      return reader.at(*link->find("direction"),
                       "link: direction is both (what the source adds up) or one_way, not '" + *direction + "'");
    device.linkBothDirections = *direction == "both";
    if (!link->find("gbps"))
      return reader.at(*link, "link: 'gbps' is missing");
    if (Error error = reader.optional(*link, "gbps", "link gbps", device.linkGBps))
      return std::move(error);
  }
  if (const YamlNode *node = root->find("node")) {
    if (Error error = reader.checkKeys(*node, "node", {"devices", "link_domain", "network_gbps"}))
      return std::move(error);
    for (auto [key, into] : {std::pair("devices", &device.nodeDevices), std::pair("link_domain", &device.linkDomain)}) {
      if (Error error = reader.optional(*node, key, key, *into))
        return std::move(error);
      if (*into && (*into)->value != std::floor((*into)->value))
        return reader.at(*node->find(key), Twine(key) + " is a whole number");
    }
    if (Error error = reader.optional(*node, "network_gbps", "network_gbps", device.networkGBps))
      return std::move(error);
  }
  if (const YamlNode *price = root->find("price")) {
    std::pair<StringRef, std::optional<Figure> *> prices[] = {
        {"purchase_dollars", &device.purchaseDollars},
        {"rental_dollars_per_hour", &device.rentalDollarsPerHour},
        {"rental_low_dollars_per_hour", &device.rentalLowDollarsPerHour},
        {"operating_dollars_per_hour", &device.operatingDollarsPerHour}};
    if (Error error =
            reader.checkKeys(*price, "price", {prices[0].first, prices[1].first, prices[2].first, prices[3].first}))
      return std::move(error);
    for (auto &[key, into] : prices)
      if (Error error = reader.optional(*price, key, key, *into))
        return std::move(error);
  }
  return device;
}

Expected<double> CatalogueDevice::need(const std::optional<Figure> &figure, StringRef figureName) const {
  if (figure)
    return figure->value;
  return createStringError(inconvertibleErrorCode(),
                           formatv("{0}: the catalogue has no figure '{1}' for it ({2}); add it with its source, or "
                                   "choose another device",
                                   name, figureName, file));
}

Expected<double> CatalogueDevice::peak(StringRef elementType) const {
  auto found = peakTflops.find(elementType.str());
  if (found != peakTflops.end())
    return found->second.value;
  std::vector<std::string> has;
  for (StringRef element : elementTypes)
    if (peakTflops.count(element.str()))
      has.push_back(element.str());
  return createStringError(inconvertibleErrorCode(),
                           formatv("{0}: the catalogue has no figure 'peak_tflops.{1}' for it ({2}), only {3}; choose "
                                   "a precision that computes in one of those, or add the figure with its source",
                                   name, elementType, file, join(has, ", ")));
}

Expected<double> CatalogueDevice::linkOneWayGBps() const {
  Expected<double> figure = need(linkGBps, "link.gbps");
  if (!figure)
    return figure;
  return linkBothDirections ? *figure / 2 : *figure;
}

int CatalogueDevice::devicesOnLink() const {
  if (linkDomain)
    return int(linkDomain->value);
  return nodeDevices ? int(nodeDevices->value) : 1;
}

std::vector<std::string> CatalogueDevice::unsureFigures() const {
  std::vector<std::string> names;
  for (const auto &[element, figure] : peakTflops)
    if (figure.unsure)
      names.push_back("peak_tflops." + element);
  std::pair<const char *, const std::optional<Figure> *> others[] = {
      {"memory_gb", &memoryGB},
      {"memory_gbps", &memoryGBps},
      {"multiprocessors", &multiprocessors},
      {"clock_ghz", &clockGHz},
      {"cache_mb", &cacheMB},
      {"link.gbps", &linkGBps},
      {"node.devices", &nodeDevices},
      {"node.link_domain", &linkDomain},
      {"node.network_gbps", &networkGBps},
      {"watts", &watts},
      {"price.purchase_dollars", &purchaseDollars},
      {"price.rental_dollars_per_hour", &rentalDollarsPerHour},
      {"price.rental_low_dollars_per_hour", &rentalLowDollarsPerHour},
      {"price.operating_dollars_per_hour", &operatingDollarsPerHour}};
  for (auto &[key, figure] : others)
    if (*figure && (*figure)->unsure)
      names.push_back(key);
  return names;
}

Expected<double> CatalogueDevice::rentalPerHour() const {
  return need(rentalLowDollarsPerHour ? rentalLowDollarsPerHour : rentalDollarsPerHour,
              "price.rental_dollars_per_hour");
}

static Error checkTerms(const OwnershipTerms &terms) {
  auto refuse = [](const char *what, double value, const char *must) {
    return createStringError(inconvertibleErrorCode(), formatv("ownership: {0} {1} must be {2}", what, value, must));
  };
  if (!(terms.years > 0 && terms.years <= 50))
    return refuse("years", terms.years, "above 0 and at most 50");
  if (!(terms.interestPerYear >= 0 && terms.interestPerYear <= 1))
    return refuse("interest a year", terms.interestPerYear, "between 0 and 1 (8 % is 0.08)");
  if (!(terms.dollarsPerKWh >= 0 && terms.dollarsPerKWh <= 10))
    return refuse("$/kWh", terms.dollarsPerKWh, "between 0 and 10");
  if (!(terms.utilisation >= 0 && terms.utilisation <= 1))
    return refuse("utilisation", terms.utilisation, "between 0 and 1");
  return Error::success();
}

Expected<double> CatalogueDevice::operatingPerHour(const OwnershipTerms &terms) const {
  if (Error error = checkTerms(terms))
    return std::move(error);
  Expected<double> price = need(purchaseDollars, "price.purchase_dollars");
  if (!price)
    return price;
  Expected<double> power = need(watts, "watts");
  if (!power)
    return power;
  double hours = 8760 * terms.years;
  return *price * std::expm1(terms.interestPerYear * terms.years) / hours +
         *power / 1000 * terms.utilisation * terms.dollarsPerKWh;
}

Expected<double> CatalogueDevice::ownedPerHour(const OwnershipTerms &terms) const {
  Expected<double> operating = operatingPerHour(terms);
  if (!operating)
    return operating;
  return *operating + purchaseDollars->value / (8760 * terms.years);
}

ArrayRef<CatalogueDevice> intarsia::catalogueDevices() {
  static const std::vector<CatalogueDevice> devices = [] {
    std::vector<CatalogueDevice> devices;
    for (const EmbeddedFile &file : deviceFiles) {
      Expected<CatalogueDevice> device = CatalogueDevice::parse(file.text, file.path);
      if (!device)
        report_fatal_error(device.takeError());
      devices.push_back(std::move(*device));
    }
    sort(devices, [](const CatalogueDevice &a, const CatalogueDevice &b) { return a.name < b.name; });
    return devices;
  }();
  return devices;
}

std::string intarsia::nearestNames(StringRef name, ArrayRef<std::string> names) {
  std::vector<std::pair<unsigned, std::string>> near;
  for (const std::string &candidate : names) {
    StringRef device = StringRef(candidate).rsplit('/').second;
    unsigned distance = std::min(StringRef(candidate).edit_distance_insensitive(name),
                                 device.empty() ? ~0u : device.edit_distance_insensitive(name));
    if (StringRef(candidate).contains_insensitive(name) || (!device.empty() && name.contains_insensitive(device)))
      distance = std::min(distance, 1u);
    if (distance <= std::max<size_t>(2, name.size() / 3))
      near.emplace_back(distance, candidate);
  }
  llvm::sort(near);
  if (near.empty())
    return "";
  std::string text = "; did you mean ";
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i)
    text += (i ? ", '" : "'") + near[i].second + "'";
  return text + "?";
}

Expected<const CatalogueDevice *> intarsia::findDevice(StringRef name) {
  std::vector<std::string> names;
  for (const CatalogueDevice &device : catalogueDevices()) {
    if (device.name == name)
      return &device;
    names.push_back(device.name);
  }
  std::string near = nearestNames(name, names);
  if (near.empty())
    near = "; it has " + join(names, ", ");
  return createStringError(inconvertibleErrorCode(), "the catalogue has no device '" + name + "'" + near);
}
