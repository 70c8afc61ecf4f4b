//===- EmitRows.cpp - Kernels without a product: rows, reductions, elementwise ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// A tile handles at least this many elements: about 1 us of elementwise work, five times what a dispatch costs.
constexpr int64_t kElementsPerTile = 4096;
/// Tiles per thread, so that a thread that is held up does not hold up the others.
constexpr int64_t kTilesPerThread = 4;
} // namespace

void KernelEmitter::emitRow(const RowScope &row, ArrayRef<unsigned> indices) {
  auto savedBound = bound;
  const RowScope *savedRow = currentRow;
  currentRow = &row;
  SmallVector<Value> roots;
  for (unsigned i : indices)
    roots.push_back(yielded(i));
  prepareRow(row, roots);
  auto at = [&](Value i) {
    Indices result;
    for (Value prefix : row.prefix)
      result.push_back({prefix});
    result.push_back({i, true});
    return result;
  };
  // Outputs of one length are computed together: what they share is computed once.
  SmallVector<unsigned> rest(indices.begin(), indices.end());
  while (!rest.empty()) {
    AffineExpr length = sizes.of(yielded(rest.front())).back();
    SmallVector<unsigned> together, others;
    for (unsigned i : rest)
      (sizes.of(yielded(i)).back() == length ? together : others).push_back(i);
    vectorLoop(size(length), [&](Value i, int64_t width) {
      memo.emplace_back();
      for (unsigned output : together)
        store(evaluate(yielded(output), at(i), width), outputs[output], at(i), width);
      memo.pop_back();
    });
    rest = others;
  }
  currentRow = savedRow;
  bound = savedBound;
}

void KernelEmitter::emitRows() {
  // Outputs whose rows are the same rows form a part; parts have tiles of their own, one after another.
  struct Part {
    Sizes leading;
    SmallVector<unsigned> outputs;
  };
  SmallVector<Part> parts;
  unsigned outputCount = kernel.getResultTypes().size();
  for (unsigned i = 0; i < outputCount; ++i) {
    ArrayRef<AffineExpr> extents = sizes.of(yielded(i));
    ArrayRef<AffineExpr> leading = extents.empty() ? extents : extents.drop_back();
    auto same = llvm::find_if(parts, [&](const Part &part) {
      bool scalar = sizes.of(yielded(part.outputs.front())).empty();
      return !scalar && !extents.empty() && ArrayRef<AffineExpr>(part.leading) == leading;
    });
    if (same == parts.end()) {
      parts.push_back({Sizes(leading.begin(), leading.end()), {i}});
    } else {
      same->outputs.push_back(i);
    }
  }
  if (ITX_PLAN_PRIVATE + 2 * parts.size() > ITX_PLAN_LENGTH) {
    unsupported(kernel,
                "its results have more than " + Twine((ITX_PLAN_LENGTH - ITX_PLAN_PRIVATE) / 2) + " different shapes");
    return;
  }

  if (planning) {
    Value tiles = constant(0);
    for (auto [p, part] : llvm::enumerate(parts)) {
      Value rows = product(part.leading);
      ArrayRef<AffineExpr> extents = sizes.of(yielded(part.outputs.front()));
      Value elements = mul(rows, extents.empty() ? constant(1) : size(extents.back()));
      Value wanted = min(mul(threads, constant(kTilesPerThread)), div(elements, constant(kElementsPerTile)));
      wanted = max(min(wanted, rows), constant(1));
      Value rowsPerTile = max(ceilDiv(rows, wanted), constant(1));
      Value partTiles = ceilDiv(rows, rowsPerTile);
      setPlan(ITX_PLAN_PRIVATE + 2 * p, rowsPerTile);
      setPlan(ITX_PLAN_PRIVATE + 2 * p + 1, partTiles);
      tiles = add(tiles, partTiles);
    }
    setPlan(ITX_PLAN_TILES, tiles);
    return;
  }

  SmallVector<Value> rowsPerTile, partTiles;
  for (unsigned p = 0; p < parts.size(); ++p) {
    rowsPerTile.push_back(planValue(ITX_PLAN_PRIVATE + 2 * p));
    partTiles.push_back(planValue(ITX_PLAN_PRIVATE + 2 * p + 1));
  }
  forLoop(tileBegin, tileEnd, constant(1), [&](Value tile) {
    std::function<void(unsigned, Value)> emitPart = [&](unsigned p, Value t) {
      auto here = [&] {
        const Part &part = parts[p];
        if (sizes.of(yielded(part.outputs.front())).empty()) {
          store(evaluate(yielded(part.outputs.front()), {}, 1), outputs[part.outputs.front()], {}, 1);
          return;
        }
        Value begin = mul(t, rowsPerTile[p]);
        Value end = min(add(begin, rowsPerTile[p]), product(part.leading));
        forLoop(begin, end, constant(1), [&](Value flat) { emitRow(makeRow(flat, part.leading), part.outputs); });
      };
      if (p + 1 == parts.size()) {
        here();
        return;
      }
      ifThen(less(t, partTiles[p]), here, [&] { emitPart(p + 1, sub(t, partTiles[p])); });
    };
    emitPart(0, tile);
  });
}

} // namespace intarsia::cpu
