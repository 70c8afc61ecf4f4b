//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Reads recorded arrivals from CSV.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Plan/Simulation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Latest time. Times since 1970 in a smaller unit than the column's are beyond it; up to it a double resolves 0.02 ms.
constexpr double latestMs = 1e14;

namespace {
class ArrivalReader {
public:
  ArrivalReader(StringRef csv, StringRef file, ArrayRef<std::string> agents) : rest(csv), file(file), agents(agents) {}

  Expected<std::vector<std::pair<double, int>>> run() {
    rest.consume_front("\xEF\xBB\xBF"); // byte order mark that spreadsheets write
    Expected<std::vector<StringRef>> cells = nextRow();
    if (!cells)
      return cells.takeError();
    if (cells->empty())
      return createStringError(file + ": is empty; its first line names the columns, agent and seconds or "
                                      "milliseconds, and one line follows for each request");
    if (Error error = readHeader(*cells))
      return std::move(error);
    std::vector<std::pair<double, int>> arrivals;
    double first = 0, before = 0;
    for (;;) {
      cells = nextRow();
      if (!cells)
        return cells.takeError();
      if (cells->empty())
        break;
      if (cells->size() != columns)
        return at(Twine(cells->size()) + " cells, the first line has " + Twine(columns));
      Expected<double> time = timeOf((*cells)[timeColumn]);
      if (!time)
        return time.takeError();
      if (*time < before)
        return at("column '" + timeName + "': " + (*cells)[timeColumn] +
                  " comes before the line above; sort the file by time");
      before = *time;
      Expected<int> agent = agentOf((*cells)[agentColumn]);
      if (!agent)
        return agent.takeError();
      if (arrivals.empty())
        first = *time;
      arrivals.push_back({*time - first, *agent});
    }
    if (arrivals.empty())
      return createStringError(file + ": has no request after the line that names its columns");
    return arrivals;
  }

private:
  StringRef rest, file;
  ArrayRef<std::string> agents;
  size_t line = 0, columns = 0, timeColumn = 0, agentColumn = 0;
  StringRef timeName;
  double millisecondsPerUnit = 1;

  Error at(const Twine &what) const { return createStringError(file + ":" + Twine(line) + ": " + what); }

  /// Returns the cells of the next line that is not empty; none at the end.
  Expected<std::vector<StringRef>> nextRow() {
    std::vector<StringRef> cells;
    while (!rest.empty()) {
      StringRef text;
      std::tie(text, rest) = rest.split('\n');
      ++line;
      text = text.trim();
      if (text.empty() || text.starts_with("#"))
        continue;
      for (;;) {
        StringRef cell = text.take_until([](char c) { return c == ','; });
        if (text.consume_front("\"")) {
          cell = text.take_until([](char c) { return c == '"'; });
          text = text.drop_front(cell.size());
          if (!text.consume_front("\""))
            return at("column " + Twine(cells.size() + 1) + ": a quote is not closed");
          text = text.ltrim();
          if (!text.empty() && text.front() != ',')
            return at("column " + Twine(cells.size() + 1) + ": '" + text + "' after the closing quote");
        } else {
          text = text.drop_front(cell.size());
        }
        cells.push_back(cell.trim());
        if (text.empty())
          return cells;
        text = text.drop_front().ltrim();
      }
    }
    return cells;
  }

  Error readHeader(ArrayRef<StringRef> cells) {
    columns = cells.size();
    std::optional<size_t> time, agent;
    for (auto [index, name] : enumerate(cells)) {
      if (name == "seconds" || name == "milliseconds") {
        if (time)
          return at("'" + timeName + "' and '" + name + "': one column of times is expected");
        time = index;
        timeName = name;
        millisecondsPerUnit = name == "seconds" ? 1000 : 1;
      }
      if (name == "agent") {
        if (agent)
          return at("two columns are named 'agent'");
        agent = index;
      }
    }
    if (!time || !agent)
      return at("no column '" + Twine(time ? "agent" : "seconds' or 'milliseconds") + "' among '" +
                join(cells, "', '") + "'; the first line names the columns");
    timeColumn = *time;
    agentColumn = *agent;
    return Error::success();
  }

  Expected<double> timeOf(StringRef cell) const {
    double value = 0;
    if (cell.getAsDouble(value) || !std::isfinite(value))
      return at("column '" + timeName + "': '" + cell + "' is not a number");
    if (value < 0)
      return at("column '" + timeName + "': " + cell + " is below zero");
    double milliseconds = value * millisecondsPerUnit;
    if (milliseconds > latestMs)
      return at("column '" + timeName + "': " + cell +
                " is more than 100,000,000,000 s (3,000 years); is it in another unit than the column's name says?");
    return milliseconds;
  }

  Expected<int> agentOf(StringRef cell) const {
    StringRef name = cell;
    name.consume_front("@");
    auto found = llvm::find(agents, name);
    if (found != agents.end())
      return int(found - agents.begin());
    std::string near = nearestNames(name, agents);
    return at("column 'agent': there is no agent '" + name + "'" +
              (near.empty() ? "; there are '" + join(agents, "', '") + "'" : near));
  }
};
} // namespace

Expected<std::vector<std::pair<double, int>>> readArrivals(StringRef csv, StringRef file,
                                                           ArrayRef<std::string> agents) {
  return ArrivalReader(csv, file, agents).run();
}

} // namespace intarsia::plan
