//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Tiles that travel around rings stay where they are in the memory of the host: a view says which core has which tile.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/Functional.h"

#include <algorithm>
#include <numeric>

namespace intarsia::wafer {
namespace {

/// The fewest columns of a grid whose tiles stay in place as they travel: shorter rows of cores are slow to sweep.
constexpr int64_t leastColumns = 64;

} // namespace

/// Returns, by position on its axis, from where a route brings a message; nothing if it does not bring one from each
/// position to each.
std::vector<int32_t> Simulator::sendersOf(int route) {
  const auto &legs = routes.at(route, 0).legs;
  std::vector<int32_t> senders(legs.size(), -1);
  for (size_t position = 0; position < legs.size(); ++position) {
    if (legs[position].size() != 1 || legs[position].front().multicast)
      return {};
    senders[size_t(int64_t(position) + legs[position].front().by)] = int32_t(position);
  }
  if (std::count(senders.begin(), senders.end(), -1) != 0)
    return {};
  return senders;
}

/// Finds the buffers of a loop that only travel, each to all cores from all cores, and are multiplied: these stay where
/// they are in the memory of the host, and a view says which core has which tile. Copying them would take most of the
/// time of a product.
void Simulator::findTravelling(const Op &op) {
  travels.clear();
  if (program.columns < leastColumns || op.launches)
    return;
  travels.assign(size_t(program.slots), false);
  for (int slot : op.arguments)
    travels[size_t(slot)] = true;
  for (const Op &inner : op.body)
    for (size_t i = 0; i < inner.slots.size(); ++i) {
      bool isProduct = inner.kind == OpKind::Compute && i > 0 &&
                       (inner.compute == ComputeKind::Gemm || inner.compute == ComputeKind::GemmTransposed);
      bool moves = (inner.kind == OpKind::Send || inner.kind == OpKind::Receive) && !inner.add && inner.cores.x.all &&
                   inner.cores.y.all && !program.routes[size_t(inner.route)].moves() && !sendersOf(inner.route).empty();
      travels[size_t(inner.slots[i])] &= char(isProduct || moves);
    }
  // A buffer that the body also names itself stays.
  for (const Op &inner : op.body)
    for (int slot : inner.slots)
      if (std::count(op.arguments.begin(), op.arguments.end(), slot) == 0 &&
          std::count(op.slots.begin(), op.slots.end(), slot) != 0)
        return travels.clear();
  // An argument travels only if the buffer travels that it has in the next iteration, and a sent buffer only if the one
  // that receives it does.
  for (bool changes = true; changes;) {
    changes = false;
    auto tie = [&](int a, int b) {
      changes |= travels[size_t(a)] != travels[size_t(b)];
      travels[size_t(a)] = travels[size_t(b)] = char(travels[size_t(a)] && travels[size_t(b)]);
    };
    for (size_t i = 0; i < op.arguments.size(); ++i)
      tie(op.arguments[i], op.yields[i]);
    for (const Op &from : op.body)
      for (const Op &to : op.body)
        if (from.kind == OpKind::Send && to.kind == OpKind::Receive && from.route == to.route) {
          tie(from.slots[0], to.slots[0]);
          if (description(bufferOf(from, 0)).isHalf != description(bufferOf(to, 0)).isHalf)
            travels[size_t(from.slots[0])] = travels[size_t(to.slots[0])] = false;
        }
  }
  if (!orderColumns(op))
    return travels.clear();
  views.resize(program.buffers.size());
  sent.resize(program.routes.size());
  for (int slot : op.arguments)
    if (travels[size_t(slot)]) {
      View &view = views[size_t(bound[size_t(slot)])];
      view = {bound[size_t(slot)], 0, std::vector<int32_t>(size_t(program.rows))};
      std::iota(view.rows.begin(), view.rows.end(), 0);
    }
}

/// Returns the buffers that a loop uses.
std::vector<int> Simulator::buffersOf(const Op &op) const {
  std::vector<int> buffers;
  auto add = [&](int slot) {
    if (int buffer = bound[size_t(slot)]; std::count(buffers.begin(), buffers.end(), buffer) == 0)
      buffers.push_back(buffer);
  };
  for (int slot : op.arguments)
    add(slot);
  for (const Op &inner : op.body)
    for (int slot : inner.slots)
      add(slot);
  return buffers;
}

/// Puts the cores of each row in the order of the ring along which tiles travel, so that each step is a shift by one
/// place. Returns false if that is not possible: several rings, or ops that are not the same on all columns.
bool Simulator::orderColumns(const Op &op) {
  columnOrder.clear();
  std::vector<int32_t> senders;
  for (const Op &inner : op.body) {
    if (inner.kind != OpKind::Receive || !isTravelling(inner, 0) ||
        program.routes[size_t(inner.route)].axis != MeshAxis::X)
      continue;
    std::vector<int32_t> own = sendersOf(inner.route);
    if (!senders.empty() && own != senders)
      return false;
    senders = std::move(own);
  }
  if (senders.empty())
    return true;
  for (const Op &inner : op.body) {
    bool isTransfer = inner.kind == OpKind::Send || inner.kind == OpKind::Receive || inner.kind == OpKind::Forward;
    if (isTransfer ? inner.kind == OpKind::Forward || !isTravelling(inner, 0)
                   : !inner.cores.x.all || inner.compute == ComputeKind::Mask || inner.compute == ComputeKind::Take ||
                         inner.compute == ComputeKind::Put)
      return false;
  }
  std::vector<int32_t> order(1, 0);
  for (int32_t next = senders[0]; next != 0; next = senders[size_t(next)])
    order.push_back(next);
  if (order.size() != senders.size())
    return false;
  columnOrder = std::move(order);
  std::vector<float> row(columnOrder.size());
  for (int buffer : buffersOf(op))
    for (int64_t i = 0; i < description(buffer).elements(); ++i)
      for (int64_t y = 0; y < program.rows; ++y) {
        float *of = plane(buffer, i) + y * program.columns;
        for (size_t place = 0; place < row.size(); ++place)
          row[place] = of[columnOrder[place]];
        std::copy(row.begin(), row.end(), of);
      }
  return true;
}

/// Sends or receives a view; returns false if the buffer of the op does not travel.
bool Simulator::travel(const Op &op) {
  if ((op.kind != OpKind::Send && op.kind != OpKind::Receive) || !isTravelling(op, 0))
    return false;
  View &view = views[size_t(bufferOf(op, 0))];
  if (op.kind == OpKind::Send) {
    sent[size_t(op.route)] = view;
    return true;
  }
  view = sent[size_t(op.route)];
  if (program.routes[size_t(op.route)].axis == MeshAxis::X) {
    view.shift = (view.shift + 1) % program.columns;
    return true;
  }
  std::vector<int32_t> senders = sendersOf(op.route), before = view.rows;
  for (size_t y = 0; y < view.rows.size(); ++y)
    view.rows[y] = before[size_t(senders[y])];
  return true;
}

/// Copies the buffers that have travelled to the cores where they are, and puts these into their order again.
void Simulator::settle(const Op &op) {
  if (travels.empty())
    return;
  std::vector<std::pair<int, std::vector<float>>> moved;
  for (int buffer : buffersOf(op)) {
    bool isView = std::any_of(op.arguments.begin(), op.arguments.end(),
                              [&](int slot) { return travels[size_t(slot)] && bound[size_t(slot)] == buffer; });
    if (!isView && columnOrder.empty())
      continue;
    std::vector<float> &to = moved.emplace_back(buffer, std::vector<float>()).second;
    to.resize(size_t(description(buffer).elements() * cores));
    const View *view = isView ? &views[size_t(buffer)] : nullptr;
    for (int64_t i = 0; i < description(buffer).elements(); ++i)
      for (int64_t y = 0; y < program.rows; ++y) {
        const float *from =
            plane(view ? view->memory : buffer, i) + (view ? view->rows[size_t(y)] : y) * program.columns;
        float *row = to.data() + i * cores + y * program.columns;
        for (int64_t place = 0; place < program.columns; ++place)
          row[columnOrder.empty() ? place : columnOrder[size_t(place)]] =
              from[(place + (view ? view->shift : 0)) % program.columns];
      }
  }
  for (const auto &[buffer, from] : moved)
    for (int64_t i = 0; i < description(buffer).elements(); ++i)
      std::copy_n(from.begin() + i * cores, cores, plane(buffer, i));
  travels.clear();
}

} // namespace intarsia::wafer
