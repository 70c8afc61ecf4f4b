//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/MemoryWatch.h"

#include <algorithm>

namespace intarsia::wafer {

MemoryWatch::MemoryWatch(const Program &program) : program(program), cores(size_t(program.cores())) {
  constexpr int64_t word = 4;
  int64_t end = 0; // buffers without places lie one after another
  for (const CoreBuffer &buffer : program.buffers) {
    int64_t bits = buffer.rows * buffer.columns * (buffer.codeBits > 0 ? buffer.codeBits : buffer.isHalf ? 16 : 32);
    sizes.push_back((bits + 8 * word - 1) / (8 * word) * word);
    places.push_back(buffer.offset.value_or(end));
    end += sizes.back();
  }
  for (Core &core : cores) {
    core.current.resize(program.buffers.size());
    for (size_t buffer = 0; buffer < core.current.size(); ++buffer)
      core.current[buffer] = {0, -1, int(buffer)};
    for (const Binding &input : program.inputs)
      core.current[size_t(input.slot)].last = 0;
  }
}

void MemoryWatch::write(Core &core, int buffer) {
  Interval &current = core.current[size_t(buffer)];
  if (current.last >= current.first)
    core.ended.push_back(current);
  current.first = current.last = now;
}

void MemoryWatch::record(const Op &op, const std::vector<int> &bound, int64_t iteration) {
  ++now;
  CoresOfOp of = coresOf(program, op, iteration, false);
  std::vector<int> buffers;
  for (int slot : op.slots)
    buffers.push_back(bound[size_t(slot)]);
  for (int64_t y : of.rows)
    for (int64_t x : of.columns) {
      Core &core = cores[size_t(y * program.columns + x)];
      switch (op.kind) {
      case OpKind::Send:
        read(core, buffers[0]);
        core.transferred.push_back(buffers[0]);
        break;
      case OpKind::Receive:
      case OpKind::Forward: // with `add` a sum that goes on does not change the buffer
        if (op.add)
          read(core, buffers[0]);
        else
          write(core, buffers[0]);
        core.transferred.push_back(buffers[0]);
        break;
      case OpKind::Await:
        for (int buffer : core.transferred)
          read(core, buffer);
        core.transferred.clear();
        break;
      case OpKind::Compute:
        for (size_t i = 1; i < buffers.size(); ++i)
          read(core, buffers[i]);
        if (accumulates(op.compute))
          read(core, buffers[0]);
        else
          write(core, buffers[0]);
        break;
      case OpKind::Repeat:
        break;
      }
    }
}

/// Takes the use of a core into account.
void MemoryWatch::useOf(int64_t number, MemoryUse &use) const {
  const Core &core = cores[size_t(number)];
  std::vector<Interval> all = core.ended;
  for (Interval current : core.current) {
    bool isOutput = std::any_of(program.outputs.begin(), program.outputs.end(),
                                [&](const Binding &output) { return output.slot == current.buffer; });
    if (isOutput && current.last >= current.first)
      current.last = now;
    if (current.last >= current.first)
      all.push_back(current);
  }
  std::sort(all.begin(), all.end(), [](const Interval &a, const Interval &b) { return a.first < b.first; });
  std::vector<Interval> inUse;
  for (const Interval &next : all) {
    inUse.erase(std::remove_if(inUse.begin(), inUse.end(), [&](const Interval &old) { return old.last < next.first; }),
                inUse.end());
    auto place = [&](const Interval &one) { return places[size_t(one.buffer)]; };
    auto end = [&](const Interval &one) { return place(one) + sizes[size_t(one.buffer)]; };
    int64_t bytes = program.target.reservedBytes + sizes[size_t(next.buffer)];
    for (const Interval &other : inUse) {
      bytes += other.buffer == next.buffer ? 0 : sizes[size_t(other.buffer)];
      if (use.overlap.empty() && other.buffer != next.buffer && place(other) < end(next) && place(next) < end(other))
        use.overlap = "buffers \"" + program.buffers[size_t(other.buffer)].name + "\" and \"" +
                      program.buffers[size_t(next.buffer)].name + "\" share bytes of core (" +
                      std::to_string(number % program.columns) + ", " + std::to_string(number / program.columns) +
                      ") and are in use at the same time";
    }
    if (bytes > use.bytes)
      use.bytes = bytes, use.core = number;
    use.end = std::max(use.end, program.target.reservedBytes + end(next));
    inUse.push_back(next);
  }
}

MemoryUse MemoryWatch::result() {
  MemoryUse use;
  use.bytes = use.end = program.target.reservedBytes;
  for (int64_t core = 0; core < program.cores(); ++core)
    useOf(core, use);
  return use;
}

std::string runWatched(const Program &program, const std::vector<Matrix> &inputs, std::vector<Matrix> &outputs,
                       int64_t tokens, MemoryUse &use) {
  MemoryWatch watch(program);
  std::string problem =
      run(program, inputs, outputs, tokens, [&watch](const Op &op, const std::vector<int> &bound, int64_t iteration) {
        watch.record(op, bound, iteration);
      });
  if (!problem.empty())
    return problem;
  use = watch.result();
  if (!use.overlap.empty())
    return use.overlap;
  if (int64_t counted = program.bytesPerCore(); use.end > counted)
    return "uses memory to byte " + std::to_string(use.end) + " of a core, but " + std::to_string(counted) +
           " bytes were counted";
  return "";
}

} // namespace intarsia::wafer
