//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/InputRanges.h"

#include "dialects/Nn/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::lower {
namespace {

/// The function's arguments whose elements, all of them, are among those of the value; true if there are no others.
/// Not through slices: what they leave out need not be an index.
bool collectArguments(Value value, SmallVectorImpl<BlockArgument> &arguments) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (auto group = dyn_cast<nn::GroupOp>(argument.getOwner()->getParentOp()))
      return collectArguments(group.getInputs()[argument.getArgNumber()], arguments);
    if (!isa<func::FuncOp>(argument.getOwner()->getParentOp()))
      return false; // what a loop carries
    arguments.push_back(argument);
    return true;
  }
  Operation *op = value.getDefiningOp();
  if (auto group = dyn_cast<nn::GroupOp>(op))
    return collectArguments(group.getBodyBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()),
                            arguments);
  if (isa<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, arith::ExtSIOp, arith::ExtUIOp,
          arith::TruncIOp>(op))
    return collectArguments(op->getOperand(0), arguments);
  if (!isa<tensor::ConcatOp>(op))
    return false;
  bool all = true;
  for (Value operand : op->getOperands())
    all &= collectArguments(operand, arguments);
  return all;
}

LogicalResult limitArgument(func::FuncOp function, BlockArgument argument, int64_t rows, nn::EmbeddingOp embedding) {
  unsigned number = argument.getArgNumber();
  auto given = function.getArgAttrOfType<StringAttr>(number, "nn.name");
  std::string name = given ? given.str() : "arg" + std::to_string(number);
  if (auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(number, "nn.range")) {
    if (range[0] >= 0 && range[1] <= rows)
      return success();
    return embedding.emitError() << "input '" << name << "' has nn.range [" << range[0] << ", " << range[1]
                                 << "), and is an index of the table of 'nn.embedding', which has " << rows
                                 << " rows; let the range be inside [0, " << rows << ")";
  }
  if (auto byDefault = function.getArgAttrOfType<IntegerAttr>(number, "nn.default"))
    if (int64_t index = nn::numberOf(byDefault); index < 0 || index >= rows)
      return embedding.emitError() << "input '" << name << "' has nn.default " << index
                                   << ", and is an index of the table of 'nn.embedding', which has " << rows << " rows";
  function.setArgAttr(number, "nn.range", Builder(function).getDenseI64ArrayAttr({0, rows}));
  return success();
}

/// An input whose values are less than `factor` times a size that the call decides.
LogicalResult limitBySize(func::FuncOp function, BlockArgument argument, int64_t factor, AffineExpr size,
                          const SymbolicSizes &sizes, Operation *op) {
  unsigned number = argument.getArgNumber();
  Builder builder(function);
  auto symbol = dyn_cast<AffineSymbolExpr>(size);
  if (!symbol)
    return op->emitOpError() << "points into a tensor whose size " << sizes.toString(size)
                             << " is none of the sizes of the inputs";
  auto below = builder.getArrayAttr(
      {builder.getI64IntegerAttr(factor), builder.getStringAttr(sizes.names()[symbol.getPosition()])});
  if (Attribute given = function.getArgAttr(number, "nn.below"); given && given != below)
    return op->emitOpError() << "needs input " << number << " to be below " << below << ", another op below " << given;
  function.setArgAttr(number, "nn.below", below);
  if (!function.getArgAttr(number, "nn.range"))
    function.setArgAttr(number, "nn.range", builder.getDenseI64ArrayAttr({0, std::numeric_limits<int64_t>::max()}));
  else if (function.getArgAttrOfType<DenseI64ArrayAttr>(number, "nn.range")[0] < 0)
    return op->emitOpError() << "input " << number << " is an index, and its nn.range begins below 0";
  return success();
}

/// Integers that are used as indices below `factor` times a size.
struct Limit {
  StringRef name;
  Value value;
  int64_t factor;
  AffineExpr size;
};

LogicalResult limitIndices(func::FuncOp function, const SymbolicSizes &sizes, Operation *op, const Limit &limit) {
  SmallVector<BlockArgument> arguments;
  if (!collectArguments(limit.value, arguments))
    return op->emitOpError() << limit.name << " must be an input of the function, so that a call can be checked";
  for (BlockArgument argument : arguments)
    if (auto size = dyn_cast<AffineConstantExpr>(limit.size)) {
      Builder builder(function);
      int64_t high = limit.factor * size.getValue(), low = 0;
      if (auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(), "nn.range")) {
        low = std::max<int64_t>(range[0], 0);
        high = std::min(high, range[1]);
      }
      function.setArgAttr(argument.getArgNumber(), "nn.range", builder.getDenseI64ArrayAttr({low, high}));
    } else if (failed(limitBySize(function, argument, limit.factor, limit.size, sizes, op))) {
      return failure();
    }
  return success();
}

/// Says on the function how many tokens a page has: one page table serves all caches.
LogicalResult setPageTokens(func::FuncOp function, Operation *op, nn::CacheFormatAttr format) {
  if (format.isOpen())
    return op->emitOpError() << "is of a cache " << format
                             << ", whose pages have no size yet; run the partition phase first";
  auto known = function->getAttrOfType<IntegerAttr>("nn.page_tokens");
  if (known && known.getInt() != format.getPage())
    return op->emitOpError() << "is of a cache with pages of " << format.getPage() << " tokens, the function has pages "
                             << "of " << known.getInt() << ": one page table serves all caches";
  function->setAttr("nn.page_tokens", Builder(function).getI64IntegerAttr(format.getPage()));
  return success();
}

/// Slots in a cache: what a kernel would have to guard is refused before anything runs.
LogicalResult limitSlots(func::FuncOp function, const SymbolicSizes &sizes, Operation *op, Value positions,
                         Value sequences, Value pageTable, nn::CacheFormatAttr format, Value cache) {
  if (failed(setPageTokens(function, op, format)))
    return failure();
  int64_t page = format.getPage();
  AffineExpr pages = sizes.of(cache)[0];
  const Sizes table(sizes.of(pageTable).begin(), sizes.of(pageTable).end());
  for (const Limit &limit : {Limit{"positions", positions, page, table[1]},
                             {"sequences", sequences, 1, table[0]},
                             {"page_table", pageTable, 1, pages}})
    if (failed(limitIndices(function, sizes, op, limit)))
      return failure();
  return success();
}

} // namespace

LogicalResult inferInputRanges(func::FuncOp function, const SymbolicSizes &sizes) {
  // The smallest table of each argument without a range decides.
  SmallVector<std::pair<int64_t, nn::EmbeddingOp>> embeddings;
  function.walk([&](nn::EmbeddingOp embedding) {
    if (auto rows = dyn_cast<AffineConstantExpr>(sizes.of(embedding.getTable())[0]))
      embeddings.emplace_back(rows.getValue(), embedding);
  });
  llvm::stable_sort(embeddings, llvm::less_first());
  for (auto [rows, embedding] : embeddings) {
    SmallVector<BlockArgument> arguments;
    collectArguments(embedding.getIndices(), arguments);
    for (BlockArgument argument : arguments)
      if (failed(limitArgument(function, argument, rows, embedding)))
        return failure();
  }
  bool failedAny = false;
  function.walk([&](Operation *op) {
    auto append = dyn_cast<nn::CacheAppendOp>(op);
    if (append && append.getTail())
      failedAny |= failed(setPageTokens(function, op, append.getFormat())) ||
                   failed(limitIndices(function, sizes, op,
                                       {"sequences", append.getSequences(), 1, sizes.of(append.getCache()[0])[0]}));
    else if (append)
      failedAny |= failed(limitSlots(function, sizes, op, append.getPositions(), append.getSequences(),
                                     append.getPageTable(), append.getFormat(), append.getCache()[0]));
    else if (auto attention = dyn_cast<nn::CachedAttentionOp>(op))
      failedAny |= failed(limitSlots(function, sizes, op, attention.getPositions(), attention.getSequences(),
                                     attention.getPageTable(), attention.getKeyFormat(), attention.getKeys()[0]));
  });
  return failure(failedAny);
}

} // namespace intarsia::lower
