//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/Roles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace intarsia::wafer {
namespace {

void appendMembership(const std::vector<Op> &ops, MeshAxis axis, int64_t position, int64_t extent, int64_t iterations,
                      std::string &key) {
  for (const Op &op : ops) {
    const Range &range = axis == MeshAxis::X ? op.cores.x : op.cores.y;
    key += char('0' + int(membershipOf(range, position, extent, iterations)));
    appendMembership(op.body, axis, position, extent, op.count, key);
  }
}

Error collectEnds(const Program &program, const Route &route, std::vector<RouteEnds> &ends) {
  if (route.moves())
    return createStringError("route @" + route.name +
                             " moves with a loop, but routes are set before a program begins; mesh and cannon have "
                             "routes that stay");
  std::string problem;
  ResolvedRoute resolved = resolve(program, route, 0, problem);
  if (!problem.empty())
    return createStringError(problem);
  ends.resize(resolved.legs.size());
  auto set = [&](std::optional<int64_t> &end, int64_t color, size_t position) -> Error {
    if (end.value_or(color) != color)
      return createStringError("route @" + route.name + " has colors " + Twine(*end) + " and " + Twine(color) +
                               " at position " + Twine(position) + ", where a core can tell only one");
    end = color;
    return Error::success();
  };
  for (auto [start, legs] : enumerate(resolved.legs))
    for (const ResolvedRoute::Leg &leg : legs) {
      if (Error error = set(ends[start].sends, leg.color, start))
        return error;
      int64_t side = leg.by > 0 ? 1 : -1, hops = std::abs(leg.by);
      for (int64_t hop = leg.multicast ? 1 : hops; hop <= hops; ++hop)
        if (Error error = set(ends[size_t(int64_t(start) + side * hop)].receives, leg.color, start))
          return error;
    }
  return Error::success();
}

} // namespace

Membership membershipOf(const Range &range, int64_t position, int64_t extent, int64_t iterations) {
  if (!range.moves())
    return range.contains(position, 0, extent) ? Membership::Always : Membership::Never;
  for (int64_t iteration = 0; iteration < iterations; ++iteration)
    if (range.contains(position, iteration, extent))
      return Membership::Sometimes;
  return Membership::Never;
}

Expected<Roles> Roles::of(const Program &program) {
  Roles roles;
  for (const Route &route : program.routes)
    if (Error error = collectEnds(program, route, roles.routeEnds.emplace_back()))
      return error;
  for (MeshAxis axis : {MeshAxis::X, MeshAxis::Y}) {
    StringMap<int> known;
    int64_t extent = axis == MeshAxis::X ? program.columns : program.rows;
    for (int64_t position = 0; position < extent; ++position) {
      std::string key;
      appendMembership(program.ops, axis, position, extent, /*iterations=*/1, key);
      for (auto [index, route] : enumerate(program.routes))
        if (route.axis == axis) {
          const RouteEnds &ends = roles.ends(int(index), position);
          key += formatv(" {0} {1}", ends.sends.value_or(-1), ends.receives.value_or(-1));
        }
      int number = known.try_emplace(key, int(known.size())).first->second;
      (axis == MeshAxis::X ? roles.columns : roles.rows).push_back(number);
    }
  }
  return roles;
}

std::vector<int64_t> Roles::firsts(MeshAxis axis) const {
  std::vector<int64_t> result;
  for (auto [position, number] : enumerate(classes(axis)))
    if (size_t(number) == result.size())
      result.push_back(int64_t(position));
  return result;
}

Expected<std::map<int64_t, ColorSettings>> routerSettings(const Program &program) {
  std::map<int64_t, ColorSettings> colors;
  for (const Route &route : program.routes) {
    std::string problem;
    ResolvedRoute resolved = resolve(program, route, 0, problem);
    if (!problem.empty())
      return createStringError(problem);
    for (auto [start, legs] : enumerate(resolved.legs)) {
      // Several legs are one message in several directions.
      std::map<int64_t, std::map<int64_t, RouterSetting>> wanted; // by color and position
      for (const ResolvedRoute::Leg &leg : legs) {
        int64_t side = leg.by > 0 ? 1 : -1, hops = std::abs(leg.by);
        for (int64_t hop = 0; hop <= hops; ++hop) {
          RouterSetting &setting = wanted[leg.color][int64_t(start) + side * hop];
          setting.from = hop == 0 ? 0 : -side;
          if (hop < hops)
            setting.to.insert(side);
          if (hop == hops || (leg.multicast && hop > 0))
            setting.to.insert(0);
        }
      }
      for (const auto &[color, positions] : wanted)
        for (const auto &[position, setting] : positions) {
          ColorSettings &known = colors[color];
          known.axis = route.axis;
          auto [found, isNew] = known.at.try_emplace(position, setting);
          if (!isNew && found->second != setting)
            return createStringError("route @" + route.name + " passes the router at position " + Twine(position) +
                                     " with color " + Twine(color) +
                                     " in another direction than another path does, so that messages of both would "
                                     "go both ways; give one of them another color");
        }
    }
  }
  return colors;
}

llvm::json::Object tilesOfOperand(const Binding &binding, const CoreBuffer &buffer) {
  constexpr llvm::StringRef axes[] = {"none", "x", "y"}, skews[] = {"none", "rows", "columns"};
  return llvm::json::Object{{"argument", binding.argument},
                            {"matrix", llvm::json::Array{binding.rows, binding.columns}},
                            {"tile", llvm::json::Array{buffer.rows, buffer.columns}},
                            {"rows_along", axes[size_t(binding.tiles.rows)]},
                            {"columns_along", axes[size_t(binding.tiles.columns)]},
                            {"ring", binding.tiles.ring},
                            {"skew", skews[size_t(binding.tiles.skew)]}};
}

} // namespace intarsia::wafer
