//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Report.h"

#include "llvm/Support/FormatVariadic.h"
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

} // namespace

llvm::json::Object describe(const Program &program, const Timing &timing) {
  llvm::json::Array buffers;
  for (const CoreBuffer &buffer : program.buffers)
    buffers.push_back(llvm::json::Object{{"name", buffer.name}, {"bytes", buffer.bytes()}});
  return llvm::json::Object{{"program", program.name},
                            {"target", program.target.name},
                            {"columns", program.columns},
                            {"rows", program.rows},
                            {"first_column", program.firstColumn},
                            {"first_row", program.firstRow},
                            {"bytes_per_core", program.bytesPerCore()},
                            {"sram_bytes", program.target.sramBytes},
                            {"reserved_bytes", program.target.reservedBytes},
                            {"buffers", std::move(buffers)},
                            {"colors", colorsOf(program)},
                            {"ops", opsOf(program.ops)},
                            {"cycles", timing.cycles},
                            {"compute_cycles", timing.computeCycles},
                            {"wait_cycles", timing.waitCycles},
                            {"link_cycles", timing.linkCycles},
                            {"microseconds", timing.cycles / (program.target.clockGHz * 1e3)}};
}

void print(llvm::raw_ostream &out, const Program &program, const Timing &timing) {
  auto share = [&](double cycles) { return timing.cycles > 0 ? 100 * cycles / timing.cycles : 0; };
  out << llvm::formatv("@{0}: {1} x {2} cores of {3}, {4} ops in role classes\n", program.name, program.columns,
                       program.rows, program.target.name, opsOf(program.ops));
  if (program.firstColumn > 0 || program.firstRow > 0)
    out << llvm::formatv("  place    from core ({0}, {1}) on, beside cores that do not work\n", program.firstColumn,
                         program.firstRow);
  out << llvm::formatv("  memory   {0} of {1} bytes a core ({2} reserved)\n", program.bytesPerCore(),
                       program.target.sramBytes, program.target.reservedBytes);
  out << llvm::formatv("  colors   {0} of {1}\n", colorsOf(program), program.target.colors);
  out << llvm::formatv("  time     {0:F0} cycles, {1:F2} us at {2} GHz; core ({3}, {4}) ends last\n", timing.cycles,
                       timing.cycles / (program.target.clockGHz * 1e3), program.target.clockGHz,
                       timing.lastCore % program.columns, timing.lastCore / program.columns);
  out << llvm::formatv("           {0:F1} % arithmetic, at most {1:F1} % waiting, the busiest link is used {2:F1} %\n",
                       share(timing.computeCycles), share(timing.waitCycles), share(timing.linkCycles));
}

} // namespace intarsia
