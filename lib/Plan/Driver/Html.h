//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// What the parts of the HTML report share: escaping, numbers for people, text that fits, and SVG.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_DRIVER_HTML_H
#define INTARSIA_LIB_PLAN_DRIVER_HTML_H

#include "Driver.h"
#include "llvm/Support/raw_ostream.h"

namespace intarsia::plan::html {

/// Safe between tags and in quoted attributes. Bytes that are no UTF-8 and control characters become U+FFFD.
std::string escaped(llvm::StringRef text);

//===-- Numbers -----------------------------------------------------------------------------------------------===//

/// "0.71 ms", "421 ms", "10.0 s", "12.4 min"; "–" for what has no bound.
std::string duration(double milliseconds);
/// Whole, or with three significant digits or more; grouped: "20", "0.0427", "9.57", "12,345".
std::string number(double value);
std::string percent(double share);
/// About so many round numbers from `low` to `high`, a step apart.
std::vector<double> ticks(double low, double high, int about);

/// Dollars of so many requests, the fewest that make the number readable.
struct Batch {
  double requests = 1;
  std::string name; ///< "a request", "1,000 requests", "a million requests"
  static Batch of(double dollarsPerRequest);
  std::string dollars(double perRequest) const { return "$" + number(perRequest * requests); }
};

//===-- Text and shapes ---------------------------------------------------------------------------------------===//

/// Width in pixels in DejaVu Sans, which is wider than what most systems have: what fits by this fits there.
double textWidth(llvm::StringRef text, double size);
/// Broken at spaces, and inside words that are too long; the last line ends in "…" if there is more. At least one
/// line, if an empty one.
std::vector<std::string> wrapped(llvm::StringRef text, double size, double width, size_t lines);

/// An image in the page. Coordinates are pixels from its upper left corner; classes are those of the page's style.
class Svg {
public:
  Svg() : out(content) {}
  void rectangle(double x, double y, double width, double height, llvm::StringRef classes, double radius = 0);
  void line(double x1, double y1, double x2, double y2, llvm::StringRef classes);
  void circle(double x, double y, double radius, llvm::StringRef classes);
  void path(llvm::StringRef data, llvm::StringRef classes, llvm::StringRef more = "");
  /// `y` is the base line; anchor: start, middle, end.
  void text(double x, double y, llvm::StringRef text, llvm::StringRef classes, llvm::StringRef anchor = "start");
  /// What stands between `begin` and `end` shows this text under the pointer.
  void beginGroup(llvm::StringRef title, llvm::StringRef classes = "");
  void endGroup() { out << "</g>\n"; }
  /// The whole image; `label` is read to those who do not see it.
  void write(llvm::raw_ostream &page, double width, double height, llvm::StringRef label);

private:
  std::string content;
  llvm::raw_string_ostream out;
};

//===-- The report's parts ------------------------------------------------------------------------------------===//

/// The style's class of a pool: its colour. Pools after the eighth begin again, names stand everywhere beside colours.
std::string poolClass(const PlanReport &report, int pool);
/// "@cheap", or of what is outside the fleet its name.
std::string poolName(const PlanReport &report, int pool);
/// "@cheap · fp8 · tensor 2".
std::string placeOf(const PieceRow &row);

/// An agent's tasks from top to bottom, loops, maps and branches as boxes around theirs.
void writeGraph(llvm::raw_ostream &page, const PlanReport &report, const std::vector<PieceRow> &rows, int agent);
/// One nominal request of an agent (intarsia/Plan/Schedule.h).
void writeGantt(llvm::raw_ostream &page, const PlanReport &report, int agent);
/// Dollars against latency.
void writeFront(llvm::raw_ostream &page, const PlanReport &report, const Batch &batch);
/// What devices and replicas do.
void writeUtilization(llvm::raw_ostream &page, const PlanReport &report, const std::vector<PieceRow> &rows);
/// The page's style sheet.
llvm::StringRef style();

} // namespace intarsia::plan::html

#endif
