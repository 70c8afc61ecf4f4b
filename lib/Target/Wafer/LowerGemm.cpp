//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Products of matrices. Algorithms: WaferLLM (arXiv 2502.04563, §5) for the interleaved ring of MeshGEMM; Cannon
// (1969); van de Geijn and Watts (1997) for SUMMA.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/ProgramBuilder.h"

using namespace mlir;

namespace intarsia::wafer {

FlatSymbolRefAttr ringRoute(ProgramBuilder &builder, Axis axis, bool interleaved) {
  int64_t n = builder.grid;
  using Paths = SmallVector<ProgramBuilder::PathSpec>;
  if (!interleaved)
    return builder.route("ring", axis, [&] {
      return Paths{{builder.range(1, n), -1, 0, /*alternate=*/true}, {builder.range(0, 1), n - 1, 2}};
    });
  // Even positions go down by two, odd ones up by two; at both ends the ring turns over one link.
  return builder.route("interleaved", axis, [&] {
    Paths paths;
    if (n > 2)
      paths.push_back({builder.range(2, n, 2), -2, 0, /*alternate=*/true});
    if (n > 3)
      paths.push_back({builder.range(1, n - 2, 2), 2, 2, /*alternate=*/true});
    paths.push_back({builder.range(0, 1), 1, 4});
    paths.push_back(n % 2 == 0 ? ProgramBuilder::PathSpec{builder.range(n - 1, n), -1, 5}
                               : ProgramBuilder::PathSpec{builder.range(n - 2, n - 1), 1, 5});
    return paths;
  });
}

namespace {

/// C stays; in each step tiles of A travel along x and those of B along y, while the core multiplies.
LogicalResult lowerTravelling(ProgramBuilder &b, DistGemmOp op) {
  bool isMesh = op.getAlgorithm() == GemmAlgorithm::Mesh;
  FailureOr<Value> a = b.load(op.getA(), "a", b.tiles(Axis::Y, Axis::X, isMesh, Skew::Columns));
  FailureOr<Value> w = b.load(op.getB(), "b", b.tiles(Axis::Y, Axis::X, isMesh, Skew::Rows));
  if (failed(a) || failed(w))
    return failure();
  auto typeA = cast<MemRefType>(a->getType()), typeB = cast<MemRefType>(w->getType());
  Value nextA = b.buffer("a_next", typeA.getDimSize(0), typeA.getDimSize(1), typeA.getElementType());
  Value nextB = b.buffer("b_next", typeB.getDimSize(0), typeB.getDimSize(1), typeB.getElementType());
  Value c = b.buffer("c", typeA.getDimSize(0), typeB.getDimSize(1), op.getC().getType().getElementType());
  FlatSymbolRefAttr alongX = ringRoute(b, Axis::X, isMesh), alongY = ringRoute(b, Axis::Y, isMesh);
  b.compute(Arithmetic::Zero, {c});
  Value last[2] = {*a, *w};
  b.repeat(b.grid - 1, {*a, nextA, *w, nextB}, [&](ValueRange now) -> SmallVector<Value> {
    b.send(now[0], alongX);
    b.send(now[2], alongY);
    b.receive(now[1], alongX);
    b.receive(now[3], alongY);
    b.compute(Arithmetic::Gemm, {c, now[0], now[2]});
    b.await();
    return {now[1], now[0], now[3], now[2]};
  });
  if ((b.grid - 1) % 2 == 1)
    last[0] = nextA, last[1] = nextB;
  b.compute(Arithmetic::Gemm, {c, last[0], last[1]});
  b.define(op.getC(), c, b.tiles(Axis::Y, Axis::X, isMesh));
  return success();
}

/// C = A B^T: A stays; tiles of B travel along y, those of C along x. Core (row i, column k) has B[i + k + s, k] in
/// step s, and C[i, i + k + s] visits it just then. No transposition is needed, and A is not aligned.
LogicalResult lowerTransposed(ProgramBuilder &b, DistGemmOp op) {
  bool isMesh = op.getAlgorithm() == GemmAlgorithm::Mesh;
  FailureOr<Value> a = b.load(op.getA(), "a", b.tiles(Axis::Y, Axis::X, isMesh));
  FailureOr<Value> w = b.load(op.getB(), "b", b.tiles(Axis::Y, Axis::X, isMesh, Skew::Rows));
  if (failed(a) || failed(w))
    return failure();
  auto typeA = cast<MemRefType>(a->getType()), typeB = cast<MemRefType>(w->getType());
  Type element = op.getC().getType().getElementType();
  Value nextB = b.buffer("b_next", typeB.getDimSize(0), typeB.getDimSize(1), typeB.getElementType());
  Value c = b.buffer("c", typeA.getDimSize(0), typeB.getDimSize(0), element);
  Value nextC = b.buffer("c_next", typeA.getDimSize(0), typeB.getDimSize(0), element);
  FlatSymbolRefAttr alongX = ringRoute(b, Axis::X, isMesh), alongY = ringRoute(b, Axis::Y, isMesh);
  b.compute(Arithmetic::Zero, {c});
  b.repeat(b.grid, {*w, nextB, c, nextC}, [&](ValueRange now) -> SmallVector<Value> {
    b.send(now[0], alongY);
    b.receive(now[1], alongY);
    b.compute(Arithmetic::GemmTransposed, {now[2], *a, now[0]});
    b.send(now[2], alongX);
    b.receive(now[3], alongX);
    b.await();
    return {now[1], now[0], now[3], now[2]};
  });
  // After all steps C[i, i + k] is at core (i, k).
  b.define(op.getC(), b.grid % 2 == 0 ? c : nextC, b.tiles(Axis::Y, Axis::X, isMesh, Skew::Columns));
  return success();
}

/// In step s column s of A is copied along the rows and row s of B along the columns. The paths begin at other cores in
/// each step, and the cores have memory for their own tiles and for the copies.
LogicalResult lowerSumma(ProgramBuilder &b, DistGemmOp op) {
  FailureOr<Value> a = b.load(op.getA(), "a", b.tiles(Axis::Y, Axis::X));
  FailureOr<Value> w = b.load(op.getB(), "b", b.tiles(Axis::Y, Axis::X));
  if (failed(a) || failed(w))
    return failure();
  auto typeA = cast<MemRefType>(a->getType()), typeB = cast<MemRefType>(w->getType());
  Value copyA = b.buffer("a_copy", typeA.getDimSize(0), typeA.getDimSize(1), typeA.getElementType());
  Value copyB = b.buffer("b_copy", typeB.getDimSize(0), typeB.getDimSize(1), typeB.getElementType());
  Value c = b.buffer("c", typeA.getDimSize(0), typeB.getDimSize(1), op.getC().getType().getElementType());
  int64_t n = b.grid;
  RangeAttr root = b.range(0, 1, 1, 1, 1, 1), before = b.range(0, 0, 1, 1, 0, 1), after = b.range(1, n, 1, 1, 1, 0);
  auto broadcast = [&](Axis axis) {
    return b.route("broadcast", axis, [&] {
      return SmallVector<ProgramBuilder::PathSpec>{{root, n - 1, 0, false, true}, {root, 1 - n, 0, false, true}};
    });
  };
  FlatSymbolRefAttr alongX = broadcast(Axis::X), alongY = broadcast(Axis::Y);
  b.compute(Arithmetic::Zero, {c});
  b.repeat(n, {}, [&](ValueRange) -> SmallVector<Value> {
    std::tuple<Axis, Value, Value, FlatSymbolRefAttr> operands[] = {{Axis::X, *a, copyA, alongX},
                                                                    {Axis::Y, *w, copyB, alongY}};
    for (auto [axis, own, copy, route] : operands) {
      b.send(own, route, b.cores(axis, root));
      b.compute(Arithmetic::Copy, {copy, own}, b.cores(axis, root));
      b.receive(copy, route, b.cores(axis, before));
      b.receive(copy, route, b.cores(axis, after));
    }
    b.await();
    b.compute(Arithmetic::Gemm, {c, copyA, copyB});
    return {};
  });
  b.define(op.getC(), c, b.tiles(Axis::Y, Axis::X));
  return success();
}

} // namespace

LogicalResult lowerGemm(ProgramBuilder &builder, DistGemmOp op) {
  if (op.getAlgorithm() == GemmAlgorithm::Summa)
    return lowerSumma(builder, op);
  return op.getTransposed() ? lowerTransposed(builder, op) : lowerTravelling(builder, op);
}

} // namespace intarsia::wafer
