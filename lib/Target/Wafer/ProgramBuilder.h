//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_PROGRAMBUILDER_H
#define INTARSIA_LIB_TARGET_WAFER_PROGRAMBUILDER_H

#include "dialects/Wafer/Wafer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace intarsia::wafer {

inline Axis across(Axis axis) { return axis == Axis::X ? Axis::Y : Axis::X; }

/// What becomes of a message and the buffer that it comes to.
enum class Combine { None, Sum, Maximum };

/// Writes the ops of a program on a square grid. Routes are shared by all that ask for the same; each has colors of its
/// own.
class ProgramBuilder {
public:
  ProgramBuilder(mlir::func::FuncOp function, ProgramOp program)
      : builder(program.getContext()), loc(function.getLoc()), function(function), program(program),
        grid(program.getColumns()) {
    builder.setInsertionPointToEnd(&program.getBody().front());
  }

  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::func::FuncOp function;
  ProgramOp program;
  int64_t grid;

  /// Returns the size of a tile: `grid` of them hold `size`.
  int64_t tileOf(int64_t size) const { return llvm::divideCeil(size, grid); }
  mlir::Value buffer(llvm::StringRef name, int64_t rows, int64_t columns, mlir::Type element);

  /// Loads an argument of the function, or returns failure, with an error, if a value is something else.
  mlir::FailureOr<mlir::Value> load(mlir::Value value, llvm::StringRef name, TilesAttr tiles);
  /// `extent`: cores of each axis that have tiles; 0: all.
  TilesAttr tiles(Axis rows, Axis columns, bool ring = false, Skew skew = Skew::None, int64_t extent = 0) {
    return TilesAttr::get(builder.getContext(), rows, columns, ring, skew, extent);
  }

  /// Vectors: the axis along which they are split. One that is not there yet is loaded along `wanted`.
  struct Vector {
    mlir::Value buffer;
    Axis axis;
    bool hasZeros = true; ///< the elements of tiles beyond the vector are 0
  };
  mlir::FailureOr<Vector> vector(mlir::Value value, Axis wanted);
  void define(mlir::Value value, Vector vector) { vectors[value] = vector; }
  /// Says where a matrix lies that an op gives.
  void define(mlir::Value value, mlir::Value buffer, TilesAttr tiles) { matrices[value] = {buffer, tiles}; }
  /// A matrix, or a vector as one row: which axis its rows are split along.
  struct Elements {
    mlir::Value buffer;
    TilesAttr tiles;
    bool hasZeros = true; ///< the elements of tiles beyond the matrix are 0
  };
  /// Returns where the elements of a value lie. An argument that does not lie anywhere yet is loaded as `wanted`.
  mlir::FailureOr<Elements> elements(mlir::Value value, TilesAttr wanted);
  void define(mlir::Value value, const Elements &elements);
  mlir::LogicalResult store(mlir::Value value, int64_t result);

  RangeAttr range(int64_t start, int64_t end, int64_t period = 1, int64_t width = 1, int64_t startMoves = 0,
                  int64_t endMoves = 0) {
    return RangeAttr::get(builder.getContext(), start, end, period, width, startMoves, endMoves, false);
  }
  /// The cores whose position along an axis is in a range; a null range stands for all.
  CoresAttr cores(Axis axis, RangeAttr range) {
    return range ? CoresAttr::get(builder.getContext(), axis == Axis::X ? range : RangeAttr(),
                                  axis == Axis::Y ? range : RangeAttr())
                 : CoresAttr();
  }
  struct PathSpec {
    RangeAttr start;
    int64_t by;
    int64_t color; ///< relative to the colors of the route
    bool alternate = false, multicast = false;
  };
  /// Returns the route of a name along an axis; the first call makes it, of the paths that `make` returns.
  mlir::FlatSymbolRefAttr route(llvm::StringRef name, Axis axis,
                                llvm::function_ref<llvm::SmallVector<PathSpec>()> make);

  void send(mlir::Value buffer, mlir::FlatSymbolRefAttr route, CoresAttr cores = {}) {
    SendOp::create(builder, loc, buffer, route, cores);
  }
  void receive(mlir::Value buffer, mlir::FlatSymbolRefAttr route, CoresAttr cores = {},
               Combine combine = Combine::None) {
    ReceiveOp::create(builder, loc, buffer, route, flag(combine != Combine::None), flag(combine == Combine::Maximum),
                      cores);
  }
  void forwardCombined(mlir::Value buffer, mlir::FlatSymbolRefAttr source, mlir::FlatSymbolRefAttr destination,
                       CoresAttr cores, Combine combine) {
    ForwardOp::create(builder, loc, buffer, source, destination, flag(true), flag(combine == Combine::Maximum), cores);
  }
  void await(CoresAttr cores = {}) { AwaitOp::create(builder, loc, cores); }
  void compute(Arithmetic arithmetic, mlir::ValueRange buffers, CoresAttr cores = {}) {
    ComputeOp::create(builder, loc, arithmetic, buffers, cores, mlir::FloatAttr(), mlir::FloatAttr(), RelayoutAttr());
  }
  /// The arithmetic of `collect`.
  void collect(mlir::Value kept, mlir::Value passing, RelayoutAttr relayout) {
    ComputeOp::create(builder, loc, Arithmetic::Collect, mlir::ValueRange{kept, passing}, CoresAttr(),
                      mlir::FloatAttr(), mlir::FloatAttr(), relayout);
  }
  /// The arithmetic of `mask` and `rotate`.
  void compute(Arithmetic arithmetic, mlir::ValueRange buffers, double factor) {
    ComputeOp::create(builder, loc, arithmetic, buffers, CoresAttr(), builder.getF32FloatAttr(float(factor)),
                      mlir::FloatAttr(), RelayoutAttr());
  }
  /// The arithmetic of `affine` and `rsqrt`.
  void compute(Arithmetic arithmetic, mlir::ValueRange buffers, double factor, double addend) {
    ComputeOp::create(builder, loc, arithmetic, buffers, CoresAttr(), builder.getF32FloatAttr(float(factor)),
                      builder.getF32FloatAttr(float(addend)), RelayoutAttr());
  }
  /// Repeats what `body` writes; it gets the buffers of an iteration and returns those of the next.
  void repeat(int64_t count, mlir::ValueRange buffers,
              llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> body, bool launches = false);

private:
  mlir::UnitAttr flag(bool isSet) { return isSet ? builder.getUnitAttr() : mlir::UnitAttr(); }

  llvm::DenseMap<mlir::Value, Vector> vectors;
  llvm::DenseMap<mlir::Value, Elements> matrices;
  llvm::StringMap<mlir::FlatSymbolRefAttr> routes;
  llvm::StringMap<int> names;
  int64_t nextColor = 0;
};

mlir::LogicalResult lowerGemm(ProgramBuilder &builder, DistGemmOp op);
mlir::LogicalResult lowerGemv(ProgramBuilder &builder, DistGemvOp op);
mlir::LogicalResult lowerMap(ProgramBuilder &builder, DistMapOp op);
mlir::LogicalResult lowerNorm(ProgramBuilder &builder, DistNormOp op);
mlir::LogicalResult lowerAttention(ProgramBuilder &builder, DistAttentionOp op);
mlir::LogicalResult lowerAppend(ProgramBuilder &builder, DistAppendOp op);
mlir::LogicalResult lowerRelayout(ProgramBuilder &builder, DistRelayoutOp op);

/// Adds a buffer along an axis over a tree of two levels, or takes the largest; afterwards all cores have the result.
/// Without `groups` there are as many as take the fewest stages one after another.
void combineOverTree(ProgramBuilder &builder, Axis axis, mlir::Value buffer, Combine combine = Combine::Sum,
                     std::optional<int64_t> groups = std::nullopt);
/// Returns the groups of such a tree over `n` cores.
int64_t groupsOfTree(int64_t n);
/// Adds a buffer in each of the first `count` groups of `size` cores that are side by side along an axis; all cores of
/// a group have its sum afterwards.
void addInGroups(ProgramBuilder &builder, Axis axis, mlir::Value buffer, int64_t count, int64_t size);

/// The route to the place before on a ring of all cores along an axis: the interleaved ring, or that in their order.
mlir::FlatSymbolRefAttr ringRoute(ProgramBuilder &builder, Axis axis, bool interleaved);

} // namespace intarsia::wafer

#endif
