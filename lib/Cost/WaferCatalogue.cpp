//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/WaferCatalogue.h"

#include "lib/Cost/Yaml.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace intarsia {
namespace {

/// Range of a figure outside of which its unit is probably mistaken.
struct Range {
  const char *name;
  double least, most;
};
constexpr Range ranges[] = {
    {"columns", 1, 10000},     {"rows", 1, 10000},      {"sram_bytes", 1024, 16 << 20}, {"reserved_bytes", 0, 4 << 20},
    {"colors", 1, 1024},       {"clock_ghz", 0.01, 10}, {"hop_cycles", 0.1, 100},       {"ramp_cycles", 0, 1000},
    {"link_bytes", 0.1, 4096}, {"macs", 0.1, 1e5},      {"loop_cycles", 0, 1e4},        {"product_cycles", 0, 1e5},
    {"stage_cycles", 0, 1e5},  {"add_cycles", 0, 1000}, {"element_cycles", 0, 1e4},     {"watts", 1, 200000},
    {"system_gbps", 0.1, 1e5}, {"system_us", 0, 1e4}};
/// Figures that a wafer need not have.
constexpr StringRef optionalFigures[] = {"watts", "system_gbps", "system_us"};
constexpr StringRef wholeNumbers[] = {"columns", "rows", "sram_bytes", "reserved_bytes", "colors"};

struct EmbeddedFile {
  const char *path, *text;
};
const EmbeddedFile files[] = {
#include "Wafers.inc"
};

Expected<Figure> readFigure(const YamlNode &node, const Range &range, StringRef file) {
  auto at = [&](const Twine &message) { return yamlError(file, node.line, range.name + (": " + message)); };
  if (node.kind != YamlNode::Kind::Map)
    return at("is no map of value, source, date and unsure");
  for (const auto &[key, entry] : node.entries)
    if (!is_contained({"value", "source", "date", "unsure"}, StringRef(key)))
      return at("unknown key '" + key + "'; it has value, source, date, unsure");
  const YamlNode *value = node.find("value"), *source = node.find("source"), *date = node.find("date");
  if (!value || !source || !date || source->scalar.empty() || date->scalar.empty())
    return at("'value', 'source' or 'date' is missing: every figure says where it is from and when");
  Expected<double> number = value->number(file, range.name);
  if (!number)
    return number.takeError();
  if (*number < range.least || *number > range.most)
    return at(formatv("{0} must be between {1} and {2}", value->scalar, range.least, range.most).str());
  if (is_contained(wholeNumbers, range.name) && *number != double(int64_t(*number)))
    return at(value->scalar + " must be a whole number");
  const YamlNode *unsure = node.find("unsure");
  return Figure{*number, source->scalar, date->scalar, unsure && unsure->scalar == "true"};
}

/// Reads `defects: [[3, 5], …]`: columns and rows of cores.
Error readDefects(const YamlNode &node, CatalogueWafer &wafer, StringRef file) {
  auto at = [&](const YamlNode &item, const Twine &message) {
    return yamlError(file, item.line, "defects: " + message);
  };
  if (node.kind != YamlNode::Kind::Sequence)
    return at(node, "is no list of cores, each [column, row]");
  std::set<std::pair<int64_t, int64_t>> known;
  for (const YamlNode &item : node.items) {
    if (item.kind != YamlNode::Kind::Sequence || item.items.size() != 2)
      return at(item, "has something else than a core, [column, row]");
    Expected<double> column = item.items[0].number(file, "defects"), row = item.items[1].number(file, "defects");
    if (!column || !row)
      return joinErrors(column.takeError(), row.takeError());
    double columns = wafer.figures["columns"].value, rows = wafer.figures["rows"].value;
    std::string core = "(" + item.items[0].scalar + ", " + item.items[1].scalar + ")";
    if (*column != std::floor(*column) || *row != std::floor(*row) || *column < 0 || *row < 0 || *column >= columns ||
        *row >= rows)
      return at(item, formatv("core {0} is not among the {1} by {2} cores of the wafer", core, int64_t(columns),
                              int64_t(rows)));
    if (!known.insert({int64_t(*column), int64_t(*row)}).second)
      return at(item, "core " + core + " is there twice");
    wafer.defects.push_back(int64_t(*column));
    wafer.defects.push_back(int64_t(*row));
  }
  return Error::success();
}

} // namespace

Expected<CatalogueWafer> CatalogueWafer::parse(StringRef text, StringRef file) {
  Expected<YamlNode> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  if (root->kind != YamlNode::Kind::Map)
    return yamlError(file, root->line, "wafer: is not a map");
  CatalogueWafer wafer;
  const YamlNode *defects = nullptr;
  for (const auto &[key, node] : root->entries) {
    if (key == "defects") {
      defects = &node;
      continue;
    }
    if (key == "name") {
      wafer.name = node.scalar;
      continue;
    }
    const Range *range = find_if(ranges, [&](const Range &entry) { return key == entry.name; });
    if (range == std::end(ranges))
      return yamlError(file, node.line,
                       "unknown key '" + key + "'; a wafer has name, " +
                           join(map_range(ranges, [](const Range &r) { return StringRef(r.name); }), ", ") +
                           ", defects");
    Expected<Figure> figure = readFigure(node, *range, file);
    if (!figure)
      return figure.takeError();
    wafer.figures[key] = *figure;
  }
  if (wafer.name.empty())
    return yamlError(file, root->line, "'name' is missing or empty");
  for (const Range &range : ranges)
    if (!wafer.figures.count(range.name) && !is_contained(optionalFigures, range.name))
      return yamlError(file, root->line, "'" + Twine(range.name) + "' is missing");
  if (wafer.figures["reserved_bytes"].value >= wafer.figures["sram_bytes"].value)
    return yamlError(file, root->line, "reserved_bytes leave nothing of sram_bytes");
  if (defects)
    if (Error error = readDefects(*defects, wafer, file))
      return std::move(error);
  return wafer;
}

/// Returns the wafers of the catalogue. They are parsed once: a search of grids asks for one hundreds of times.
static ArrayRef<CatalogueWafer> catalogueWafers() {
  static const std::vector<CatalogueWafer> wafers = [] {
    std::vector<CatalogueWafer> wafers;
    for (const EmbeddedFile &file : files) {
      Expected<CatalogueWafer> wafer = CatalogueWafer::parse(file.text, file.path);
      if (!wafer)
        report_fatal_error(wafer.takeError());
      wafers.push_back(std::move(*wafer));
    }
    return wafers;
  }();
  return wafers;
}

Expected<CatalogueWafer> findWafer(StringRef name) {
  std::vector<std::string> known;
  for (const CatalogueWafer &wafer : catalogueWafers()) {
    if (wafer.name == name)
      return wafer;
    known.push_back(wafer.name);
  }
  return createStringError("unknown wafer '" + name + "'; known are " + join(known, ", ") + ", or a .yaml file");
}

} // namespace intarsia
