//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Escaping, numbers, text that fits, and SVG.
//===----------------------------------------------------------------------------------------------------------===//
#include "Html.h"
#include "Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan::html {

std::string escaped(StringRef text) {
  std::string result;
  while (!text.empty()) {
    size_t bytes = characterBytes(text);
    char first = text.front();
    bool isControl = (first >= 0 && first < ' ' && first != '\n' && first != '\t') || first == 0x7f;
    if (bytes == 0 || isControl)
      result += "\xEF\xBF\xBD";
    else if (first == '&')
      result += "&amp;";
    else if (first == '<')
      result += "&lt;";
    else if (first == '>')
      result += "&gt;";
    else if (first == '"')
      result += "&quot;";
    else if (first == '\'')
      result += "&#39;";
    else
      result += text.take_front(bytes);
    text = text.drop_front(std::max<size_t>(bytes, 1));
  }
  return result;
}

static std::string printed(const char *how, int digits, double value) {
  std::string text;
  raw_string_ostream(text) << format(how, digits, value);
  return text;
}

std::string number(double value) {
  if (!std::isfinite(value))
    return "–";
  if (value == 0)
    return "0";
  double magnitude = std::abs(value);
  if (magnitude < 1e-4)
    return printed("%.*e", 2, value);
  int digits = value == std::round(value) ? 0 : std::clamp(2 - int(std::floor(std::log10(magnitude) + 1e-12)), 0, 6);
  std::string text = printed("%.*f", digits, value);
  size_t whole = std::min(text.find('.'), text.size());
  for (size_t at = whole; at > (value < 0 ? 4u : 3u); at -= 3)
    text.insert(at - 3, ",");
  return text;
}

std::string duration(double milliseconds) {
  if (!std::isfinite(milliseconds))
    return "–";
  if (std::abs(milliseconds) < 0.001)
    return "0 ms";
  if (std::abs(milliseconds) < 1000)
    return number(milliseconds) + " ms";
  if (std::abs(milliseconds) < 180e3)
    return number(milliseconds / 1000) + " s";
  return number(milliseconds / 60e3) + " min";
}

std::string percent(double share) {
  return share > 0 && share < 0.001 ? "< 0.1 %" : formatv("{0:f1} %", 100 * share).str();
}

std::vector<double> ticks(double low, double high, int about) {
  double rough = std::max(high - low, 1e-12 * std::max(1.0, std::abs(high))) / about;
  double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double factor : {5.0, 2.5, 2.0, 1.0})
    if (factor * power >= rough * (1 - 1e-9))
      step = factor * power;
  std::vector<double> values;
  for (double at = std::ceil(low / step - 1e-9); at * step <= high * (1 + 1e-12); ++at)
    values.push_back(at * step);
  return values;
}

Batch Batch::of(double dollarsPerRequest) {
  if (dollarsPerRequest <= 0 || dollarsPerRequest >= 0.01)
    return {1, "a request"};
  if (dollarsPerRequest >= 1e-5)
    return {1e3, "1,000 requests"};
  return {1e6, "a million requests"};
}

/// Returns the advance width in DejaVu Sans Bold relative to the size, rounded up by groups.
static double widthOf(StringRef character) {
  if (character.size() > 1)
    return 1;
  char c = character.front();
  if (StringRef("ijl.,:;'|! ").contains(c))
    return 0.4;
  if (StringRef("frtI()[]-/\"").contains(c))
    return 0.49;
  if (StringRef("mMW%@").contains(c))
    return 1.1;
  if (StringRef("w+<>=~OQGDNH_&").contains(c))
    return 0.9;
  if (isUpper(c))
    return 0.8;
  return 0.71;
}

double textWidth(StringRef text, double size) {
  double width = 0;
  while (!text.empty()) {
    size_t bytes = std::max<size_t>(characterBytes(text), 1);
    width += widthOf(text.take_front(bytes)) * size;
    text = text.drop_front(bytes);
  }
  return width;
}

/// Returns the longest prefix of whole characters that is no wider.
static StringRef beginningOf(StringRef text, double size, double width) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    StringRef rest = text.drop_front(bytes);
    size_t next = std::max<size_t>(characterBytes(rest), 1);
    width -= widthOf(rest.take_front(next)) * size;
    if (width < 0)
      break;
    bytes += next;
  }
  return text.take_front(std::max<size_t>(bytes, text.empty() ? 0 : 1));
}

std::vector<std::string> wrapped(StringRef text, double size, double width, size_t lines) {
  std::vector<std::string> result;
  text = text.trim();
  while (!text.empty()) {
    StringRef line = beginningOf(text, size, width);
    if (line.size() < text.size() && result.size() + 1 == lines) {
      result.push_back(beginningOf(text, size, width - size).rtrim().str() + "…");
      break;
    }
    if (line.size() < text.size())
      if (size_t space = text.take_front(line.size() + 1).rfind(' '); space != StringRef::npos && space > 0)
        line = text.take_front(space);
    result.push_back(line.rtrim().str());
    text = text.drop_front(line.size()).ltrim();
  }
  if (result.empty())
    result.push_back("");
  return result;
}

//===-- SVG ---------------------------------------------------------------------------------------------------===//

/// Returns a coordinate; hundredths of a pixel are enough.
static std::string at(double value) {
  std::string text = printed("%.*f", 2, value);
  return StringRef(text).rtrim('0').rtrim('.').str();
}

void Svg::rectangle(double x, double y, double width, double height, StringRef classes, double radius) {
  out << "<rect x=\"" << at(x) << "\" y=\"" << at(y) << "\" width=\"" << at(width) << "\" height=\"" << at(height);
  if (radius > 0)
    out << "\" rx=\"" << at(radius);
  out << "\" class=\"" << classes << "\"/>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, StringRef classes) {
  out << "<line x1=\"" << at(x1) << "\" y1=\"" << at(y1) << "\" x2=\"" << at(x2) << "\" y2=\"" << at(y2)
      << "\" class=\"" << classes << "\"/>\n";
}

void Svg::circle(double x, double y, double radius, StringRef classes) {
  out << "<circle cx=\"" << at(x) << "\" cy=\"" << at(y) << "\" r=\"" << at(radius) << "\" class=\"" << classes
      << "\"/>\n";
}

void Svg::path(StringRef data, StringRef classes, StringRef more) {
  out << "<path d=\"" << data << "\" class=\"" << classes << "\" " << more << "/>\n";
}

void Svg::text(double x, double y, StringRef text, StringRef classes, StringRef anchor) {
  out << "<text x=\"" << at(x) << "\" y=\"" << at(y) << "\" class=\"" << classes << "\" text-anchor=\"" << anchor
      << "\">" << escaped(text) << "</text>\n";
}

void Svg::beginGroup(StringRef title, StringRef classes) {
  out << "<g class=\"" << classes << "\"><title>" << escaped(title) << "</title>\n";
}

void Svg::write(raw_ostream &page, double width, double height, StringRef label) {
  page << "<svg role=\"img\" aria-label=\"" << escaped(label) << "\" width=\"" << at(width) << "\" height=\""
       << at(height) << "\" viewBox=\"0 0 " << at(width) << ' ' << at(height) << "\">\n"
       << content << "</svg>\n";
}

//===-- Names -------------------------------------------------------------------------------------------------===//

std::string poolClass(const PlanReport &report, int pool) {
  return pool < int(report.built->fleetPools) ? "pool" + std::to_string(pool % 8) : "outside";
}

std::string poolName(const PlanReport &report, int pool) {
  StringRef name = report.problem->pools[pool].name;
  if (pool < int(report.built->fleetPools))
    return ("@" + name).str();
  StringRef limited = name.split(':').second;
  return limited.empty() ? name.str() : limited.str();
}

std::string placeOf(const PieceRow &row) {
  std::string where = row.pool;
  for (StringRef part : {StringRef(row.precision), StringRef(row.degrees)})
    if (!part.empty())
      where += (" · " + part).str();
  return where;
}

} // namespace intarsia::plan::html
