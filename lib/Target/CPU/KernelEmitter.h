//===- KernelEmitter.h - From an rt.kernel to loops over vectors ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_KERNELEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_KERNELEMITTER_H

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Analysis/SizeMaterializer.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "intarsia/Quantize/BlockPanels.h"
#include "lib/Target/CPU/TileConfig.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/SmallBitVector.h"
#include <functional>
#include <map>

namespace intarsia::cpu {

/// One index of a tensor element while code for `width` neighbouring elements is emitted: lane l has the index
/// base + l where `lane` is set, base otherwise. base is an i64.
struct Index {
  mlir::Value base;
  bool lane = false;
};
using Indices = llvm::SmallVector<Index>;

/// Where a tensor lies in memory.
struct Storage {
  mlir::Value pointer;
  llvm::SmallVector<mlir::Value> strides; ///< elements, i64
  Sizes sizes;
  mlir::Type elementType; ///< as stored; i1 takes a byte
  bool dense = true;      ///< row-major without gaps
};

/// Emits the message that the CPU target cannot compile an op of a kernel, and why; returns failure.
mlir::LogicalResult refuse(rt::KernelOp kernel, mlir::Operation *op, const llvm::Twine &reason);

/// Emits the two functions of a kernel (include/intarsia/module_abi.h): the plan and the run function. One class for
/// each kind of root (<Root>Kernel.cpp) chooses the loops; KernelRoots.h finds the class of a kernel.
///
/// Elements are computed on demand: evaluate(value, indices, width) emits what one vector of a tensor needs, looking
/// through elementwise ops, reshapes, slices, gathers and reductions. All floating-point values are computed in f32
/// (f64 stays f64), whatever is stored.
class KernelEmitter {
public:
  KernelEmitter(rt::KernelOp kernel, const TileConfig &config);
  virtual ~KernelEmitter() = default;

  /// Returns the nn.quantize to 8 bits that a product's input comes from, in this kernel; null if there is none.
  static nn::QuantizeOp quantizedInput(mlir::Value input);

  /// Appends the functions `planName` and `runName` to the module. Fails with a message at the op that the CPU target
  /// cannot compile.
  mlir::LogicalResult emit(mlir::ModuleOp module, llvm::StringRef planName, llvm::StringRef runName);

protected:
  /// Emits the body of the run function, which computes the tiles [tileBegin, tileEnd). Fails with a message.
  virtual mlir::LogicalResult run() = 0;
  /// Emits the body of the plan function, which cuts a launch into tiles. Called once, after run().
  virtual mlir::LogicalResult plan() = 0;

  using ElementFn = std::function<mlir::Value(llvm::ArrayRef<Index>, int64_t width)>;
  using Body = std::function<void(mlir::Value iv)>;

  /// A row of the iteration space: all dimensions but the last.
  struct RowScope {
    llvm::SmallVector<mlir::Value> prefix; ///< index of each leading dimension
    mlir::Value flat;                      ///< their row-major number
    Sizes sizes;                           ///< sizes of the leading dimensions
  };

  /// Makes the plan say so if a size does not fit in 64 bits.
  void refuseOverflow();

  //===-- Elements (Evaluate.cpp) ------------------------------------------------------------------------------===//
  mlir::Value evaluate(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateOp(mlir::Operation *op, mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluatePerLane(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  /// The element if the positions that are computed from data lie inside the tensor, else NaN or the least integer.
  mlir::Value evaluateInside(mlir::Value tensor, llvm::ArrayRef<Index> at, const llvm::SmallBitVector &isComputed,
                             int64_t width);
  mlir::Value evaluateLinalg(mlir::linalg::LinalgOp op, mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateRope(nn::RopeOp op, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateConcat(mlir::tensor::ConcatOp op, llvm::ArrayRef<Index> at, int64_t width);
  /// Emits one scalar op (of a linalg body, or an elementwise op on tensors) on vectors of `width`.
  mlir::Value emitElementwise(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, int64_t width);
  /// Emits the body of a linalg op for block arguments that have their values; returns the yielded values.
  llvm::SmallVector<mlir::Value> emitBody(mlir::linalg::LinalgOp op, llvm::ArrayRef<mlir::Value> arguments,
                                          llvm::ArrayRef<Index> iteration, int64_t width);

  //===-- Rows (EmitRowStatistics.cpp) -------------------------------------------------------------------------===//
  /// Sum or maximum of element(i, width) for i in [0, size): several vector accumulators, then a scalar tail.
  mlir::Value reduce(mlir::Value size, bool maximum, mlir::Type type,
                     llvm::function_ref<mlir::Value(mlir::Value i, int64_t width)> element);
  /// Emits, at the start of a row, what its elements share: statistics of norms and softmax, reductions.
  void prepareRow(const RowScope &row, llvm::ArrayRef<mlir::Value> roots);
  void prepareNorm(mlir::Operation *op, const RowScope &row);

  //===-- Memory (KernelEmitter.cpp) ---------------------------------------------------------------------------===//
  mlir::Value load(const Storage &storage, llvm::ArrayRef<Index> at, int64_t width);
  void store(mlir::Value value, const Storage &storage, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value address(const Storage &storage, llvm::ArrayRef<Index> at);
  mlir::Value loadAt(mlir::Value pointer, mlir::Value offset, mlir::Type elementType, int64_t width);
  void storeAt(mlir::Value value, mlir::Value pointer, mlir::Value offset, mlir::Type elementType, int64_t width);
  /// Stored → computed and back, rounding to nearest even, by instructions or (NarrowFloat.cpp) by integer arithmetic.
  mlir::Value widen(mlir::Value value, mlir::Type compute, int64_t width);
  mlir::Value narrow(mlir::Value value, mlir::Type stored, int64_t width);
  /// Bit patterns of E4M3, whose elements have the type f8E4M3FN here and take a byte.
  mlir::Value widenE4M3(mlir::Value bytes, int64_t width);
  mlir::Value narrowE4M3(mlir::Value value, int64_t width);
  mlir::Value offsetPointer(mlir::Value pointer, mlir::Value elements, mlir::Type elementType);
  /// A tensor as strides over memory, if it is an argument seen through slices and reshapes.
  std::optional<Storage> view(mlir::Value tensor);
  /// Scratch of this thread: `bytes` (rounded up to a cache line) of the workspace, whose size the plan then states.
  mlir::Value scratch(mlir::AffineExpr bytes);
  mlir::Value scratch(int64_t bytes);

  //===-- Small pieces -----------------------------------------------------------------------------------------===//
  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value rem(mlir::Value a, mlir::Value b);
  mlir::Value ceilDiv(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value floatConstant(double value, mlir::Type type, int64_t width);
  mlir::Value splat(mlir::Value scalar, int64_t width);
  mlir::Type vectorOf(mlir::Type element, int64_t width);
  static mlir::Type computeType(mlir::Type element);
  static mlir::Type storedType(mlir::Type element);
  void forLoop(mlir::Value begin, mlir::Value end, mlir::Value step, const Body &body);
  llvm::SmallVector<mlir::Value>
  forLoop(mlir::Value begin, mlir::Value end, mlir::Value step, mlir::ValueRange inits,
          llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise = nullptr);
  /// Calls body(i, width) for [0, size) in steps of whole vectors, then element by element.
  void vectorLoop(mlir::Value size, llvm::function_ref<void(mlir::Value i, int64_t width)> body);
  /// Row-major number → one index for each size.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value flat, llvm::ArrayRef<mlir::AffineExpr> sizes);
  /// The value of a size expression, computed once at the start of the function.
  mlir::Value size(mlir::AffineExpr expression);
  mlir::Value knownSize(mlir::AffineExpr expression);
  mlir::Value product(llvm::ArrayRef<mlir::AffineExpr> sizes);
  mlir::AffineExpr productExpression(llvm::ArrayRef<mlir::AffineExpr> sizes);
  mlir::Value indexValue(mlir::OpFoldResult value);
  /// Says, once for each kernel, that an op cannot be compiled; returns failure.
  mlir::LogicalResult unsupported(mlir::Operation *op, const llvm::Twine &reason);
  /// Fails with a message unless all results of the kernel are results of the root, as it is.
  mlir::LogicalResult storesOnly(mlir::Operation *root);

  //===-- Products (EmitProduct.cpp) ---------------------------------------------------------------------------===//
  /// One register tile: sum over k of a(r, k) * b(k, c), where a(r, k) is at a + r * aRow + k * aColumn and b(k, c) at
  /// b + k * bRow + c. The sums are stored to `out` (f32, rows of kPanelWidth). Strides in elements.
  struct TileOperands {
    mlir::Value a, aRow, aColumn;
    mlir::Type aType;
    mlir::Value b, bRow;
    mlir::Type bType;
    mlir::Value depth;
    mlir::Value out, outRow;
    int64_t codeBits = 0;    ///< b is codes of so many bits (nn.cache_append_quantized), bRow in bytes; 0: elements
    bool accumulate = false; ///< start from what `out` holds
    bool ordered = false;    ///< add up in the order of k, whatever the number of rows
    mlir::Value prefetch;    ///< brought into the second-level cache meanwhile, `prefetchStep` bytes for each k
    mlir::Value prefetchStep;
  };
  void emitTile(const TileOperands &operands, int64_t rows, int64_t columns); // columns: a multiple of lanes
  bool usesBf16Dot(const TileOperands &operands);
  /// emitTile for a number of rows known at run time, 1 … config.rows, and all columns of a panel.
  void emitTileRows(const TileOperands &operands, mlir::Value rows, int64_t columns);
  /// Writes b(k, c) for k < depth, c < panelWidth as a dense f32 panel, zero where c >= columns; the element is at
  /// source + k * stride + c.
  void packRows(mlir::Value panel, mlir::Value source, mlir::Value stride, mlir::Type type, mlir::Value depth,
                mlir::Value columns, int64_t panelWidth);
  /// A panel whose element (k, c) is at source + c * stride + k (stride in elements).
  void packTransposed(mlir::Value panel, mlir::Value source, mlir::Value stride, mlir::Type type, mlir::Value depth,
                      mlir::Value columns, mlir::Value scale);
  llvm::SmallVector<mlir::Value> transpose(llvm::ArrayRef<mlir::Value> rows);

  //===-- Codes (EmitCodes.cpp) ---------------------------------------------------------------------------------===//
  /// The panels that hold a value's codes, if it is a weight that is stored so.
  std::optional<BlockPanels> panelsOf(mlir::Value weight);
  mlir::Value addByteProducts(mlir::Value sums, mlir::Value codes, mlir::Value activations, bool codesAre8Bits);
  mlir::Value unpackCodes(const BlockPanels &panels, mlir::Value raw, bool high);
  void forCodeWords(const BlockPanels &panels, mlir::Value pointer,
                    llvm::function_ref<void(int64_t word, mlir::Value codes)> use);
  mlir::Value loadScales(const BlockPanels &panels, mlir::Value pointer, mlir::Value first, int64_t lanes);
  std::pair<mlir::Value, mlir::Value> scalesOfBlock(const BlockPanels &panels, mlir::Value unit, mlir::Value block,
                                                    mlir::Value first, int64_t lanes);
  mlir::Value firstBlockOfStep(const BlockPanels &panels, mlir::Value stepOfUnit);
  mlir::Value evaluateCode(const BlockPanels &panels, mlir::Value weight, mlir::Value row, mlir::Value k);
  /// Writes the numbers of a panel as a dense f32 panel.
  void decodePanel(const BlockPanels &panels, mlir::Value panel, mlir::Value target);

  //===-- Products of codes (EmitCodeRecords.cpp, EmitCodeProduct.cpp) -----------------------------------------===//
  struct RecordScale {
    mlir::Value inverse, scale;
  };
  mlir::Value magnitudes(mlir::Value value);
  RecordScale scaleOfRecord(const BlockPanels &panels, mlir::Value largest);
  void writeRecord(const BlockPanels &panels, llvm::ArrayRef<mlir::Value> values, RecordScale scale,
                   mlir::Value record);
  void quantizeRow(nn::QuantizeOp activations, const BlockPanels &panels, const RowScope &row, mlir::Value records);
  /// Steps of 32 k's that share a scale of activations.
  static int64_t stepsOfScale(nn::QuantizeOp activations);
  mlir::Value addScaled(mlir::Value total, mlir::Value products, mlir::Value weightScale, mlir::Value minimum,
                        mlir::Value codeSum, mlir::Value scale);
  void emitDecodeRows(const BlockPanels &panels, int64_t group, mlir::Value count, mlir::Value panel,
                      mlir::Value records, mlir::Value sums);
  void emitDecodeTile(const BlockPanels &panels, int64_t group, int64_t rows, mlir::Value panel, mlir::Value records,
                      mlir::Value sums);
  void unpackPanel(const BlockPanels &panels, mlir::Value panel, mlir::Value begin, mlir::Value end, mlir::Value codes,
                   mlir::Value scales);
  void emitCodeTile(const BlockPanels &panels, int64_t group, mlir::Value codes, mlir::Value scales,
                    mlir::Value records, mlir::Value steps, mlir::Value sums, mlir::Value isFirst, mlir::Value ahead,
                    mlir::Value bytesAhead);

  /// The integer at an index of a tensor, as i64.
  mlir::Value integerAt(mlir::Value tensor, llvm::ArrayRef<Index> at);
  /// Loads `lanes` codes of a cache's row from `column` on, as f32. `row` is the offset of the row in bytes.
  mlir::Value loadCodes(mlir::Value pointer, mlir::Value row, int64_t column, int64_t bits);

  //===-- Function skeletons -----------------------------------------------------------------------------------===//
  void beginPlan(mlir::ModuleOp module, llvm::StringRef name);
  void setPlan(int64_t slot, mlir::Value value);
  void beginRun(mlir::ModuleOp module, llvm::StringRef name);
  mlir::Value planValue(int64_t slot);

  /// Outputs, stored element by element along the last dimension. Rows of an output whose elements are computed in
  /// place: used by rows kernels and the last step of a linear.
  void emitRow(const RowScope &row, llvm::ArrayRef<unsigned> outputs);
  RowScope makeRow(mlir::Value flat, llvm::ArrayRef<mlir::AffineExpr> leading);
  /// What an output holds: reshapes before the yield do not move data, so the value behind them is what is computed.
  mlir::Value yielded(unsigned output);
  static mlir::Value stripReshapes(mlir::Value value);

  rt::KernelOp kernel;
  const TileConfig &config;
  SymbolicSizes sizes;
  mlir::OpBuilder b;
  mlir::Location loc;
  /// Set by unsupported(). Elements are emitted inside the callbacks of loops, which return values: what is refused
  /// there is found here when the function is complete.
  bool refused = false;

  // State of the function that is being emitted.
  mlir::func::FuncOp function;
  mlir::Operation *prologueEnd = nullptr;
  mlir::Value sizesPointer, planPointer, threads, sharedPointer, tileBegin, tileEnd, workspace;
  mlir::AffineExpr workspaceBytes;
  std::map<int64_t, mlir::Value> constants;
  std::optional<SizeMaterializer> sizeValues;
  llvm::DenseMap<mlir::Value, Storage> storage; ///< arguments
  llvm::SmallVector<Storage> outputs;
  llvm::DenseMap<mlir::Value, ElementFn> bound; ///< values that a driver has computed
  const RowScope *currentRow = nullptr;

  /// Elements already emitted in this block or one that encloses it.
  using MemoKey = std::pair<void *, std::vector<std::pair<void *, int64_t>>>;
  llvm::SmallVector<std::map<MemoKey, mlir::Value>> memo;
};

} // namespace intarsia::cpu

#endif
