//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Picture.h"

#include "lib/Target/Wafer/Lifetimes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace intarsia::wafer;

namespace intarsia {
namespace {

// Sizes in pixels.
constexpr int64_t mostSquares = 60; ///< along a side of a map
constexpr double mapSide = 240, gap = 30, top = 50, panelHeight = top + mapSide + 50;
constexpr double width = 4 * (mapSide + gap) + gap;

std::string escaped(StringRef text) {
  std::string result;
  for (char c : text)
    result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

void writeText(raw_ostream &out, double x, double y, const Twine &text, int size = 12) {
  out << formatv("<text x='{0:F1}' y='{1:F1}' font-size='{2}'>{3}</text>\n", x, y, size, escaped(text.str()));
}

/// Returns a color from white (0) over orange to dark red (1).
std::string heat(double share) {
  auto mix = [&](double low, double middle, double high) {
    return int(share < 0.5 ? low + (middle - low) * 2 * share : middle + (high - middle) * (2 * share - 1));
  };
  return formatv("rgb({0},{1},{2})", mix(255, 250, 110), mix(255, 150, 0), mix(250, 40, 20));
}

/// Draws one value of each core; the largest has the darkest color, 0 the lightest.
void drawMap(raw_ostream &out, double x, double y, const Program &program, ArrayRef<double> values, StringRef title) {
  writeText(out, x, y - 8, title);
  int64_t cores = divideCeil(std::max(program.columns, program.rows), mostSquares); // along a square's side
  int64_t columns = divideCeil(program.columns, cores), rows = divideCeil(program.rows, cores);
  double most = *std::max_element(values.begin(), values.end());
  double side = mapSide / double(std::max(columns, rows));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      double largest = 0;
      for (int64_t i = row * cores; i < std::min((row + 1) * cores, program.rows); ++i)
        for (int64_t j = column * cores; j < std::min((column + 1) * cores, program.columns); ++j)
          largest = std::max(largest, values[size_t(i * program.columns + j)]);
      out << formatv("<rect x='{0:F2}' y='{1:F2}' width='{2:F2}' height='{2:F2}' fill='{3}'/>\n",
                     x + side * double(column), y + side * double(row), side, heat(most > 0 ? largest / most : 0));
    }
  out << formatv("<rect x='{0:F1}' y='{1:F1}' width='{2:F1}' height='{3:F1}' fill='none' stroke='#888'/>\n", x, y,
                 side * double(columns), side * double(rows));
  writeText(
      out, x, y + mapSide + 16,
      formatv("{0:F0} to {1:F0} cycles (the darkest color)", *std::min_element(values.begin(), values.end()), most));
  if (cores > 1)
    writeText(out, x, y + mapSide + 32, formatv("a square has {0} x {0} cores, and their largest value", cores), 10);
}

/// Draws the memory that a core uses, which is the same for all cores: bytes from the top down, ops from left to right.
void drawMemory(raw_ostream &out, double x, double y, const Program &program) {
  double used = double(program.bytesPerCore());
  writeText(out, x, y - 8,
            formatv("memory of each core: {0} of {1} bytes", program.bytesPerCore(), program.target.sramBytes));
  std::vector<Lifetime> lifetimes = lifetimesOf(program);
  int64_t ops = 1;
  for (const Lifetime &life : lifetimes)
    ops = std::max(ops, life.last + 1);
  int index = 0;
  auto draw = [&](StringRef name, int64_t offset, int64_t bytes, const Lifetime &life) {
    double top = y + mapSide * double(offset) / used, height = mapSide * double(bytes) / used;
    double left = x + mapSide * double(std::max<int64_t>(life.first, 0)) / double(ops);
    double width = x + mapSide * double(life.last + 1) / double(ops) - left;
    out << formatv("<rect x='{0:F1}' y='{1:F2}' width='{2:F1}' height='{3:F2}' fill='hsl({4},55%,70%)' stroke='#666' "
                   "stroke-width='0.3'/>\n",
                   left, top, width, height, index++ * 67 % 360);
    if (height >= 9 && width >= 60) // smaller ones have no room for a name
      writeText(out, left + 3, top + height / 2 + 4, formatv("{0}: {1}", name, bytes), 10);
  };
  draw("reserved for the runtime", 0, program.target.reservedBytes, {0, ops - 1});
  int64_t end = program.target.reservedBytes; // without places each has bytes of its own, one after another
  for (auto [buffer, life] : zip_equal(program.buffers, lifetimes)) {
    draw(buffer.name, buffer.offset ? program.target.reservedBytes + *buffer.offset : end, buffer.placedBytes(), life);
    end += buffer.placedBytes();
  }
  out << formatv("<rect x='{0:F1}' y='{1:F1}' width='{2:F1}' height='{2:F1}' fill='none' stroke='#888'/>\n", x, y,
                 mapSide);
  writeText(out, x, y + mapSide + 16, formatv("from the first of {0} ops to the last", ops));
}

} // namespace

void drawPicture(raw_ostream &out, ArrayRef<Pictured> programs) {
  out << formatv("<svg xmlns='http://www.w3.org/2000/svg' width='{0:F0}' height='{1:F0}' font-family='sans-serif' "
                 "shape-rendering='crispEdges'>\n"
                 "<rect width='100%' height='100%' fill='white'/>\n",
                 width, panelHeight * double(programs.size()) + gap);
  for (auto [index, one] : enumerate(programs)) {
    double y = gap + panelHeight * double(index), cycles = one.timing.cycles;
    writeText(out, gap, y,
              formatv("@{0}: {1} x {2} cores of {3}, {4:F0} cycles, {5:F2} us", one.program.name, one.program.columns,
                      one.program.rows, one.program.target.name, cycles, cycles / (one.program.target.clockGHz * 1e3)),
              14);
    ArrayRef<double> maps[] = {one.cores.carried, one.cores.waited, one.cores.computed};
    StringRef titles[] = {"busiest link that leaves the router", "waiting", "arithmetic"};
    for (auto [column, values] : enumerate(maps))
      drawMap(out, gap + (mapSide + gap) * double(column), y + top - gap + 8, one.program, values, titles[column]);
    drawMemory(out, gap + (mapSide + gap) * 3, y + top - gap + 8, one.program);
  }
  out << "</svg>\n";
}

} // namespace intarsia
