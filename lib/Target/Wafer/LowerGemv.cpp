//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Products of a vector and a matrix, and the sums of partial results along an axis. Algorithms: WaferLLM
// (arXiv 2502.04563, §6) for the tree of two levels; the pipeline and the ring are what it is compared with there.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/ProgramBuilder.h"

using namespace mlir;

namespace intarsia::wafer {
namespace {

using Paths = SmallVector<ProgramBuilder::PathSpec>;

/// A chain of cores along an axis, `stride` apart, that adds towards its last core: from `first` on, `hops` hops. There
/// are `count` of them, `period` apart; neighbours are 1 apart if there are several.
struct Chain {
  int64_t first, stride, hops, period, count;
};

/// Adds along chains, or takes the largest, on a route that has all of their paths.
void addAlong(ProgramBuilder &b, Axis axis, Value buffer, FlatSymbolRefAttr route, const Chain &chain,
              Combine combine = Combine::Sum) {
  if (chain.hops == 0)
    return;
  // Positions first + stride * hop of each group, as one range.
  auto at = [&](int64_t hop) {
    int64_t start = chain.first + chain.stride * hop;
    return b.cores(axis, b.range(start, start + (chain.count - 1) * chain.period + 1, chain.period));
  };
  b.send(buffer, route, at(0));
  if (int64_t inner = chain.hops - 1; inner > 0) { // the cores between its ends
    int64_t stride = std::abs(chain.stride);
    int64_t low = std::min(chain.first + chain.stride, chain.first + chain.stride * inner);
    RangeAttr between = chain.count == 1
                            ? b.range(low, low + stride * (inner - 1) + 1, stride)
                            : b.range(low, low + (chain.count - 1) * chain.period + inner, chain.period, inner);
    b.forwardCombined(buffer, route, route, b.cores(axis, between), combine);
  }
  b.receive(buffer, route, at(chain.hops), combine);
}

/// Copies the buffer of one position to all others along the axis.
void broadcastFrom(ProgramBuilder &b, Axis axis, Value buffer, int64_t root) {
  int64_t n = b.grid;
  FlatSymbolRefAttr route = b.route(("from_" + Twine(root)).str(), axis, [&] {
    Paths paths;
    if (root < n - 1)
      paths.push_back({b.range(root, root + 1), n - 1 - root, 0, false, true});
    if (root > 0)
      paths.push_back({b.range(root, root + 1), -root, 0, false, true});
    return paths;
  });
  b.send(buffer, route, b.cores(axis, b.range(root, root + 1)));
  if (root > 0)
    b.receive(buffer, route, b.cores(axis, b.range(0, root)));
  if (root < n - 1)
    b.receive(buffer, route, b.cores(axis, b.range(root + 1, n)));
  b.await();
}

/// A tree over `n` cores with a number of groups: where its groups and their centers are.
struct Tree {
  int64_t size, whole, rest, center;       // cores of a group, groups of so many, cores of one that is shorter
  int64_t restCenter, total, middle, root; // in the shorter group; all groups; that of the root; the root

  Tree(int64_t n, int64_t groups)
      : size(int64_t(llvm::divideCeil(n, groups))), whole(n / size), rest(n % size), center(size / 2),
        restCenter(std::min(center, rest - 1)), total(whole + (rest > 0)), middle(std::min(total / 2, whole - 1)),
        root(middle * size + center) {}
};

/// Two levels: the cores of each group add towards the group's center, the centers towards that of the middle group.
/// The last group is shorter if the groups do not divide the grid.
void reduceTree(ProgramBuilder &b, Axis axis, Value buffer, int64_t groups, Combine combine) {
  int64_t n = b.grid;
  auto [size, whole, rest, center, restCenter, total, middle, root] = Tree(n, groups);
  int64_t restStart = whole * size;
  std::string suffix = "_" + std::to_string(size);
  auto upDown = [&](StringRef name, bool up) {
    return b.route((name + suffix).str(), axis, [&] {
      Paths paths;
      int64_t by = up ? 1 : -1;
      if (int64_t hops = up ? center : size - 1 - center; hops > 0 && whole > 0) {
        int64_t low = up ? 0 : center + 1;
        paths.push_back({b.range(low, low + (whole - 1) * size + hops, size, hops), by, 0, true});
      }
      if (int64_t hops = up ? restCenter : rest - 1 - restCenter; rest > 0 && hops > 0) {
        int64_t low = restStart + (up ? 0 : restCenter + 1);
        paths.push_back({b.range(low, low + hops), by, 0, true}); // its routers are its own
      }
      return paths;
    });
  };
  for (bool up : {true, false}) {
    int64_t hops = up ? center : size - 1 - center, restHops = rest == 0 ? 0 : up ? restCenter : rest - 1 - restCenter;
    if (hops == 0 && restHops == 0)
      continue;
    FlatSymbolRefAttr route = upDown(up ? "up" : "down", up);
    if (whole > 0)
      addAlong(b, axis, buffer, route, {up ? 0 : size - 1, up ? 1 : -1, hops, size, whole}, combine);
    addAlong(b, axis, buffer, route, {up ? restStart : n - 1, up ? 1 : -1, restHops, size, 1}, combine);
    b.await(); // the center adds one side after the other
  }
  // Centers, from both ends to the middle one.
  if (middle > 0) {
    FlatSymbolRefAttr route = b.route("centers_up" + suffix, axis, [&] {
      return Paths{{b.range(center, center + (middle - 1) * size + 1, size), size, 0, true}};
    });
    addAlong(b, axis, buffer, route, {center, size, middle, size, 1}, combine);
    b.await();
  }
  if (total - 1 > middle) {
    int64_t aboveWhole = whole - 1 - middle; // whole groups above the middle one
    FlatSymbolRefAttr route = b.route("centers_down" + suffix, axis, [&] {
      Paths paths;
      if (aboveWhole > 0)
        paths.push_back({b.range(root + size, root + (aboveWhole - 1) * size + size + 1, size), -size, 0, true});
      if (rest > 0) {
        int64_t from = restStart + restCenter, to = (whole - 1) * size + center;
        paths.push_back({b.range(from, from + 1), to - from, aboveWhole % 2}); // as the next hop of the chain
      }
      return paths;
    });
    if (rest > 0) { // its center begins the chain
      int64_t from = restStart + restCenter;
      b.send(buffer, route, b.cores(axis, b.range(from, from + 1)));
      if (aboveWhole > 0)
        b.forwardCombined(buffer, route, route, b.cores(axis, b.range(root + size, root + aboveWhole * size + 1, size)),
                          combine);
      b.receive(buffer, route, b.cores(axis, b.range(root, root + 1)), combine);
    } else {
      addAlong(b, axis, buffer, route, {root + aboveWhole * size, -size, aboveWhole, size, 1}, combine);
    }
    b.await();
  }
  broadcastFrom(b, axis, buffer, root);
}

void reducePipeline(ProgramBuilder &b, Axis axis, Value buffer) {
  FlatSymbolRefAttr route = b.route("pipeline", axis, [&] { return Paths{{b.range(1, b.grid), -1, 0, true}}; });
  addAlong(b, axis, buffer, route, {b.grid - 1, -1, b.grid - 1, b.grid, 1});
  b.await();
  broadcastFrom(b, axis, buffer, 0);
}

/// The partial results travel around a ring, and each core adds those of all others to its own.
void reduceRing(ProgramBuilder &b, Axis axis, Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  Value now = b.buffer("travelling", type.getDimSize(0), type.getDimSize(1), type.getElementType());
  Value next = b.buffer("travelling", type.getDimSize(0), type.getDimSize(1), type.getElementType());
  FlatSymbolRefAttr route = ringRoute(b, axis, /*interleaved=*/true);
  b.compute(Arithmetic::Copy, {now, buffer});
  b.repeat(b.grid - 1, {now, next}, [&](ValueRange buffers) -> SmallVector<Value> {
    b.send(buffers[0], route);
    b.receive(buffers[1], route);
    b.await();
    b.compute(Arithmetic::Add, {buffer, buffers[1]});
    return {buffers[1], buffers[0]};
  });
}

} // namespace

int64_t groupsOfTree(int64_t n) {
  // Stages one after another cost most: the two sides of a group, and of the root, add at the same time. Then hops:
  // from the last center to the root, and from there to all.
  std::optional<std::pair<int64_t, int64_t>> fewest;
  int64_t best = 1;
  for (int64_t groups = 1; groups <= n; ++groups) {
    Tree tree(n, groups);
    int64_t lastCenter =
        tree.rest > 0 ? tree.whole * tree.size + tree.restCenter : (tree.whole - 1) * tree.size + tree.center;
    int64_t stages =
        std::max(tree.center, tree.size - 1 - tree.center) + std::max(tree.middle, tree.total - 1 - tree.middle);
    int64_t hops = std::max(tree.root - tree.center, lastCenter - tree.root) + std::max(tree.root, n - 1 - tree.root);
    std::pair<int64_t, int64_t> cost(stages, hops);
    if (!fewest || cost < *fewest)
      fewest = cost, best = groups;
  }
  return best;
}

void combineOverTree(ProgramBuilder &b, Axis axis, Value buffer, Combine combine, std::optional<int64_t> groups) {
  reduceTree(b, axis, buffer, groups ? *groups : groupsOfTree(b.grid), combine);
}

void addInGroups(ProgramBuilder &b, Axis axis, Value buffer, int64_t count, int64_t size) {
  int64_t center = size / 2, above = size - 1 - center, last = (count - 1) * size;
  std::string suffix = "_in_" + std::to_string(size);
  for (bool up : {true, false}) {
    int64_t hops = up ? center : above, low = up ? 0 : center + 1;
    if (hops == 0)
      continue;
    FlatSymbolRefAttr route = b.route((up ? "up" : "down") + suffix, axis, [&] {
      return Paths{{b.range(low, low + last + hops, size, hops), up ? 1 : -1, 0, true}};
    });
    addAlong(b, axis, buffer, route, {up ? 0 : size - 1, up ? 1 : -1, hops, size, count});
    b.await(); // the center adds one side after the other
  }
  if (size == 1)
    return;
  RangeAttr centers = b.range(center, center + last + 1, size);
  FlatSymbolRefAttr route = b.route("from_centers" + suffix, axis, [&] {
    Paths paths;
    if (above > 0)
      paths.push_back({centers, above, 0, false, true});
    if (center > 0)
      paths.push_back({centers, -center, 0, false, true});
    return paths;
  });
  b.send(buffer, route, b.cores(axis, centers));
  if (center > 0)
    b.receive(buffer, route, b.cores(axis, b.range(0, last + center, size, center)));
  if (above > 0)
    b.receive(buffer, route, b.cores(axis, b.range(center + 1, center + 1 + last + above, size, above)));
  b.await();
}

LogicalResult lowerGemv(ProgramBuilder &b, DistGemvOp op) {
  FailureOr<ProgramBuilder::Vector> x = b.vector(op.getX(), Axis::Y);
  if (failed(x))
    return failure();
  Axis axis = x->axis;
  FailureOr<Value> w = b.load(op.getW(), "w", b.tiles(axis, across(axis)));
  if (failed(w))
    return failure();
  Value y = b.buffer("y", 1, cast<MemRefType>(w->getType()).getDimSize(1), op.getY().getType().getElementType());
  b.compute(Arithmetic::Zero, {y});
  b.compute(Arithmetic::Gemv, {y, x->buffer, *w});
  switch (op.getReduction()) {
  case Reduction::Tree:
    combineOverTree(b, axis, y, Combine::Sum, op.getGroups());
    break;
  case Reduction::Pipeline:
    reducePipeline(b, axis, y);
    break;
  case Reduction::Ring:
    reduceRing(b, axis, y);
    break;
  }
  b.define(op.getY(), {y, across(axis)});
  return success();
}

} // namespace intarsia::wafer
