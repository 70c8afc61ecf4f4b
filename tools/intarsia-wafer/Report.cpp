//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Report.h"

#include "lib/Target/Wafer/Lifetimes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>
#include <set>

using namespace intarsia::wafer;

namespace intarsia {
namespace {

int64_t colorsOf(const Program &program) {
  std::set<int64_t> colors;
  for (const Route &route : program.routes)
    for (const Path &path : route.paths) {
      colors.insert(path.color);
      if (path.alternate)
        colors.insert(path.color + 1);
    }
  return int64_t(colors.size());
}

int64_t opsOf(const std::vector<Op> &ops) {
  int64_t count = 0;
  for (const Op &op : ops)
    count += 1 + opsOf(op.body);
  return count;
}

/// Returns the share of the tiles of inputs and outputs that pads them where the grid does not divide a matrix.
double paddingOf(const Program &program) {
  double stored = 0, real = 0;
  for (const std::vector<Binding> *bindings : {&program.inputs, &program.outputs})
    for (const Binding &binding : *bindings) {
      auto cores = [&](MeshAxis axis) {
        return double(axis == MeshAxis::None ? 1 : axis == MeshAxis::X ? program.columns : program.rows);
      };
      const CoreBuffer &tile = program.buffers[size_t(binding.slot)];
      stored += double(tile.elements()) * cores(binding.tiles.rows) * cores(binding.tiles.columns);
      real += double(binding.rows) * double(binding.columns);
    }
  return stored > 0 ? 1 - real / stored : 0;
}

/// Returns the columns or rows of the wafer that a grid leaves out between those that it has.
std::vector<int64_t> skipped(const std::vector<int64_t> &places) {
  std::vector<int64_t> result;
  for (size_t i = 1; i < places.size(); ++i)
    for (int64_t at = places[i - 1] + 1; at < places[i]; ++at)
      result.push_back(at);
  return result;
}

} // namespace

llvm::json::Object describe(const Program &program, const Timing &timing) {
  llvm::json::Array buffers;
  std::vector<Lifetime> lifetimes = lifetimesOf(program);
  for (auto [buffer, life] : llvm::zip_equal(program.buffers, lifetimes)) {
    llvm::json::Object one{
        {"name", buffer.name}, {"bytes", buffer.bytes()}, {"first_op", life.first}, {"last_op", life.last}};
    if (buffer.offset)
      one["offset"] = *buffer.offset;
    buffers.push_back(std::move(one));
  }
  double seconds = timing.cycles / (program.target.clockGHz * 1e9);
  return llvm::json::Object{{"program", program.name},
                            {"target", program.target.name},
                            {"columns", program.columns},
                            {"rows", program.rows},
                            {"first_column", program.firstColumn},
                            {"first_row", program.firstRow},
                            {"skipped_columns", llvm::json::Array(skipped(program.columnsAt))},
                            {"skipped_rows", llvm::json::Array(skipped(program.rowsAt))},
                            {"bytes_per_core", program.bytesPerCore()},
                            {"bytes_unshared", program.bytesUnshared()},
                            {"sram_bytes", program.target.sramBytes},
                            {"reserved_bytes", program.target.reservedBytes},
                            {"padding_share", paddingOf(program)},
                            {"buffers", std::move(buffers)},
                            {"colors", colorsOf(program)},
                            {"ops", opsOf(program.ops)},
                            {"cycles", timing.cycles},
                            {"compute_cycles", timing.computeCycles},
                            {"wait_cycles", timing.waitCycles},
                            {"link_cycles", timing.linkCycles},
                            {"microseconds", seconds * 1e6},
                            {"joules_at_most", seconds * program.target.watts}};
}

void print(llvm::raw_ostream &out, const Program &program, const Timing &timing) {
  auto share = [&](double cycles) { return timing.cycles > 0 ? 100 * cycles / timing.cycles : 0; };
  out << llvm::formatv("@{0}: {1} x {2} cores of {3}, {4} ops in role classes\n", program.name, program.columns,
                       program.rows, program.target.name, opsOf(program.ops));
  if (program.firstColumn > 0 || program.firstRow > 0 || !program.columnsAt.empty()) {
    out << llvm::formatv("  place    from core ({0}, {1}) on", program.firstColumn, program.firstRow);
    if (!program.columnsAt.empty()) {
      out << ", without columns [";
      llvm::interleaveComma(skipped(program.columnsAt), out);
      out << "] and rows [";
      llvm::interleaveComma(skipped(program.rowsAt), out);
      out << ']';
    }
    out << ", beside cores that do not work\n";
  }
  out << llvm::formatv("  memory   {0} of {1} bytes a core ({2} reserved)", program.bytesPerCore(),
                       program.target.sramBytes, program.target.reservedBytes);
  if (program.bytesUnshared() > program.bytesPerCore())
    out << llvm::formatv("; buffers that are not in use together share {0}",
                         program.bytesUnshared() - program.bytesPerCore());
  out << '\n';
  if (double padding = paddingOf(program); padding > 0)
    out << llvm::formatv("  padding  {0:F1} % of the tiles of inputs and outputs\n", 100 * padding);
  out << llvm::formatv("  colors   {0} of {1}\n", colorsOf(program), program.target.colors);
  out << llvm::formatv("  time     {0:F0} cycles, {1:F2} us at {2} GHz; core ({3}, {4}) ends last\n", timing.cycles,
                       timing.cycles / (program.target.clockGHz * 1e3), program.target.clockGHz,
                       timing.lastCore % program.columns, timing.lastCore / program.columns);
  out << llvm::formatv("           {0:F1} % arithmetic, at most {1:F1} % waiting, the busiest link is used {2:F1} %\n",
                       share(timing.computeCycles), share(timing.waitCycles), share(timing.linkCycles));
  if (program.target.watts > 0)
    out << llvm::formatv("  energy   at most {0:F4} J: the wafer's system draws {1:F0} W at most\n",
                         timing.cycles / (program.target.clockGHz * 1e9) * program.target.watts, program.target.watts);
}

void printMemory(llvm::raw_ostream &out, const Program &program) {
  std::vector<Lifetime> lifetimes = lifetimesOf(program);
  std::vector<int64_t> offsets(program.buffers.size());
  int64_t end = 0; // without places each has bytes of its own, one after another
  for (auto [buffer, offset] : llvm::zip_equal(program.buffers, offsets)) {
    offset = buffer.offset.value_or(end);
    end += buffer.placedBytes();
  }
  int64_t ops = 0;
  for (const Lifetime &life : lifetimes)
    ops = std::max(ops, life.last + 1);
  constexpr int64_t width = 48; // characters of the line of time
  out << llvm::formatv("@{0}: bytes of a core, and when they are in use, from the first to the last of {1} ops\n",
                       program.name, ops);
  out << llvm::formatv("  {0,6} {1,7}  {2}\n", 0, program.target.reservedBytes, "the runtime");
  std::vector<size_t> order(offsets.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  for (size_t buffer : order) {
    const Lifetime &life = lifetimes[buffer];
    std::string line(size_t(width), '.');
    for (int64_t op = std::max<int64_t>(life.first, 0); op <= life.last; ++op)
      line[size_t(op * width / ops)] = '#';
    out << llvm::formatv("  {0,6} {1,7}  {2}  {3}\n", program.target.reservedBytes + offsets[buffer],
                         program.buffers[buffer].placedBytes(), line, program.buffers[buffer].name);
  }
}

} // namespace intarsia
