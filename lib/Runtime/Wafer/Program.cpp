//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/Program.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace intarsia::wafer {

int64_t ringPlace(int64_t position, int64_t extent) {
  return position % 2 == 0 ? position / 2 : extent - 1 - position / 2;
}

int64_t ringPosition(int64_t place, int64_t extent) {
  int64_t evens = (extent + 1) / 2;
  return place < evens ? 2 * place : 2 * (extent - 1 - place) + 1;
}

bool accumulates(ComputeKind kind) {
  switch (kind) {
  case ComputeKind::Add:
  case ComputeKind::Multiply:
  case ComputeKind::Scale:
  case ComputeKind::Shift:
  case ComputeKind::Mask:
  case ComputeKind::Put:
  case ComputeKind::Collect:
    return true;
  case ComputeKind::Decode:
    return false;
  default:
    return kind >= ComputeKind::Gemm;
  }
}

bool spreadsOverRows(ComputeKind kind) {
  return kind == ComputeKind::Scale || kind == ComputeKind::Shift || kind == ComputeKind::Mask;
}

bool sumsRows(ComputeKind kind) {
  return kind == ComputeKind::Sum || kind == ComputeKind::SumSquares || kind == ComputeKind::Largest;
}

TokensOfRow tokensOfRow(int64_t tokens, int64_t row, int64_t rows) {
  int64_t each = tokens / rows, longer = tokens % rows, before = std::max<int64_t>(row - (rows - longer), 0);
  return {row * each + before, each + (row >= rows - longer ? 1 : 0)};
}

bool Range::contains(int64_t position, int64_t iteration, int64_t extent) const {
  if (all)
    return true;
  int64_t at = ring ? ringPlace(position, extent) : position;
  int64_t from = start + startMoves * iteration, to = end + endMoves * iteration;
  return at >= from && at < to && (at - from) % period < width;
}

bool Route::moves() const {
  return std::any_of(paths.begin(), paths.end(), [](const Path &path) { return path.start.moves(); });
}

int64_t Program::bytesPerCore() const {
  if (buffers.empty() || !buffers.front().offset)
    return bytesUnshared();
  int64_t end = 0;
  for (const CoreBuffer &buffer : buffers)
    end = std::max(end, buffer.offset.value_or(0) + buffer.placedBytes());
  return target.reservedBytes + end;
}

int64_t Program::bytesUnshared() const {
  int64_t bytes = target.reservedBytes;
  for (const CoreBuffer &buffer : buffers)
    bytes += buffer.placedBytes();
  return bytes;
}

CoresOfOp coresOf(const Program &program, const Op &op, int64_t iteration, bool descends) {
  CoresOfOp cores;
  for (int64_t x = 0; x < program.columns; ++x)
    if (op.cores.x.contains(x, iteration, program.columns))
      cores.columns.push_back(x);
  for (int64_t y = 0; y < program.rows; ++y)
    if (op.cores.y.contains(y, iteration, program.rows))
      cores.rows.push_back(y);
  if (descends) {
    std::reverse(cores.columns.begin(), cores.columns.end());
    std::reverse(cores.rows.begin(), cores.rows.end());
  }
  return cores;
}

ResolvedRoute resolve(const Program &program, const Route &route, int64_t iteration, std::string &error) {
  int64_t extent = route.axis == MeshAxis::X ? program.columns : program.rows;
  ResolvedRoute resolved;
  resolved.legs.resize(size_t(extent));
  bool any = false;
  for (const Path &path : route.paths) {
    for (int64_t position = 0; position < extent; ++position) {
      if (!path.start.contains(position, iteration, extent))
        continue;
      int64_t by = path.by;
      if (path.multicast)
        by = by > 0 ? std::min(by, extent - 1 - position) : std::max(by, -position);
      if (by == 0)
        continue; // a multicast from the edge of the grid
      if (position + by < 0 || position + by >= extent) {
        error = "route @" + route.name + " leads from position " + std::to_string(position) + " to " +
                std::to_string(position + by) + ", outside of the grid's " + std::to_string(extent) + " positions";
        return resolved;
      }
      auto &legs = resolved.legs[size_t(position)];
      if (!legs.empty() && !(path.multicast && legs.front().multicast && (legs.front().by > 0) != (by > 0))) {
        error = "route @" + route.name + " has two paths from position " + std::to_string(position);
        return resolved;
      }
      // Parity is that of the place in a chain with this stride: neighbours in the chain differ.
      int64_t hop = (path.start.ring ? position : position - path.start.start) / std::abs(path.by);
      legs.push_back({by, path.color + (path.alternate ? hop % 2 : 0), path.multicast});
      resolved.ascends = any ? resolved.ascends && by > 0 : by > 0;
      resolved.descends = any ? resolved.descends && by < 0 : by < 0;
      any = true;
    }
  }
  return resolved;
}

namespace {

/// Columns side by side, from `begin` to before `end`.
struct ColumnGroup {
  int64_t begin = 0, end = 0;
};

/// Returns the groups of columns between which no message passes, in their order.
std::vector<ColumnGroup> separateColumns(const Program &program) {
  std::vector<bool> isLinked(size_t(program.columns)); // with the column after it
  for (const Route &route : program.routes) {
    if (route.axis != MeshAxis::X)
      continue;
    std::string error;
    ResolvedRoute resolved = resolve(program, route, 0, error);
    for (size_t x = 0; x < resolved.legs.size(); ++x)
      for (const ResolvedRoute::Leg &leg : resolved.legs[x])
        for (int64_t hop = std::min<int64_t>(leg.by, 0); hop < std::max<int64_t>(leg.by, 0); ++hop)
          isLinked[size_t(int64_t(x) + hop)] = true;
    if (route.moves() || !error.empty() || !program.columnsAt.empty()) // hops differ where columns are left out
      std::fill(isLinked.begin(), isLinked.end(), true);
  }
  std::vector<ColumnGroup> groups;
  for (int64_t x = 0; x < program.columns; ++x)
    if (x > 0 && isLinked[size_t(x - 1)])
      ++groups.back().end;
    else
      groups.push_back({x, x + 1});
  return groups;
}

} // namespace

std::vector<char> distinctColumns(const Program &program) {
  std::vector<char> distinct(size_t(program.columns), true);
  std::vector<std::vector<int64_t>> does(size_t(program.columns)); // by column: which ops, and where its paths lead
  bool moves = false;
  auto visit = [&](auto &self, const std::vector<Op> &ops) -> void {
    for (const Op &op : ops) {
      moves |= op.cores.x.moves();
      for (int64_t x = 0; x < program.columns && !moves; ++x)
        does[size_t(x)].push_back(op.cores.x.contains(x, 0, program.columns));
      self(self, op.body);
    }
  };
  visit(visit, program.ops);
  std::vector<ColumnGroup> groups = separateColumns(program);
  if (moves || groups.size() == 1)
    return distinct;
  for (const Route &route : program.routes) {
    std::string error;
    if (route.axis != MeshAxis::X)
      continue;
    ResolvedRoute resolved = resolve(program, route, 0, error);
    for (int64_t x = 0; x < program.columns; ++x) {
      does[size_t(x)].push_back(int64_t(resolved.legs[size_t(x)].size()));
      for (const ResolvedRoute::Leg &leg : resolved.legs[size_t(x)])
        does[size_t(x)].insert(does[size_t(x)].end(), {leg.by, leg.multicast});
    }
  }
  for (auto group = groups.begin(); group != groups.end(); ++group)
    for (auto before = groups.begin(); before != group; ++before)
      if (distinct[size_t(before->begin)] && before->end - before->begin == group->end - group->begin &&
          std::equal(does.begin() + group->begin, does.begin() + group->end, does.begin() + before->begin)) {
        std::fill(distinct.begin() + group->begin, distinct.begin() + group->end, false);
        break;
      }
  return distinct;
}

ResolvedRoutes::ResolvedRoutes(const Program &program) : program(program), known(program.routes.size()) {
  for (const Route &route : program.routes)
    moving.push_back(route.moves());
}

const ResolvedRoute &ResolvedRoutes::at(int route, int64_t iteration) {
  std::vector<ResolvedRoute> &iterations = known[size_t(route)];
  size_t wanted = moving[size_t(route)] ? size_t(iteration) : 0;
  while (iterations.size() <= wanted) {
    std::string problem;
    iterations.push_back(resolve(program, program.routes[size_t(route)], int64_t(iterations.size()), problem));
    if (error.empty())
      error = problem;
  }
  return iterations[wanted];
}

namespace {
/// A router takes messages of one color from one side (-1 and 1 along the axis, 0 its own core), and passes them on to
/// others.
struct Setting {
  int64_t input = 0;
  const Route *route = nullptr;
};
} // namespace

std::string checkColors(const Program &program) {
  std::map<int64_t, const Route *> axisOf;
  std::map<std::pair<int64_t, int64_t>, Setting> settings; // of color and position
  for (const Route &route : program.routes) {
    std::string error;
    ResolvedRoute resolved = resolve(program, route, 0, error);
    if (!error.empty())
      return error;
    for (size_t start = 0; start < resolved.legs.size(); ++start) {
      for (const ResolvedRoute::Leg &leg : resolved.legs[start]) {
        if (leg.color < 0 || leg.color >= program.target.colors)
          return "route @" + route.name + " has color " + std::to_string(leg.color) + ", but " + program.target.name +
                 " has colors 0 to " + std::to_string(program.target.colors - 1);
        const Route *&first = axisOf.try_emplace(leg.color, &route).first->second;
        if (first->axis != route.axis)
          return "routes @" + first->name + " and @" + route.name + " cross with color " + std::to_string(leg.color);
        if (first != &route && (first->moves() || route.moves()))
          return "routes @" + first->name + " and @" + route.name + " share color " + std::to_string(leg.color) +
                 ", but one of them moves";
        int64_t side = leg.by > 0 ? 1 : -1;
        for (int64_t hop = 0; hop <= std::abs(leg.by); ++hop) {
          int64_t position = int64_t(start) + side * hop;
          int64_t input = hop == 0 ? 0 : -side;
          auto [found, isNew] = settings.try_emplace({leg.color, position}, Setting{input, &route});
          if (!isNew && found->second.input != input)
            return "routes @" + found->second.route->name + " and @" + route.name + " meet with color " +
                   std::to_string(leg.color) + " at the router at position " + std::to_string(position);
        }
      }
    }
  }
  return "";
}

} // namespace intarsia::wafer
