//===- CacheAppendKernel.cpp - Rows into caches: as they are, as codes, into tails ------------------------------===//
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

/// Stores rows of tokens into pages.
class CacheAppendKernel final : public CacheEmitter {
public:
  CacheAppendKernel(rt::KernelOp kernel, nn::CacheAppendOp root, const TileConfig &config)
      : CacheEmitter(kernel, config), root(root) {}

private:
  LogicalResult run() override;
  LogicalResult plan() override {
    planTokens(root.getRows());
    return success();
  }

  nn::CacheAppendOp root;
};

/// Stores rows of tokens into the tails of their sequences, where pages of codes are gathered.
class TailAppendKernel final : public CacheEmitter {
public:
  TailAppendKernel(rt::KernelOp kernel, nn::TailAppendOp root, const TileConfig &config)
      : CacheEmitter(kernel, config), root(root) {}

private:
  LogicalResult run() override;
  LogicalResult plan() override {
    planTokens(root.getRows());
    return success();
  }

  nn::TailAppendOp root;
};

/// Stores rows of tokens as codes: each row, or a page with its last token.
class CacheAppendQuantizedKernel final : public CacheEmitter {
public:
  CacheAppendQuantizedKernel(rt::KernelOp kernel, nn::CacheAppendQuantizedOp root, const TileConfig &config)
      : CacheEmitter(kernel, config), root(root) {}

private:
  LogicalResult run() override;
  LogicalResult plan() override {
    planTokens(root.getRows());
    return success();
  }
  void quantizeRow(Value token, Value slot, Value codesOfPage, Value parametersOfPage, Value head);
  void quantizePage(const TokenPlaces &places, Value token, Value position, Value sequence, Value slot,
                    Value codesOfPage, Value parametersOfPage, Value head);

  nn::CacheAppendQuantizedOp root;
  std::optional<Storage> codes, parameters, tail;
  int64_t page = 0, bits = 0, features = 0, rowBytes = 0;
  Value group; ///< the numbers that are quantized next, f32
};
} // namespace

Emitter makeCacheAppendKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<CacheAppendKernel>(kernel, cast<nn::CacheAppendOp>(root), config);
}
Emitter makeTailAppendKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<TailAppendKernel>(kernel, cast<nn::TailAppendOp>(root), config);
}
Emitter makeCacheAppendQuantizedKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<CacheAppendQuantizedKernel>(kernel, cast<nn::CacheAppendQuantizedOp>(root), config);
}

LogicalResult CacheAppendKernel::run() {
  std::optional<Storage> cache = view(root.getCache());
  if (!cache || yielded(0) != root.getResult() || kernel.getResultTypes().size() != 1)
    return unsupported(root, "the cache is computed in the same kernel, or is not its one result");
  auto rowsType = cast<RankedTensorType>(root.getRows().getType());
  auto cacheType = cast<RankedTensorType>(root.getCache().getType());
  Type element = cacheElement(cacheType.getElementType());
  int64_t heads = rowsType.getDimSize(1), features = rowsType.getDimSize(2);
  bool transposed = root.getTransposed();
  int64_t page = cacheType.getDimSize(transposed ? 3 : 2);
  forTokens(root.getRows(), [&](Value token) {
    Value position = integerAt(root.getPositions(), {Index{token}});
    Value sequence = integerAt(root.getSequences(), {Index{token}});
    Value slot = rem(position, constant(page)), place = div(position, constant(page));
    forLoop(constant(0), constant(heads), constant(1), [&](Value head) {
      Value to = pageOf(*cache, root.getPageTable(), sequence, place, head);
      if (transposed) {
        storeColumn(root.getRows(), token, head, to, page, slot, element, element);
        return;
      }
      vectorLoop(constant(features), [&](Value feature, int64_t width) {
        Value row = evaluate(root.getRows(), {Index{token}, Index{head}, Index{feature, true}}, width);
        storeAt(row, to, add(mul(slot, constant(features)), feature), element, width);
      });
    });
  });
  return success();
}

LogicalResult TailAppendKernel::run() {
  std::optional<Storage> tail = view(root.getTail());
  if (!tail || yielded(0) != root.getResult() || kernel.getResultTypes().size() != 1)
    return unsupported(root, "the tail is computed in the same kernel, or is not its one result");
  auto type = cast<RankedTensorType>(root.getTail().getType());
  int64_t heads = type.getDimSize(1), page = type.getDimSize(3);
  TokenPlaces places{root.getPositions(), root.getSequences(), size(sizes.of(root.getRows())[0])};
  forTokens(root.getRows(), [&](Value token) {
    Value position = integerAt(root.getPositions(), {Index{token}});
    Value sequence = integerAt(root.getSequences(), {Index{token}});
    Value slot = rem(position, constant(page)), left = sub(constant(page), slot);
    // Rows of a page that ends in this call are of no use any more.
    ifThen(
        isTokenAt(places, add(token, left), sequence, add(position, left)), [] {},
        [&] {
          forLoop(constant(0), constant(heads), constant(1), [&](Value head) {
            Value panel = offsetPointer(
                tail->pointer, add(mul(sequence, tail->strides[0]), mul(head, tail->strides[1])), tail->elementType);
            storeColumn(root.getRows(), token, head, panel, page, slot, tail->elementType, tail->elementType);
          });
        });
  });
  return success();
}

LogicalResult CacheAppendQuantizedKernel::run() {
  codes = view(root.getCodes());
  parameters = view(root.getParameters());
  if (root.getTail())
    tail = view(root.getTail());
  if (!codes || !parameters || (root.getTail() && !tail) || kernel.getResultTypes().size() != 2 ||
      yielded(0) != root.getNewCodes() || yielded(1) != root.getNewParameters())
    return unsupported(root, "a cache is computed in the same kernel, or codes and parameters are not its two results");
  nn::CodeLayout layout = nn::codeLayoutOf(root);
  page = layout.page;
  bits = layout.bits;
  if (root.getTail() && page != kPanelWidth)
    return unsupported(root, "its pages do not have " + Twine(kPanelWidth) + " slots");
  auto rowsType = cast<RankedTensorType>(root.getRows().getType());
  int64_t heads = rowsType.getDimSize(1);
  features = rowsType.getDimSize(2);
  rowBytes = cast<RankedTensorType>(root.getCodes().getType()).getDimSize(3);
  group = scratch((tail ? features * page : features) * 4);
  TokenPlaces places{root.getPositions(), root.getSequences(), size(sizes.of(root.getRows())[0])};
  forTokens(root.getRows(), [&](Value token) {
    Value position = integerAt(root.getPositions(), {Index{token}});
    Value sequence = integerAt(root.getSequences(), {Index{token}});
    Value slot = rem(position, constant(page)), place = div(position, constant(page));
    auto forHeads = [&](function_ref<void(Value head, Value codesOfPage, Value parametersOfPage)> body) {
      forLoop(constant(0), constant(heads), constant(1), [&](Value head) {
        Value codesOfPage = pageOf(*codes, root.getPageTable(), sequence, place, head);
        body(head, codesOfPage, pageOf(*parameters, root.getPageTable(), sequence, place, head));
      });
    };
    if (!tail) {
      forHeads([&](Value head, Value codesOfPage, Value parametersOfPage) {
        quantizeRow(token, slot, codesOfPage, parametersOfPage, head);
      });
      return;
    }
    ifThen(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, slot, constant(page - 1)), [&] {
      forHeads([&](Value head, Value codesOfPage, Value parametersOfPage) {
        quantizePage(places, token, position, sequence, slot, codesOfPage, parametersOfPage, head);
      });
    });
  });
  return success();
}

/// Quantizes the features of one token.
void CacheAppendQuantizedKernel::quantizeRow(Value token, Value slot, Value codesOfPage, Value parametersOfPage,
                                             Value head) {
  vectorLoop(constant(features), [&](Value f, int64_t width) {
    Value row = evaluate(root.getRows(), {Index{token}, Index{head}, Index{f, true}}, width);
    storeAt(row, group, f, b.getF32Type(), width);
  });
  quantizeGroup(group, features, bits, offsetPointer(codesOfPage, mul(slot, constant(rowBytes)), b.getI8Type()),
                parametersOfPage, slot, add(slot, constant(page)));
}

/// Quantizes each feature of the tokens of a page, whose last one is `token`.
void CacheAppendQuantizedKernel::quantizePage(const TokenPlaces &places, Value token, Value position, Value sequence,
                                              Value slot, Value codesOfPage, Value parametersOfPage, Value head) {
  gatherPage(group, *tail, root.getRows(), places, sequence, head, sub(position, slot), sub(token, slot),
             constant(page));
  forLoop(constant(0), constant(features), constant(1), [&](Value f) {
    quantizeGroup(offsetPointer(group, mul(f, constant(page)), b.getF32Type()), page, bits,
                  offsetPointer(codesOfPage, mul(f, constant(rowBytes)), b.getI8Type()), parametersOfPage, f,
                  add(f, constant(features)));
  });
}

} // namespace intarsia::cpu
