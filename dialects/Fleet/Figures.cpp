//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Fleet/Figures.h"

#include "llvm/ADT/StringExtras.h"
#include <charconv>
#include <cmath>

using namespace mlir;
using namespace intarsia;

ParseResult intarsia::parseFigure(AsmParser &parser, FloatAttr &figure) {
  SMLoc location = parser.getCurrentLocation();
  Attribute number;
  if (parser.parseAttribute(number))
    return failure();
  Type f64 = parser.getBuilder().getF64Type();
  if (auto whole = dyn_cast<IntegerAttr>(number); whole && whole.getType().isSignlessInteger(64))
    figure = FloatAttr::get(f64, static_cast<double>(whole.getInt()));
  else if (auto real = dyn_cast<FloatAttr>(number); real && real.getType() == f64)
    figure = real;
  else
    return parser.emitError(location) << "expected a number, there is " << number;
  return success();
}

std::string intarsia::figureText(double figure) {
  if (std::isnan(figure))
    return "0x7FF8000000000000 : f64";
  if (std::isinf(figure))
    return figure > 0 ? "0x7FF0000000000000 : f64" : "0xFFF0000000000000 : f64";
  char buffer[64];
  bool plain = figure == 0 || (std::fabs(figure) >= 1e-4 && std::fabs(figure) < 1e15);
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), figure,
                                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end);
  // MLIR accepts an exponent only after a decimal point.
  if (size_t exponent = text.find('e'); exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

void intarsia::printFigure(raw_ostream &out, double figure) { out << figureText(figure); }

ParseResult intarsia::parseFigures(AsmParser &parser, ArrayRef<NamedFigure> figures) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, [&]() -> ParseResult {
    SMLoc location = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    auto found = llvm::find_if(figures, [&](const NamedFigure &figure) { return figure.name == name; });
    if (found == figures.end()) {
      SmallVector<StringRef> known;
      for (const NamedFigure &figure : figures)
        known.push_back(figure.name);
      return parser.emitError(location) << "'" << name << "' is unknown here" << nearestNames(name, known);
    }
    if (*found->figure)
      return parser.emitError(location) << "'" << name << "' is given twice";
    return failure(parser.parseEqual() || parseFigure(parser, *found->figure));
  });
}

void intarsia::printFigures(raw_ostream &out, ArrayRef<std::pair<StringRef, FloatAttr>> figures) {
  bool first = true;
  for (auto [name, figure] : figures) {
    if (!figure)
      continue;
    out << (first ? "" : ", ") << name << " = ";
    printFigure(out, figure.getValueAsDouble());
    first = false;
  }
}

LogicalResult intarsia::verifyFigure(EmitError emitError, const Twine &what, double figure, const FigureRange &range) {
  if (std::isnan(figure) || std::isinf(figure))
    return emitError() << what << " is " << (std::isnan(figure) ? "NaN" : "infinite") << ", must be a number";
  if (figure < 0)
    return emitError() << what << " is " << figureText(figure) << ", must not be negative";
  if (figure == 0 && range.mayBeZero)
    return success();
  if (figure < range.low || figure > range.high)
    return emitError() << what << " is " << figureText(figure) << ", plausible is " << figureText(range.low) << " to "
                       << figureText(range.high) << "; " << range.hint;
  return success();
}

LogicalResult intarsia::verifyFigure(EmitError emitError, const Twine &what, FloatAttr figure,
                                     const FigureRange &range) {
  return figure ? verifyFigure(emitError, what, figure.getValueAsDouble(), range) : success();
}

std::string intarsia::nearestNames(StringRef name, ArrayRef<StringRef> known) {
  if (known.empty())
    return "; there are none";
  auto quoted = [](ArrayRef<StringRef> names, StringRef separator) {
    std::string text;
    for (auto [index, each] : llvm::enumerate(names))
      text += ((index ? separator : "") + "'" + each + "'").str();
    return text;
  };
  SmallVector<std::pair<unsigned, StringRef>> near;
  for (StringRef other : known) {
    unsigned distance = name.edit_distance_insensitive(other);
    if ((distance < name.size() && distance <= std::max<size_t>(name.size() < 4 ? 1 : 2, name.size() / 3)) ||
        other.contains_insensitive(name) || name.contains_insensitive(other))
      near.emplace_back(distance, other);
  }
  llvm::stable_sort(near, [](const auto &a, const auto &b) { return a.first < b.first; });
  SmallVector<StringRef> best;
  for (auto [distance, other] : ArrayRef(near).take_front(3))
    best.push_back(other);
  if (!best.empty())
    return "; did you mean " + quoted(best, " or ") + "?";
  return "; known are " + quoted(known.take_front(10), ", ") + (known.size() > 10 ? ", …" : "");
}
