//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Common parts of the HTML report: escaping, numbers for people, text that fits, and SVG.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_PARTS_HTML_H
#define INTARSIA_LIB_PLAN_PARTS_HTML_H

#include "Parts.h"
#include "llvm/Support/raw_ostream.h"

namespace intarsia::plan::html {

/// Returns text that is safe between tags and in quoted attributes. Invalid UTF-8 and control characters become U+FFFD.
std::string escaped(llvm::StringRef text);

//===-- Numbers -----------------------------------------------------------------------------------------------===//

/// Returns "0.71 ms", "421 ms", "10.0 s", "12.4 min"; "–" for infinity.
std::string duration(double milliseconds);
/// Returns a number, whole or with three or more significant digits, grouped: "20", "0.0427", "9.57", "12,345".
std::string number(double value);
std::string percent(double share);
/// Returns about `about` round numbers from `low` to `high`, evenly spaced.
std::vector<double> ticks(double low, double high, int about);

/// Unit of dollars: the smallest number of requests that makes the amount readable.
struct Batch {
  double requests = 1;
  std::string name; ///< "a request", "1,000 requests", "a million requests"
  static Batch of(double dollarsPerRequest);
  std::string dollars(double perRequest) const { return "$" + number(perRequest * requests); }
};

//===-- Text and shapes ---------------------------------------------------------------------------------------===//

/// Returns the width in pixels in DejaVu Sans, which is wider than most systems' fonts: text that fits by this fits
/// there.
double textWidth(llvm::StringRef text, double size);
/// Breaks text at spaces, and inside words that are too long; the last line ends in "…" if there is more. Returns at
/// least one line, even if empty.
std::vector<std::string> wrapped(llvm::StringRef text, double size, double width, size_t lines);

/// An image in the page. Coordinates are pixels from its upper left corner; classes are those of the page's style.
class Svg {
public:
  Svg() : out(content) {}
  void rectangle(double x, double y, double width, double height, llvm::StringRef classes, double radius = 0);
  void line(double x1, double y1, double x2, double y2, llvm::StringRef classes);
  void circle(double x, double y, double radius, llvm::StringRef classes);
  void path(llvm::StringRef data, llvm::StringRef classes, llvm::StringRef more = "");
  /// Draws text; `y` is the base line; anchor: start, middle, end.
  void text(double x, double y, llvm::StringRef text, llvm::StringRef classes, llvm::StringRef anchor = "start");
  /// Begins a group, whose content shows this text as a tooltip.
  void beginGroup(llvm::StringRef title, llvm::StringRef classes = "");
  void endGroup() { out << "</g>\n"; }
  /// Writes the image; `label` is its text for screen readers.
  void write(llvm::raw_ostream &page, double width, double height, llvm::StringRef label);

private:
  std::string content;
  llvm::raw_string_ostream out;
};

//===-- The report's parts ------------------------------------------------------------------------------------===//

/// Returns the style's class of a pool, its colour. Colours repeat after the eighth pool; names stand beside them
/// everywhere.
std::string poolClass(const PlanReport &report, int pool);
/// Returns "@cheap", or the name of a pool outside the fleet.
std::string poolName(const PlanReport &report, int pool);
/// Returns "@cheap · fp8 · tensor 2".
std::string placeOf(const PieceRow &row);

/// Draws an agent's tasks from top to bottom, with boxes around the tasks of loops, maps and branches.
void writeGraph(llvm::raw_ostream &page, const PlanReport &report, const std::vector<PieceRow> &rows, int agent);
/// Draws one nominal request of an agent (intarsia/Plan/Schedule.h).
void writeGantt(llvm::raw_ostream &page, const PlanReport &report, int agent);
/// Draws dollars against latency.
void writeFront(llvm::raw_ostream &page, const PlanReport &report, const Batch &batch);
/// Draws the utilization of devices and replicas.
void writeUtilization(llvm::raw_ostream &page, const PlanReport &report, const std::vector<PieceRow> &rows);
/// Returns the page's style sheet.
llvm::StringRef style();

} // namespace intarsia::plan::html

#endif
