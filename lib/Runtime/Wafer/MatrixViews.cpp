//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Where elements of matrices lie in operands, and which programs compute the rows of a launch.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/WaferObject.h"

#include <algorithm>

namespace intarsia::wafer {

std::optional<PackedHeads::Place> PackedHeads::at(int64_t column) const {
  int64_t core = column / tile, in = column % tile, pairs = tile / 2;
  int64_t pair = core % columns * pairs + in % pairs, head = core / columns * parts + part;
  if (head >= heads || pair >= features / 2)
    return std::nullopt;
  return Place{head, pair + (in < pairs ? 0 : features / 2)};
}

float QuantizedPanels::code(const uint8_t *data, int64_t output, int64_t input) const {
  int64_t inUnit = input % unitDepth, inStep = inUnit % 32, word = inStep / 4, lines = bits;
  const uint8_t *step =
      data + output / 32 * panelBytes() + input / unitDepth * unitBytes + unitScaleBytes + inUnit / 32 * 32 * 4 * bits;
  uint8_t byte = step[output % 32 / 16 * lines * 64 + word % lines * 64 + output % 16 * 4 + inStep % 4];
  int64_t pattern = bits == 8 ? byte : word < lines ? byte & 15 : byte >> 4;
  return float(pattern - integerOffset);
}

int64_t QuantizedPanels::scaleAt(int64_t output, int64_t input, int64_t scaleBytes) const {
  return output / 32 * panelBytes() + input / unitDepth * unitBytes +
         (input % unitDepth / block * 32 + output % 32) * scaleBytes;
}

std::optional<int64_t> MatrixView::elements(int64_t launchRows, int64_t rows, int64_t columns) const {
  if (launchRows == 0)
    return 0;
  if (kind != ViewKind::Strided) { // products of four numbers of at most 2^20, 2^14, 2^14 and 2^14
    switch (kind) {
    case ViewKind::Heads:
      return launchRows < int64_t(1) << 20
                 ? std::optional<int64_t>(launchRows * heads.heads * heads.group * heads.features)
                 : std::nullopt;
    case ViewKind::Frequencies:
      return heads.features / 2;
    case ViewKind::Codes:
    case ViewKind::Scales: {
      int64_t bytes = 0;
      if (__builtin_mul_overflow((offset + columns - 1) / 32 + 1, panels.panelBytes(), &bytes) || bytes >= int64_t(1)
                                                                                                               << 62)
        return std::nullopt;
      return bytes;
    }
    default:
      return 0;
    }
  }
  int64_t last = offset;
  for (auto [count, stride] : {std::pair{hasRows ? launchRows : rows, rowStride}, std::pair{columns, columnStride}}) {
    int64_t more = 0;
    if (__builtin_mul_overflow(count - 1, stride, &more) || __builtin_add_overflow(last, more, &last))
      return std::nullopt;
  }
  if (last >= int64_t(1) << 62)
    return std::nullopt;
  return last + 1;
}

namespace {

/// The fastest executions of programs from a number on.
struct Fastest {
  double cycles = 0;
  std::vector<RowsStep> steps;
};

/// Whole executions of the largest program come first; what is left is computed by it too, with padding, or by smaller
/// ones.
Fastest fastest(const std::vector<RowsProgram> &programs, size_t first, int64_t rows) {
  const RowsProgram &program = programs[first];
  int64_t whole = rows / program.rows, rest = rows % program.rows;
  Fastest padded{double(whole + (rest > 0)) * program.cycles, {{&program, whole + (rest > 0)}}};
  if (rest == 0 || first + 1 == programs.size())
    return padded;
  Fastest parts = fastest(programs, first + 1, rest);
  parts.cycles += double(whole) * program.cycles;
  if (whole > 0)
    parts.steps.insert(parts.steps.begin(), {&program, whole});
  return parts.cycles < padded.cycles ? parts : padded;
}

} // namespace

double WaferKernel::relayoutCycles() const {
  double cycles = 0;
  for (const Relayout &relayout : relayouts)
    cycles += relayout.cycles;
  return cycles;
}

const Relayout *WaferKernel::relayoutOf(const RowsProgram &program, int64_t argument) const {
  if (program.rows > 1)
    for (const Relayout &relayout : relayouts)
      if (relayout.argument == argument)
        return &relayout;
  return nullptr;
}

std::vector<RowsStep> WaferKernel::stepsFor(int64_t count) const {
  const RowsProgram &one = programs.back();
  if (count < 1)
    return {};
  Fastest best = fastest(programs, 0, count);
  if (best.steps.front().program->rows > 1 && best.cycles + relayoutCycles() >= double(count) * one.cycles)
    return {{&one, count}};
  return best.steps;
}

double WaferKernel::cyclesFor(int64_t count) const {
  std::vector<RowsStep> steps = stepsFor(count);
  double cycles = !steps.empty() && steps.front().program->rows > 1 ? relayoutCycles() : 0;
  for (const RowsStep &step : steps)
    cycles += double(step.times) * step.program->cycles;
  return cycles;
}

} // namespace intarsia::wafer
