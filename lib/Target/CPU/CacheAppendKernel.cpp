//===- CacheAppendKernel.cpp - Rows into caches: as they are, quantized, into tails -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/CacheEmitter.h"
#include "lib/Target/CPU/KernelRoots.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// What kernels share that append the rows of tokens to a cache.
class AppendKernel : public KernelEmitter {
public:
  AppendKernel(rt::KernelOp kernel, nn::CacheAppendOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root) {}

protected:
  void chooseShape(KernelShape &shape) override {
    shape.state("kernel", root.getTail() ? "tail append" : "cache append");
    shape.state("tiles_per_thread", CacheEmitter::kTilesPerThread);
  }
  void launch() override { caches.cutTokens(root.getRows()); }

  CacheEmitter caches{function, tensors};
  nn::CacheAppendOp root;
};

/// Stores rows of tokens into pages.
class CacheAppendKernel final : public AppendKernel {
public:
  using AppendKernel::AppendKernel;

private:
  LogicalResult run() override;
  LogicalResult storeRow(Value token, Value head, Value to, int64_t page, Value slot);
};

/// Stores rows of tokens into the tails of their sequences, where pages are gathered before they are quantized.
class TailAppendKernel final : public AppendKernel {
public:
  using AppendKernel::AppendKernel;

private:
  LogicalResult run() override;
};

/// Quantizes rows of tokens: each row, or a page with its last token.
class CacheAppendQuantizedKernel final : public AppendKernel {
public:
  using AppendKernel::AppendKernel;

private:
  LogicalResult run() override;

  struct Token {
    Value row; ///< of the call
    TokenIndex at;
    Value slot; ///< of its page
  };
  LogicalResult findOperands();
  LogicalResult quantizeRow(const Token &token, Value valuesOfPage, Value parametersOfPage, Value head);
  LogicalResult quantizePage(const TokenIndices &indices, const Token &token, Value valuesOfPage,
                             Value parametersOfPage, Value head);

  std::optional<Storage> values, parameters, tail;
  int64_t page = 0, bits = 0, features = 0, rowBytes = 0;
  Value group; ///< the values that are quantized next, f32
  PageTurn turn;
};
} // namespace

Emitter makeCacheAppendKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  auto append = cast<nn::CacheAppendOp>(root);
  if (append.getTail())
    return std::make_unique<TailAppendKernel>(kernel, append, config);
  if (append.getFormat().isQuantized())
    return std::make_unique<CacheAppendQuantizedKernel>(kernel, append, config);
  return std::make_unique<CacheAppendKernel>(kernel, append, config);
}

LogicalResult CacheAppendKernel::run() {
  std::optional<Storage> cache = tensors.view(root.getCache()[0]);
  if (!cache || function.yielded(0) != root.getNewCache()[0] || kernel.getResultTypes().size() != 1)
    return function.refuse(root, "the cache is computed in the same kernel, or is not its one result");
  if (root.getFormat().isOpen())
    return function.refuse(root, "its pages have no size yet");
  auto rowsType = cast<RankedTensorType>(root.getRows().getType());
  int64_t heads = rowsType.getDimSize(1), page = root.getFormat().getPage();
  return caches.forTokens(root.getRows(), [&](Value token) -> LogicalResult {
    FailureOr<TokenIndex> at = caches.indexOfToken(root.getPositions(), root.getSequences(), token);
    if (failed(at))
      return failure();
    Value slot = rem(at->position, constant(page)), pageIndex = div(at->position, constant(page));
    return forLoop(constant(0), constant(heads), constant(1), [&](Value head) -> LogicalResult {
      Element to = caches.pageOf(*cache, root.getPageTable(), at->sequence, pageIndex, head);
      return failed(to) ? failure() : storeRow(token, head, *to, page, slot);
    });
  });
}

/// Stores a row of one head into a slot of the page at `to`.
LogicalResult CacheAppendKernel::storeRow(Value token, Value head, Value to, int64_t page, Value slot) {
  Type element = root.getFormat().getElement();
  if (root.getFormat().getTransposed())
    return caches.storeColumn(root.getRows(), token, head, to, page, slot, element, element);
  int64_t features = cast<RankedTensorType>(root.getRows().getType()).getDimSize(2);
  return vectorLoop(constant(features), [&](Value feature, int64_t width) -> LogicalResult {
    Element row = tensors.evaluate(root.getRows(), {Index{token}, Index{head}, Index{feature, true}}, width);
    if (succeeded(row))
      memory.store(*row, to, add(mul(slot, constant(features)), feature), element, width);
    return row;
  });
}

LogicalResult TailAppendKernel::run() {
  std::optional<Storage> tail = tensors.view(root.getCache()[0]);
  if (!tail || function.yielded(0) != root.getNewCache()[0] || kernel.getResultTypes().size() != 1)
    return function.refuse(root, "the tail is computed in the same kernel, or is not its one result");
  if (!root.getFormat().getTransposed())
    return function.refuse(root, "its tail is not transposed");
  auto type = cast<RankedTensorType>(root.getCache()[0].getType());
  int64_t heads = type.getDimSize(1), page = root.getFormat().getPage();
  TokenIndices indices{root.getPositions(), root.getSequences(), function.sizeOf(root.getRows(), 0)};
  return caches.forTokens(root.getRows(), [&](Value token) -> LogicalResult {
    FailureOr<TokenIndex> at = caches.indexOfToken(root.getPositions(), root.getSequences(), token);
    if (failed(at))
      return failure();
    Value slot = rem(at->position, constant(page)), left = sub(constant(page), slot);
    auto storeHeads = [&] {
      return forLoop(constant(0), constant(heads), constant(1), [&](Value head) {
        Value panel = memory.at(tail->pointer, add(mul(at->sequence, tail->strides[0]), mul(head, tail->strides[1])),
                                tail->elementType);
        return caches.storeColumn(root.getRows(), token, head, panel, page, slot, tail->elementType, tail->elementType);
      });
    };
    // Rows of a page that ends in this call are of no use any more.
    Value next = add(token, left);
    Element isEnded = caches.isTokenAt(indices, next, at->sequence, add(at->position, left));
    if (failed(isEnded))
      return failure();
    return ifThen(*isEnded, [] { return success(); }, storeHeads);
  });
}

LogicalResult CacheAppendQuantizedKernel::findOperands() {
  nn::CacheFormatAttr format = root.getFormat();
  values = tensors.view(root.getCache()[0]);
  parameters = tensors.view(root.getCache()[1]);
  if (format.hasTail())
    tail = tensors.view(root.getCache()[2]);
  if (!values || !parameters || (format.hasTail() && !tail) || kernel.getResultTypes().size() != 2 ||
      function.yielded(0) != root.getNewCache()[0] || function.yielded(1) != root.getNewCache()[1])
    return function.refuse(root, "a cache is computed in the same kernel, or its values and parameters are not the "
                                 "kernel's two results");
  page = format.getPage();
  bits = format.getBits();
  if (format.hasTail() && (page != kPanelWidth || !format.getTransposed()))
    return function.refuse(root, "its pages do not have " + Twine(kPanelWidth) + " slots, transposed");
  features = cast<RankedTensorType>(root.getRows().getType()).getDimSize(2);
  rowBytes = cast<RankedTensorType>(root.getCache()[0].getType()).getDimSize(3);
  return success();
}

LogicalResult CacheAppendQuantizedKernel::run() {
  if (failed(findOperands()))
    return failure();
  int64_t heads = cast<RankedTensorType>(root.getRows().getType()).getDimSize(1);
  group = function.scratch((tail ? features * page : features) * 4);
  TokenIndices indices{root.getPositions(), root.getSequences(), function.sizeOf(root.getRows(), 0)};
  FailureOr<PageTurn> made = caches.makeTurn(root.getFrequencies(), root.getInterleaved());
  if (failed(made))
    return failure();
  turn = *made;
  return caches.forTokens(root.getRows(), [&](Value row) -> LogicalResult {
    FailureOr<TokenIndex> at = caches.indexOfToken(root.getPositions(), root.getSequences(), row);
    if (failed(at))
      return failure();
    Value slot = rem(at->position, constant(page)), pageIndex = div(at->position, constant(page));
    Token token{row, *at, slot};
    auto quantizeHeads = [&] {
      return forLoop(constant(0), constant(heads), constant(1), [&](Value head) -> LogicalResult {
        Element valuesOfPage = caches.pageOf(*values, root.getPageTable(), at->sequence, pageIndex, head);
        if (failed(valuesOfPage))
          return failure();
        Element parametersOfPage = caches.pageOf(*parameters, root.getPageTable(), at->sequence, pageIndex, head);
        if (failed(parametersOfPage))
          return failure();
        return tail ? quantizePage(indices, token, *valuesOfPage, *parametersOfPage, head)
                    : quantizeRow(token, *valuesOfPage, *parametersOfPage, head);
      });
    };
    if (!tail)
      return quantizeHeads();
    Value isLast = equal(slot, constant(page - 1));
    return ifThen(isLast, quantizeHeads);
  });
}

/// Quantizes the features of one token.
LogicalResult CacheAppendQuantizedKernel::quantizeRow(const Token &token, Value valuesOfPage, Value parametersOfPage,
                                                      Value head) {
  LogicalResult copied = vectorLoop(constant(features), [&](Value f, int64_t width) -> LogicalResult {
    Element row = tensors.evaluate(root.getRows(), {Index{token.row}, Index{head}, Index{f, true}}, width);
    if (succeeded(row))
      memory.store(*row, group, f, b.getF32Type(), width);
    return row;
  });
  if (failed(copied))
    return failure();
  caches.quantizeGroup(group, features, bits,
                       memory.at(valuesOfPage, mul(token.slot, constant(rowBytes)), b.getI8Type()), parametersOfPage,
                       token.slot, add(token.slot, constant(page)));
  return success();
}

/// Quantizes each feature of the tokens of a page, whose last one is `token`.
LogicalResult CacheAppendQuantizedKernel::quantizePage(const TokenIndices &indices, const Token &token,
                                                       Value valuesOfPage, Value parametersOfPage, Value head) {
  Value base = sub(token.at.position, token.slot), firstRow = sub(token.row, token.slot);
  if (failed(caches.gatherPage(group, *tail, root.getRows(), indices, token.at.sequence, head, base, firstRow,
                               constant(page))))
    return failure();
  if (turn.cosines && failed(caches.turnPage(group, turn, base, /*back=*/true)))
    return failure();
  forLoop(constant(0), constant(features), constant(1), [&](Value f) {
    caches.quantizeGroup(memory.at(group, mul(f, constant(page)), b.getF32Type()), page, bits,
                         memory.at(valuesOfPage, mul(f, constant(rowBytes)), b.getI8Type()), parametersOfPage, f,
                         add(f, constant(features)));
  });
  return success();
}

} // namespace intarsia::cpu
