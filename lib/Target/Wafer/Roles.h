//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Cores that do the same, and what their routers do, for sources that are written for each class of cores.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_ROLES_H
#define INTARSIA_LIB_TARGET_WAFER_ROLES_H

#include "lib/Runtime/Wafer/Program.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <optional>
#include <set>

namespace intarsia::wafer {

/// In which iterations of the loop around an op a position is in its range.
enum class Membership { Never, Sometimes, Always };
Membership membershipOf(const Range &range, int64_t position, int64_t extent, int64_t iterations);

/// The end of a route at a position: the colors of messages that leave and arrive there.
struct RouteEnds {
  std::optional<int64_t> sends, receives;
};

/// Which columns and which rows of a program's cores do the same: the cores of a class of columns and one of rows have
/// one source. Cores that a range holds in some iterations of a loop are in one class, which asks at run time.
class Roles {
public:
  /// Fails if a route moves, or a position has ends of several colors on one route.
  static llvm::Expected<Roles> of(const Program &program);

  /// Classes by position along an axis, numbered by their first position.
  const std::vector<int> &classes(MeshAxis axis) const { return axis == MeshAxis::X ? columns : rows; }
  /// Returns the first position of each class.
  std::vector<int64_t> firsts(MeshAxis axis) const;
  const RouteEnds &ends(int route, int64_t position) const { return routeEnds[size_t(route)][size_t(position)]; }

private:
  std::vector<int> columns, rows;
  std::vector<std::vector<RouteEnds>> routeEnds; // by route and position
};

/// Says where the routers at a position take a color from and where they send it, as steps along the axis of
/// the color's routes; 0 is the core itself.
struct RouterSetting {
  int64_t from = 0;
  std::set<int64_t> to;
  bool operator==(const RouterSetting &) const = default;
};

struct ColorSettings {
  MeshAxis axis = MeshAxis::X;
  std::map<int64_t, RouterSetting> at; ///< by position; others do not see the color
};

/// Returns the settings of all colors. Fails if a message would reach cores that its path only passes.
llvm::Expected<std::map<int64_t, ColorSettings>> routerSettings(const Program &program);

/// Says where the tiles of an input or output lie, for those who copy them.
llvm::json::Object tilesOfOperand(const Binding &binding, const CoreBuffer &buffer);

} // namespace intarsia::wafer

#endif
