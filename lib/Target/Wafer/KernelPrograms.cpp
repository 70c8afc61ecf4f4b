//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A linear becomes a product of a vector and a matrix for one row, of two matrices for several. Features that the
// kernel stores apart, or combines with each other (the two halves of a gated layer), become products of their own, so
// that what is combined lies on the same cores.
//
// Inputs are rounded to f16 where the linear's precision is f16; sums, and all that follows, are f32.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/KernelPrograms.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/BlockPanels.h"
#include "dialects/Wafer/Wafer.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace intarsia::wafer {
namespace {

/// Features `offset` to before `offset + count` of a linear's result.
struct Part {
  nn::LinearOp linear;
  int64_t offset, count;
};

class Builder {
public:
  Builder(rt::KernelOp kernel, StringRef name, const FunctionSizes &sizes, ModuleOp module)
      : kernel(kernel), sizes(sizes), count(sizes.rows), grid(sizes.grid), builder(kernel.getContext()) {
    builder.setInsertionPointToEnd(module.getBody());
    made.function = func::FuncOp::create(builder, kernel.getLoc(), name, builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(made.function.addEntryBlock());
    made.count = count;
  }

  FailureOr<KernelFunction> build();

private:
  rt::KernelOp kernel;
  FunctionSizes sizes;
  int64_t count; ///< rows that the function computes
  int64_t grid;
  OpBuilder builder;
  KernelFunction made;
  SmallVector<AffineExpr> rows;   ///< sizes whose product is the number of rows
  DenseMap<Value, Value> known;   ///< what the function has of the kernel's values
  DenseMap<Value, Value> factors; ///< rows that products read, which lie elsewhere than what is added to results

  /// Returns what an input was before it was widened: rows may be stored in the linear's precision.
  static Value narrow(Value value) {
    auto widened = value.getDefiningOp<arith::ExtFOp>();
    return widened ? widened.getIn() : value;
  }
  static int64_t lastSize(Value value) { return cast<RankedTensorType>(value.getType()).getShape().back(); }
  Type f32() { return builder.getF32Type(); }
  LogicalResult refuse(Operation *op, const Twine &why);
  FailureOr<MatrixView> viewOf(Operation *user, BlockArgument argument);
  FailureOr<Value> addInput(Operation *user, Value value, int64_t offset, int64_t size, Type element);
  SmallVector<AffineExpr> leadingSizes(RankedTensorType type, ArrayAttr names);
  FailureOr<Value> rowsOf(Operation *user, Value value);
  FailureOr<Value> weightOf(const Part &part, Type element);
  FailureOr<Value> decoded(const Part &part, BlockArgument weight, rt::PanelsAttr layout, Type element);
  FailureOr<Value> product(const Part &part);
  FailureOr<SmallVector<Value>> operandsOf(Operation *op);
  FailureOr<Value> map(Operation *op, Arithmetic function);
  FailureOr<Value> norm(Operation *op, Norm norm, const llvm::APFloat &epsilon);
  FailureOr<Value> gather(nn::EmbeddingOp op);
  LogicalResult yield(rt::YieldOp op);
};

LogicalResult Builder::refuse(Operation *op, const Twine &why) { return refuseOnWafer(kernel, op, why); }

/// Returns the view of an argument of the kernel as rows of its last dimension.
FailureOr<MatrixView> Builder::viewOf(Operation *user, BlockArgument argument) {
  auto type = cast<RankedTensorType>(argument.getType());
  auto layout = kernel.getArgAttrOfType<rt::LayoutAttrInterface>(argument.getArgNumber(), "rt.layout");
  std::optional<itx_dtype> word = wordType(type.getElementType());
  if (!word)
    return refuse(user, "it reads " + llvm::formatv("{0}", type).str() + ", which is not f32, f16 or bf16");
  if (layout && !isa<rt::RowMajorAttr>(layout))
    return refuse(user, "it reads a weight that is not stored row by row");
  MatrixView view;
  view.operand = argument.getArgNumber();
  view.type = *word;
  view.columnStride = 1;
  return view;
}

/// Adds an argument to the function: rows of a kernel's argument; the same row for all if it has no other dimension.
FailureOr<Value> Builder::addInput(Operation *user, Value value, int64_t offset, int64_t size, Type element) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return refuse(user, "it reads what another op of its kernel computes before a linear");
  FailureOr<MatrixView> view = viewOf(user, argument);
  if (failed(view))
    return failure();
  auto type = cast<RankedTensorType>(value.getType());
  view->hasRows = type.getRank() > 1;
  if (view->hasRows &&
      leadingSizes(type, kernel.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "nn.sizes")) != rows)
    return refuse(user, "it reads other rows than its kernel computes");
  view->offset = offset;
  view->rowStride = view->hasRows ? lastSize(value) : 0;
  made.inputs.push_back(*view);
  return made.function.getBody().addArgument(RankedTensorType::get({count, size}, element), user->getLoc());
}

/// Returns the sizes of all dimensions but the last; `names` is what `nn.sizes` says of them.
SmallVector<AffineExpr> Builder::leadingSizes(RankedTensorType type, ArrayAttr names) {
  SmallVector<AffineExpr> sizes;
  for (int64_t i = 0; i + 1 < type.getRank(); ++i)
    sizes.push_back(type.isDynamicDim(i) ? kernel.parseSize(cast<StringAttr>(names[i]).getValue())
                                         : builder.getAffineConstantExpr(type.getDimSize(i)));
  return sizes;
}

/// Returns the weight [k, n] of features of a linear.
FailureOr<Value> Builder::weightOf(const Part &part, Type element) {
  nn::LinearOp linear = part.linear;
  auto weight = dyn_cast<BlockArgument>(linear.getWeight());
  if (!weight)
    return refuse(linear, "its weight is computed in the kernel");
  auto layout = kernel.getArgAttrOfType<rt::LayoutAttrInterface>(weight.getArgNumber(), "rt.layout");
  if (auto panels = dyn_cast_if_present<rt::PanelsAttr>(layout); panels && panels.getFormat())
    return decoded(part, weight, panels, element);
  FailureOr<MatrixView> view = viewOf(linear, weight);
  if (failed(view))
    return failure();
  // W[k, n] is weight[n, k].
  int64_t depth = lastSize(weight);
  view->offset = part.offset * depth;
  view->rowStride = 1;
  view->columnStride = depth;
  made.inputs.push_back(*view);
  return made.function.getBody().addArgument(RankedTensorType::get({depth, part.count}, element), linear.getLoc());
}

/// The same for a weight that is stored as quantized values: the cores keep these, and scales as often as no tile
/// begins within the features of one.
FailureOr<Value> Builder::decoded(const Part &part, BlockArgument weight, rt::PanelsAttr layout, Type element) {
  nn::LinearOp linear = part.linear;
  int64_t depth = lastSize(weight);
  std::optional<BlockPanels> panels = BlockPanels::of(layout.getFormat(), depth, layout.getWidth());
  std::optional<itx_dtype> scale;
  if (panels)
    scale = panels->scale == nn::BlockScale::F16    ? ITX_F16
            : panels->scale == nn::BlockScale::BF16 ? std::optional(ITX_BF16)
            : panels->scale == nn::BlockScale::F32  ? std::optional(ITX_F32)
                                                    : std::nullopt;
  if (!scale || panels->width != BlockPanels::rows || (panels->elementBits != 4 && panels->elementBits != 8) ||
      panels->floatFormat() || panels->scaleBits || panels->hasMinima || panels->hasTensorScale || panels->block == 0)
    return refuse(linear, "its weight is quantized to " + layout.getFormat().getName() +
                              "; cores decode integers of 4 and 8 bits in groups without zero points: compile with "
                              "--quantize=int4 or --quantize=int8");
  MatrixView view;
  view.operand = weight.getArgNumber();
  view.type = *scale;
  view.offset = part.offset;
  int64_t shared = sizes.sharedFeatures(depth, panels->block);
  view.panels = {panels->elementBits,    panels->integerOffset, depth, panels->block, panels->unitDepth,
                 panels->unitScaleBytes, panels->unitBytes,     shared};
  auto addPart = [&](ViewKind kind, int64_t rows, Type type) {
    view.kind = kind;
    made.inputs.push_back(view);
    return made.function.getBody().addArgument(RankedTensorType::get({rows, part.count}, type), linear.getLoc());
  };
  Value codes = addPart(ViewKind::Codes, depth, builder.getIntegerType(unsigned(panels->elementBits)));
  Value scales = addPart(ViewKind::Scales, llvm::divideCeil(depth, shared),
                         *scale == ITX_F16 ? Type(builder.getF16Type()) : f32());
  return Value(DistDecodeOp::create(builder, linear.getLoc(), RankedTensorType::get({depth, part.count}, element),
                                    codes, scales, grid));
}

/// Returns features of a linear, with its bias.
FailureOr<Value> Builder::product(const Part &part) {
  nn::LinearOp linear = part.linear;
  Value input = narrow(linear.getInput());
  int64_t depth = lastSize(input);
  Type element = linear.getPrecision() && linear.getPrecision()->isF16() ? Type(builder.getF16Type()) : f32();
  Value &x = factors[input];
  if (!x) {
    FailureOr<Value> added = addInput(linear, input, 0, depth, element);
    if (failed(added))
      return failure();
    x = *added;
  }
  FailureOr<Value> w = weightOf(part, element);
  if (failed(w))
    return failure();
  made.smallest = std::min(made.smallest, depth);
  auto type = RankedTensorType::get({count, part.count}, f32());
  Value y = count == 1
                ? Value(DistGemvOp::create(builder, linear.getLoc(), type, Reduction::Tree, x, *w, grid, IntegerAttr()))
                : Value(DistGemmOp::create(builder, linear.getLoc(), type, GemmAlgorithm::Mesh, x, *w, grid, false));
  if (!linear.getBias())
    return y;
  FailureOr<Value> bias = addInput(linear, linear.getBias(), part.offset, part.count, f32());
  if (failed(bias))
    return failure();
  return Value(DistMapOp::create(builder, linear.getLoc(), type, Arithmetic::Add, ValueRange{y, *bias}, grid));
}

/// Returns the rows of all operands of an op.
FailureOr<SmallVector<Value>> Builder::operandsOf(Operation *op) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    FailureOr<Value> rows = rowsOf(op, operand);
    if (failed(rows))
      return failure();
    operands.push_back(*rows);
  }
  return operands;
}

FailureOr<Value> Builder::map(Operation *op, Arithmetic function) {
  FailureOr<SmallVector<Value>> inputs = operandsOf(op);
  if (failed(inputs))
    return failure();
  return Value(DistMapOp::create(builder, op->getLoc(), inputs->front().getType(), function, *inputs, grid));
}

FailureOr<Value> Builder::norm(Operation *op, Norm norm, const llvm::APFloat &epsilon) {
  FailureOr<SmallVector<Value>> inputs = operandsOf(op);
  if (failed(inputs))
    return failure();
  auto type = cast<RankedTensorType>(inputs->front().getType());
  return Value(DistNormOp::create(builder, op->getLoc(), type, norm, *inputs, uint64_t(grid), epsilon));
}

/// Returns the rows of a value in f32.
FailureOr<Value> Builder::rowsOf(Operation *user, Value value) {
  if (Value before = known.lookup(value))
    return before;
  auto make = [&]() -> FailureOr<Value> {
    Operation *op = value.getDefiningOp();
    if (!op)
      return addInput(user, value, 0, lastSize(value), f32());
    return llvm::TypeSwitch<Operation *, FailureOr<Value>>(op)
        .Case([&](nn::LinearOp linear) { return product({linear, 0, lastSize(value)}); })
        .Case([&](tensor::ExtractSliceOp slice) -> FailureOr<Value> {
          auto linear = slice.getSource().getDefiningOp<nn::LinearOp>();
          if (!linear || slice.getSourceType().getRank() != slice.getType().getRank() || !slice.hasUnitStride())
            return refuse(op, "it is a part of something else than the features of a linear");
          for (auto [index, offset] : llvm::enumerate(slice.getMixedOffsets()))
            if (!getConstantIntValue(offset) ||
                (int64_t(index) + 1 < slice.getType().getRank() && *getConstantIntValue(offset) != 0))
              return refuse(op, "it is a part of something else than the features of a linear");
          return product({linear, *getConstantIntValue(slice.getMixedOffsets().back()), lastSize(value)});
        })
        .Case([&](nn::EmbeddingOp embedding) { return gather(embedding); })
        .Case([&](arith::ExtFOp) { return rowsOf(op, op->getOperand(0)); })
        .Case([&](arith::AddFOp) { return map(op, Arithmetic::Add); })
        .Case([&](arith::MulFOp) { return map(op, Arithmetic::Multiply); })
        .Case([&](nn::SiluOp) { return map(op, Arithmetic::Silu); })
        .Case([&](nn::ReluOp) { return map(op, Arithmetic::Relu); })
        .Case([&](nn::TanhOp) { return map(op, Arithmetic::Tanh); })
        .Case([&](nn::RmsNormOp rms) { return norm(op, Norm::Rms, rms.getEpsilon()); })
        .Case([&](nn::LayerNormOp layer) { return norm(op, Norm::Layer, layer.getEpsilon()); })
        .Case([&](nn::GeluOp gelu) {
          return map(op, gelu.getForm() == nn::GeluForm::Erf ? Arithmetic::Gelu : Arithmetic::GeluTanh);
        })
        .Default([&](Operation *) -> FailureOr<Value> {
          return refuse(op, "linears, norms, additions, products, silu, gelu, relu and tanh are supported");
        });
  };
  FailureOr<Value> result = make();
  if (succeeded(result))
    known[value] = *result;
  return result;
}

LogicalResult Builder::yield(rt::YieldOp op) {
  SmallVector<Value> results;
  for (auto [index, value] : llvm::enumerate(op.getValues())) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<AffineExpr> sizes = leadingSizes(type, kernel.getResultAttrOfType<ArrayAttr>(index, "nn.sizes"));
    if (index > 0 && sizes != rows)
      return refuse(op, "it stores results with different rows");
    rows = sizes;
    if (type.isDynamicDim(type.getRank() - 1))
      return refuse(op, "the last size of a result is not fixed");
    made.smallest = index > 0 ? std::min(made.smallest, lastSize(value)) : lastSize(value);
    Value stored = value;
    if (auto narrowed = value.getDefiningOp<arith::TruncFOp>())
      stored = narrowed.getIn();
    FailureOr<Value> result = rowsOf(op, stored);
    if (failed(result))
      return failure();
    // A function returns only what one of its ops gives.
    if (isa<BlockArgument>(*result))
      return refuse(op, "it returns one of its inputs");
    results.push_back(*result);
    std::optional<itx_dtype> word = wordType(getElementTypeOrSelf(value));
    if (!word)
      return refuse(op, "it stores results that are not f32, f16 or bf16");
    MatrixView &view = made.outputs.emplace_back();
    view.operand = kernel.getNumArguments() + int64_t(index);
    view.type = *word;
    view.hasRows = true;
    view.rowStride = lastSize(value);
    view.columnStride = 1;
  }
  func::ReturnOp::create(builder, op.getLoc(), results);
  made.function.setFunctionType(
      builder.getFunctionType(made.function.getBody().getArgumentTypes(), ValueRange(results).getTypes()));
  return success();
}

/// Rows that a launch names by their numbers are loaded as if they were the kernel's input.
FailureOr<Value> Builder::gather(nn::EmbeddingOp op) {
  auto source = dyn_cast<BlockArgument>(op.getTable()), indices = dyn_cast<BlockArgument>(op.getIndices());
  if (!source || !indices)
    return refuse(op, "it selects rows of what another op computes");
  auto type = cast<RankedTensorType>(source.getType());
  if (type.getRank() != 2 || !type.isDynamicDim(0))
    return refuse(op, "it selects rows of a weight; put the embedding on another device");
  auto chosen = cast<RankedTensorType>(indices.getType());
  if (!chosen.getElementType().isInteger(64) || chosen.getRank() != 1)
    return refuse(op, "its numbers of rows are no row of i64");
  SmallVector<AffineExpr> sizes;
  auto names = kernel.getArgAttrOfType<ArrayAttr>(indices.getArgNumber(), "nn.sizes");
  sizes.push_back(chosen.isDynamicDim(0) ? kernel.parseSize(cast<StringAttr>(names[0]).getValue())
                                         : builder.getAffineConstantExpr(chosen.getDimSize(0)));
  if (sizes != rows)
    return refuse(op, "it reads other rows than its kernel computes");
  FailureOr<MatrixView> view = viewOf(op, source);
  if (failed(view))
    return failure();
  view->kind = ViewKind::Gathered;
  view->hasRows = true;
  view->rowStride = lastSize(source);
  view->indices = indices.getArgNumber();
  made.inputs.push_back(*view);
  return made.function.getBody().addArgument(RankedTensorType::get({count, lastSize(source)}, f32()), op.getLoc());
}

FailureOr<KernelFunction> Builder::build() {
  if (kernel.getRoot() != KernelRoot::Linear && kernel.getRoot() != KernelRoot::Rows)
    return refuse(kernel, "kernels of '" + stringifyKernelRoot(kernel.getRoot()) + "' are not supported");
  if (failed(yield(cast<rt::YieldOp>(kernel.getBody().front().getTerminator()))))
    return failure();
  using Kind = SizeStep::Kind;
  made.rows.push_back({Kind::Number, 1});
  for (AffineExpr size : rows) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(size))
      made.rows.push_back({Kind::Size, int64_t(symbol.getPosition())});
    else if (auto constant = dyn_cast<AffineConstantExpr>(size))
      made.rows.push_back({Kind::Number, constant.getValue()});
    else
      return refuse(kernel, "its number of rows is an expression of sizes");
    made.rows.push_back({Kind::Multiply});
  }
  return std::move(made);
}

} // namespace

FunctionSizes FunctionSizes::ofCaches() const {
  FunctionSizes of = *this;
  if (cacheGrid != 0) {
    of.rows = int64_t(llvm::divideCeil(rows, grid)) * cacheGrid;
    of.grid = cacheGrid;
  }
  return of;
}

int64_t FunctionSizes::sharedFeatures(int64_t depth, int64_t block) const {
  int64_t shared = std::gcd(int64_t(llvm::divideCeil(depth, grid)), block);
  return otherGrid == 0 ? shared : std::gcd(int64_t(llvm::divideCeil(depth, otherGrid)), shared);
}

LogicalResult refuseOnWafer(rt::KernelOp kernel, Operation *op, const Twine &why) {
  InFlightDiagnostic error = op->emitOpError() << "cannot be computed on a wafer: " << why;
  error.attachNote(kernel.getLoc()) << "in kernel '" << kernel.getSymName()
                                    << "'; --target=cpu,wafer --place='PATTERN=@wafer' puts only what a pattern names "
                                       "on the wafer";
  return failure();
}

std::optional<itx_dtype> wordType(Type element) {
  if (element.isF32())
    return ITX_F32;
  if (element.isF16())
    return ITX_F16;
  return element.isBF16() ? std::optional(ITX_BF16) : std::nullopt;
}

FailureOr<KernelFunction> buildKernelFunction(rt::KernelOp kernel, StringRef name, const FunctionSizes &sizes,
                                              ModuleOp module) {
  if (kernel.getRoot() == KernelRoot::CacheAppend || kernel.getRoot() == KernelRoot::CachedAttention)
    return buildCacheFunction(kernel, name, sizes.ofCaches(), module);
  return Builder(kernel, name, sizes, module).build();
}

} // namespace intarsia::wafer
