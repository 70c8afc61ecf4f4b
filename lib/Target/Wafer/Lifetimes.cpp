//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/Lifetimes.h"

#include <algorithm>
#include <numeric>

namespace intarsia::wafer {
namespace {

class Walk {
public:
  explicit Walk(const Program &program) : buffersOf(size_t(program.slots)) {
    for (size_t i = 0; i < program.buffers.size(); ++i)
      buffersOf[i] = {int(i)};
    lifetimes.resize(program.buffers.size());
    for (const Op &op : program.ops)
      op.kind == OpKind::Repeat ? repeat(op) : use(op);
    --now;
    for (int buffer : transferred)
      extend(buffer, now);
    for (const Binding &input : program.inputs)
      lifetimes[size_t(input.slot)] = {-1, now};
    for (const Binding &output : program.outputs)
      extend(output.slot, now);
  }

  std::vector<Lifetime> lifetimes;

private:
  std::vector<std::vector<int>> buffersOf; ///< what a slot may be: arguments of loops are several buffers in turn
  std::vector<int> transferred;            ///< buffers that some core may be sending or receiving
  int64_t now = 0;

  void extend(int buffer, int64_t to) {
    Lifetime &life = lifetimes[size_t(buffer)];
    if (life.last < life.first) // not in use so far
      life.first = to;
    life.last = std::max(life.last, to);
  }

  void use(const Op &op) {
    bool transfers = op.kind == OpKind::Send || op.kind == OpKind::Receive || op.kind == OpKind::Forward;
    for (int slot : op.slots)
      for (int buffer : buffersOf[size_t(slot)]) {
        extend(buffer, now);
        if (transfers)
          transferred.push_back(buffer);
      }
    if (op.kind == OpKind::Await) {
      for (int buffer : transferred)
        extend(buffer, now);
      if (op.cores.x.all && op.cores.y.all)
        transferred.clear();
    }
    ++now;
  }

  void repeat(const Op &op) {
    for (size_t i = 0; i < op.arguments.size(); ++i)
      buffersOf[size_t(op.arguments[i])] = buffersOf[size_t(op.slots[i])];
    // Each iteration may give an argument the buffers that it yields. This adds them until none is new.
    for (bool grows = true; grows;) {
      grows = false;
      for (size_t i = 0; i < op.arguments.size(); ++i)
        for (int buffer : std::vector<int>(buffersOf[size_t(op.yields[i])])) {
          std::vector<int> &known = buffersOf[size_t(op.arguments[i])];
          if (std::find(known.begin(), known.end(), buffer) == known.end()) {
            known.push_back(buffer);
            grows = true;
          }
        }
    }
    std::vector<int> used;
    for (int slot : op.slots)
      used.insert(used.end(), buffersOf[size_t(slot)].begin(), buffersOf[size_t(slot)].end());
    for (const Op &inner : op.body)
      for (int slot : inner.slots)
        used.insert(used.end(), buffersOf[size_t(slot)].begin(), buffersOf[size_t(slot)].end());
    int64_t begin = now;
    for (int buffer : used)
      extend(buffer, begin);
    for (const Op &inner : op.body)
      use(inner);
    for (int buffer : used)
      extend(buffer, now - 1);
  }
};

} // namespace

std::vector<Lifetime> lifetimesOf(const Program &program) { return Walk(program).lifetimes; }

std::vector<int64_t> placesOf(const Program &program) {
  std::vector<Lifetime> lifetimes = lifetimesOf(program);
  std::vector<size_t> order(program.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  auto bytes = [&](size_t buffer) { return program.buffers[buffer].placedBytes(); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
  std::vector<int64_t> places(order.size());
  std::vector<size_t> placed; // by their first bytes
  for (size_t buffer : order) {
    int64_t at = 0;
    for (size_t other : placed)
      if (lifetimes[other].meets(lifetimes[buffer]) && places[other] < at + bytes(buffer))
        at = std::max(at, places[other] + bytes(other));
    places[buffer] = at;
    placed.insert(std::find_if(placed.begin(), placed.end(), [&](size_t other) { return places[other] > at; }), buffer);
  }
  return places;
}

} // namespace intarsia::wafer
