//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Appends to caches, and attention over them. Each key head has as many columns of cores as the grid has for it; if the
// grid has fewer columns than there are heads, several heads are on each column, and have ops of their own.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/Wafer/Wafer.h"
#include "lib/Target/Wafer/KernelPrograms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::wafer {
namespace {

class CacheBuilder {
public:
  CacheBuilder(rt::KernelOp kernel, StringRef name, const FunctionSizes &sizes, ModuleOp module)
      : kernel(kernel), sizes(sizes), builder(kernel.getContext()) {
    builder.setInsertionPointToEnd(module.getBody());
    made.function = func::FuncOp::create(builder, kernel.getLoc(), name, builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(made.function.addEntryBlock());
  }

  FailureOr<KernelFunction> append(nn::CacheAppendOp op);
  FailureOr<KernelFunction> attention(nn::CachedAttentionOp op);

private:
  rt::KernelOp kernel;
  FunctionSizes sizes;
  OpBuilder builder;
  KernelFunction made;
  PackedHeads heads;
  int64_t slots = 0;

  LogicalResult refuse(Operation *op, const Twine &why) { return refuseOnWafer(kernel, op, why); }
  Type f32() { return builder.getF32Type(); }
  LogicalResult checkFormat(Operation *op, nn::CacheFormatAttr format, OperandRange tensors);
  LogicalResult placeHeads(Operation *op, RankedTensorType cache, int64_t queryHeads);
  FailureOr<BlockArgument> argument(Operation *op, Value value);
  FailureOr<BlockArgument> rotated(Value value, Operation *op, nn::RopeOp &rope);
  LogicalResult setRows(Operation *op, BlockArgument rows);
  LogicalResult setCache(Operation *op, Value positions, Value sequences, Value table, int64_t page, bool appends);
  Value add(ViewKind kind, int64_t operand, itx_dtype type, ArrayRef<int64_t> shape, Type element, int64_t part = 0);
  void addResult(ViewKind kind, int64_t operand, itx_dtype type, int64_t part);
  FailureOr<Value> addFrequencies(nn::RopeOp rope);
  KernelFunction finish(Location loc, ArrayRef<Value> results);
};

/// Checks that a cache has elements that cores compute with, in pages of rows.
LogicalResult CacheBuilder::checkFormat(Operation *op, nn::CacheFormatAttr format, OperandRange tensors) {
  if (format.isQuantized() || tensors.size() != 1 || (!format.getElement().isF32() && !format.getElement().isF16()))
    return refuse(op, "its cache is not f32 or f16; compile the model with --kv=f16");
  if (format.getTransposed())
    return refuse(op, "pages of its cache are transposed");
  return success();
}

/// Chooses the columns of cores for each key head.
LogicalResult CacheBuilder::placeHeads(Operation *op, RankedTensorType cache, int64_t queryHeads) {
  int64_t features = cache.getDimSize(3);
  if (features % 2 != 0)
    return refuse(op, "its heads have " + Twine(features) + " features, which are no pairs");
  if (sizes.context == 0)
    return refuse(op, "nothing says how long its cache becomes");
  heads = intarsia::wafer::placeHeads(cache.getDimSize(1), queryHeads, features, sizes.grid);
  slots = llvm::divideCeil(sizes.context, sizes.grid);
  return success();
}

FailureOr<BlockArgument> CacheBuilder::argument(Operation *op, Value value) {
  if (auto found = dyn_cast<BlockArgument>(value))
    return found;
  return refuse(op, "it reads what '" + value.getDefiningOp()->getName().getStringRef().str() +
                        "' computes in its kernel; rows of caches may only be turned by nn.rope");
}

/// Returns the argument whose rows of heads an op reads, turned or as they are.
FailureOr<BlockArgument> CacheBuilder::rotated(Value value, Operation *op, nn::RopeOp &rope) {
  if ((rope = value.getDefiningOp<nn::RopeOp>())) {
    auto frequencies = cast<RankedTensorType>(rope.getFrequencies().getType());
    if (rope.getInterleaved() || 2 * frequencies.getDimSize(0) != heads.features)
      return refuse(rope, "it turns neighbours, or a part of the features; halves of whole heads are supported");
    value = rope.getInput();
  }
  if (auto widened = value.getDefiningOp<arith::ExtFOp>())
    value = widened.getIn();
  return argument(op, value);
}

/// Rows of the launch are tokens.
LogicalResult CacheBuilder::setRows(Operation *op, BlockArgument rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  if (type.getRank() != 3 || !wordType(type.getElementType()))
    return refuse(op, "its rows are no [tokens, heads, features] of f32, f16 or bf16");
  if (!type.isDynamicDim(0)) {
    made.rows = {{SizeStep::Kind::Number, type.getDimSize(0)}};
    return success();
  }
  auto names = kernel.getArgAttrOfType<ArrayAttr>(rows.getArgNumber(), "nn.sizes");
  auto symbol = dyn_cast<AffineSymbolExpr>(kernel.parseSize(cast<StringAttr>(names[0]).getValue()));
  if (!symbol)
    return refuse(op, "its number of tokens is an expression of sizes");
  made.rows = {{SizeStep::Kind::Size, int64_t(symbol.getPosition())}};
  return success();
}

LogicalResult CacheBuilder::setCache(Operation *op, Value positions, Value sequences, Value table, int64_t page,
                                     bool appends) {
  CacheOperands cache;
  cache.page = page;
  cache.appends = appends;
  std::pair<Value, int64_t *> operands[] = {
      {positions, &cache.positions}, {sequences, &cache.sequences}, {table, &cache.table}};
  for (auto [value, number] : operands) {
    FailureOr<BlockArgument> found = argument(op, value);
    if (failed(found))
      return failure();
    if (!getElementTypeOrSelf(value).isInteger(64))
      return refuse(op, "its positions, sequences and pages are not all i64");
    *number = found->getArgNumber();
  }
  auto names = kernel.getArgAttrOfType<ArrayAttr>(unsigned(cache.table), "nn.sizes");
  auto type = cast<RankedTensorType>(table.getType());
  auto symbol = type.isDynamicDim(1) && names
                    ? dyn_cast<AffineSymbolExpr>(kernel.parseSize(cast<StringAttr>(names[1]).getValue()))
                    : AffineSymbolExpr(nullptr);
  if (!symbol)
    return refuse(op, "the number of pages of a sequence is no size of the kernel");
  cache.tableSize = int64_t(symbol.getPosition());
  made.cache = cache;
  return success();
}

Value CacheBuilder::add(ViewKind kind, int64_t operand, itx_dtype type, ArrayRef<int64_t> shape, Type element,
                        int64_t part) {
  MatrixView &view = made.inputs.emplace_back();
  view.kind = kind;
  view.operand = operand;
  view.type = type;
  view.hasRows = kind == ViewKind::Heads || kind == ViewKind::Positions;
  view.heads = heads;
  view.heads.part = part;
  return made.function.getBody().addArgument(RankedTensorType::get(shape, element), kernel.getLoc());
}

void CacheBuilder::addResult(ViewKind kind, int64_t operand, itx_dtype type, int64_t part) {
  MatrixView &view = made.outputs.emplace_back();
  view.kind = kind;
  view.operand = operand;
  view.type = type;
  view.hasRows = kind == ViewKind::Heads;
  view.heads = heads;
  view.heads.part = part;
}

FailureOr<Value> CacheBuilder::addFrequencies(nn::RopeOp rope) {
  if (!rope)
    return Value();
  FailureOr<BlockArgument> found = argument(rope, rope.getFrequencies());
  if (failed(found))
    return failure();
  std::optional<itx_dtype> type = wordType(getElementTypeOrSelf(rope.getFrequencies()));
  if (!type)
    return refuse(rope, "its frequencies are not f32, f16 or bf16");
  return add(ViewKind::Frequencies, found->getArgNumber(), *type, {1, sizes.grid * heads.tile / 2}, f32());
}

KernelFunction CacheBuilder::finish(Location loc, ArrayRef<Value> results) {
  func::ReturnOp::create(builder, loc, results);
  made.function.setFunctionType(
      builder.getFunctionType(made.function.getBody().getArgumentTypes(), ValueRange(results).getTypes()));
  return std::move(made);
}

FailureOr<KernelFunction> CacheBuilder::append(nn::CacheAppendOp op) {
  auto cache = cast<RankedTensorType>(op.getCache().front().getType());
  if (failed(checkFormat(op, op.getFormat(), op.getCache())) || failed(placeHeads(op, cache, cache.getDimSize(1))))
    return failure();
  if (op.getTail() || !op.getPageTable())
    return refuse(op, "tails of quantized caches are not supported");
  nn::RopeOp rope;
  FailureOr<BlockArgument> rows = rotated(op.getRows(), op, rope), pages = argument(op, op.getCache().front());
  if (failed(rows) || failed(pages) || failed(setRows(op, *rows)) ||
      failed(setCache(op, op.getPositions(), op.getSequences(), op.getPageTable(), op.getFormat().getPage(), true)))
    return failure();
  int64_t width = sizes.grid * heads.tile;
  Value positions;
  if (rope)
    positions = add(ViewKind::Positions, made.cache->positions, ITX_F32, {1, 1}, f32());
  FailureOr<Value> frequencies = addFrequencies(rope);
  if (failed(frequencies))
    return failure();
  Type element = op.getFormat().getElement();
  itx_dtype stored = *wordType(element), given = *wordType(getElementTypeOrSelf(rows->getType()));
  SmallVector<Value> results;
  for (int64_t part = 0; part < heads.parts; ++part) {
    Value before = add(ViewKind::Cache, pages->getArgNumber(), stored, {sizes.grid * slots, width}, element, part);
    Value row = add(ViewKind::Heads, rows->getArgNumber(), given, {1, width}, f32(), part);
    results.push_back(DistAppendOp::create(builder, op.getLoc(), before.getType(), before, row, positions, *frequencies,
                                           uint64_t(sizes.grid),
                                           rope ? rope.getAttentionFactor() : llvm::APFloat(1.0f)));
    addResult(ViewKind::Cache, kernel.getNumArguments(), stored, part);
  }
  return finish(op.getLoc(), results);
}

FailureOr<KernelFunction> CacheBuilder::attention(nn::CachedAttentionOp op) {
  auto keys = cast<RankedTensorType>(op.getKeys().front().getType());
  auto values = cast<RankedTensorType>(op.getValues().front().getType());
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  if (failed(checkFormat(op, op.getKeyFormat(), op.getKeys())) ||
      failed(checkFormat(op, op.getValueFormat(), op.getValues())) || failed(placeHeads(op, keys, query.getDimSize(1))))
    return failure();
  if (op.getSinks())
    return refuse(op, "sinks are not supported");
  if (keys.getShape().drop_front() != values.getShape().drop_front())
    return refuse(op, "its keys and values differ in their heads or pages");
  nn::RopeOp rope;
  FailureOr<BlockArgument> rows = rotated(op.getQuery(), op, rope), keyPages = argument(op, op.getKeys().front()),
                           valuePages = argument(op, op.getValues().front());
  if (failed(rows) || failed(keyPages) || failed(valuePages) || failed(setRows(op, *rows)) ||
      failed(setCache(op, op.getPositions(), op.getSequences(), op.getPageTable(), op.getKeyFormat().getPage(), false)))
    return failure();
  // As many tokens as a core of a product has rows.
  made.count = llvm::divideCeil(sizes.rows, sizes.grid);
  int64_t width = sizes.grid * heads.tile, count = made.count * heads.group;
  Value positions = add(ViewKind::Positions, made.cache->positions, ITX_F32, {count, 1}, f32());
  FailureOr<Value> frequencies = addFrequencies(rope);
  if (failed(frequencies))
    return failure();
  auto yield = cast<rt::YieldOp>(kernel.getBody().front().getTerminator());
  std::optional<itx_dtype> result = wordType(getElementTypeOrSelf(yield.getValues().front()));
  if (!result)
    return refuse(op, "its result is not f32, f16 or bf16");
  float scale = op.getScale().convertToFloat() * (rope ? rope.getAttentionFactor().convertToFloat() : 1);
  itx_dtype given = *wordType(getElementTypeOrSelf(rows->getType()));
  int64_t onColumns = llvm::divideCeil(heads.heads, heads.parts);
  SmallVector<Value> results;
  auto pages = [&](BlockArgument of, nn::CacheFormatAttr format, int64_t part) {
    return add(ViewKind::Cache, of.getArgNumber(), *wordType(format.getElement()), {sizes.grid * slots, width},
               format.getElement(), part);
  };
  for (int64_t part = 0; part < heads.parts; ++part) {
    Value q = add(ViewKind::Heads, rows->getArgNumber(), given, {count, width}, f32(), part);
    Value k = pages(*keyPages, op.getKeyFormat(), part), v = pages(*valuePages, op.getValueFormat(), part);
    results.push_back(DistAttentionOp::create(
        builder, op.getLoc(), q.getType(), q, k, v, positions, *frequencies, builder.getI64IntegerAttr(sizes.grid),
        builder.getI64IntegerAttr(onColumns), builder.getI64IntegerAttr(heads.columns), builder.getF32FloatAttr(scale),
        op.getWindowAttr(), op.getSoftCapAttr()));
    addResult(ViewKind::Heads, kernel.getNumArguments(), *result, part);
  }
  return finish(op.getLoc(), results);
}

} // namespace

PackedHeads placeHeads(int64_t keyHeads, int64_t queryHeads, int64_t features, int64_t grid) {
  PackedHeads heads;
  heads.heads = keyHeads;
  heads.group = queryHeads / keyHeads;
  heads.features = features;
  heads.parts = llvm::divideCeil(keyHeads, grid);
  int64_t groups = llvm::divideCeil(keyHeads, heads.parts);
  heads.columns = std::clamp<int64_t>(grid / groups, 1, features / 2);
  heads.tile = 2 * llvm::divideCeil(features / 2, heads.columns);
  return heads;
}

FailureOr<KernelFunction> buildCacheFunction(rt::KernelOp kernel, StringRef name, const FunctionSizes &sizes,
                                             ModuleOp module) {
  auto yield = cast<rt::YieldOp>(kernel.getBody().front().getTerminator());
  Value result = yield.getValues().front();
  if (auto narrowed = result.getDefiningOp<arith::TruncFOp>())
    result = narrowed.getIn();
  // Formats that are not supported have several tensors.
  auto append = result.getDefiningOp<nn::CacheAppendOp>();
  if (append && (yield.getValues().size() == 1 || append.getFormat().isQuantized()))
    return CacheBuilder(kernel, name, sizes, module).append(append);
  if (yield.getValues().size() == 1) {
    if (auto attention = result.getDefiningOp<nn::CachedAttentionOp>())
      return CacheBuilder(kernel, name, sizes, module).attention(attention);
  }
  return refuseOnWafer(kernel, yield, "its kernel has more than one append to a cache, or more than attention");
}

} // namespace intarsia::wafer
