//===- CachedAttentionKernel.cpp - Attention over paged caches ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/AttentionShapes.h"
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/MicrokernelEmitter.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// Blocks of a decode for each multiprocessor, of four warps each: 16 warps hide the latency of memory, and registers
/// of a block with the most rows suffice for two.
constexpr int64_t blocksOfMultiprocessor = 4, threadsOfDecode = 128;
/// The most blocks of a decode that IR may state: each has partial sums in scratch.
constexpr int64_t mostDecodeBlocks = 1 << 16;

/// Few tokens are split over the GPU by their keys, and what the parts give is added up by a second launch; many are
/// computed in tiles, by matrix instructions where that is as exact as f32 or rounding is permitted. Which of both a
/// call is, blocks see from its sizes: the other launches end at once.
class CachedAttentionKernel final : public MicrokernelEmitter {
public:
  CachedAttentionKernel(rt::KernelOp kernel, nn::CachedAttentionOp root, const Architecture &architecture)
      : MicrokernelEmitter(kernel, architecture), root(root),
        keyHeads(cast<RankedTensorType>(root.getKeys()[0].getType()).getDimSize(1)),
        group(cast<RankedTensorType>(root.getQuery().getType()).getDimSize(1) / keyHeads),
        shape(cast<RankedTensorType>(root.getQuery().getType()).getDimSize(2),
              cast<RankedTensorType>(root.getResult().getType()).getDimSize(2)) {}

private:
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  LogicalResult emitDecode(AffineExpr partials);
  LogicalResult emitTiles();
  std::optional<AttentionProducts> productsOfMatrices();
  bool multipliesByWarpgroups(int64_t kind);
  LogicalResult pushCall();
  LogicalResult pushCache(OperandRange operands, nn::CacheFormatAttr format);

  nn::CachedAttentionOp root;
  int64_t keyHeads, group;
  AttentionShape shape;
  int64_t decodeBlocks = blocksOfMultiprocessor * architecture.multiprocessors;
  AttentionTile tile{}; ///< of many tokens
  StringRef microkernel;
};
} // namespace

Emitter makeCachedAttentionKernel(rt::KernelOp kernel, Operation *op, const Architecture &architecture) {
  auto root = cast<nn::CachedAttentionOp>(op);
  auto query = cast<RankedTensorType>(root.getQuery().getType());
  AttentionShape shape(query.getDimSize(2), cast<RankedTensorType>(root.getResult().getType()).getDimSize(2));
  auto isOpen = [](nn::CacheFormatAttr format) { return format.isOpen(); };
  if (root.getFrequencies() || isOpen(root.getKeyFormat()) || isOpen(root.getValueFormat()) || query.isDynamicDim(1) ||
      !shape.fits(architecture.warpSize))
    return nullptr;
  for (Value tensor :
       llvm::concat<Value>(SmallVector<Value>(root.getKeys()), SmallVector<Value>(root.getValues()),
                           SmallVector<Value>{root.getPositions(), root.getSequences(), root.getPageTable()}))
    if (!MicrokernelEmitter::isWhole(tensor))
      return nullptr;
  for (Value tensor : {root.getQuery(), root.getRows()})
    if (tensor && !MicrokernelEmitter::isReadable(tensor))
      return nullptr;
  bool isTaken = (!root.getSinks() || MicrokernelEmitter::isWhole(root.getSinks())) &&
                 MicrokernelEmitter::yieldsOnly(kernel, root);
  return isTaken ? std::make_unique<CachedAttentionKernel>(kernel, root, architecture) : nullptr;
}

void CachedAttentionKernel::chooseShape(KernelShape &stated) {
  std::optional<AttentionProducts> products = productsOfMatrices();
  tile = shape.tileFor(architecture, products);
  microkernel = !products                ? "itx_cached_attention_tiles"
                : products->byWarpgroups ? "itx_cached_attention_warpgroups"
                                         : "itx_cached_attention_matrix_tiles";
  stated.state("kernel", "cached attention");
  stated.part("decode", [&](KernelShape &part) {
    part.state("rows", shape.decodeRows(group, architecture.warpSize));
    part.state("lanes", shape.lanesOfTeam(architecture.warpSize));
    part.choose("blocks", decodeBlocks, {1, mostDecodeBlocks});
    part.state("threads", threadsOfDecode);
  });
  stated.part("tiles", [&](KernelShape &part) { stateTile(part, microkernel, tile); });
}

LogicalResult CachedAttentionKernel::run() {
  int64_t rowsOfDecode = shape.decodeRows(group, architecture.warpSize);
  AffineExpr partials = function.reserve(number(decodeBlocks * rowsOfDecode * (shape.valueFeatures + 2) * 4));
  if (failed(prepare(root.getQuery())) || (root.getRows() && failed(prepare(root.getRows()))))
    return failure();
  return failed(emitDecode(partials)) ? failure() : emitTiles();
}

/// Returns what matrix instructions multiply; nothing if keys and values are not exact in 16 bits, or queries no sum of
/// two, and neither may be rounded.
std::optional<AttentionProducts> CachedAttentionKernel::productsOfMatrices() {
  Type query = getElementTypeOrSelf(root.getQuery());
  Type keys = root.getKeyFormat().getElement(), values = root.getValueFormat().getElement();
  Type precision = root.getPrecision().value_or(Type());
  auto isF16 = [](Type element) { return element.isF16() || isa<Float8E4M3FNType>(element); };
  auto ofKind = [&](int64_t kind, int64_t parts) {
    auto isMultiplied = [&](Type element) { return kind == ElementKind::F16 ? element.isF16() : element.isBF16(); };
    return AttentionProducts{kind, parts, !isMultiplied(keys) || !isMultiplied(values), multipliesByWarpgroups(kind)};
  };
  if (!shape.fitsMatrices())
    return std::nullopt;
  // Rows of queries are scaled, so that f16 is nearer to them than any type that they may be rounded to.
  if (isF16(keys) && isF16(values))
    return ofKind(ElementKind::F16, query.isF16() || precision ? 1 : 2);
  if (keys.isBF16() && values.isBF16() && query.isBF16())
    return ofKind(ElementKind::BF16, 1);
  if (precision && (precision.isF16() || precision.isBF16()))
    return ofKind(kindOf(precision), 1);
  return std::nullopt;
}

/// Returns true if instructions of four warps multiply. Only keys and values that lie as they multiply them are copied
/// asynchronously: registers that others would pass through are those of queries and sums.
bool CachedAttentionKernel::multipliesByWarpgroups(int64_t kind) {
  auto isCopied = [&](nn::CacheFormatAttr format) {
    return !format.isQuantized() && !format.getTransposed() && kindOf(format.getElement()) == kind;
  };
  return architecture.matrixFamily == MatrixFamily::Wgmma && isCopied(root.getKeyFormat()) &&
         isCopied(root.getValueFormat());
}

LogicalResult CachedAttentionKernel::pushCache(OperandRange operands, nn::CacheFormatAttr format) {
  std::optional<Storage> elements = tensors.view(operands[0]);
  if (!elements)
    return function.refuse(root, "a cache that is computed in the same kernel");
  push(elements->pointer);
  if (!format.isQuantized()) {
    pushNull();
    push(kindOf(format.getElement()));
    return success();
  }
  std::optional<Storage> parameters = tensors.view(operands[1]);
  if (!parameters)
    return function.refuse(root, "a cache that is computed in the same kernel");
  push(parameters->pointer);
  push(format.getBits() == 4 ? ElementKind::UI4 : ElementKind::UI8);
  return success();
}

/// Pushes the arguments that all microkernels of cached attention begin with.
LogicalResult CachedAttentionKernel::pushCall() {
  if (failed(pushStrided(root.getQuery())) || failed(pushCache(root.getKeys(), root.getKeyFormat())))
    return failure();
  push(root.getKeyFormat().getTransposed());
  push(keyHeads);
  push(root.getKeyFormat().getPage());
  push(shape.keyFeatures);
  if (failed(pushCache(root.getValues(), root.getValueFormat())))
    return failure();
  push(root.getValueFormat().getTransposed());
  push(shape.valueFeatures);
  if (root.getRows()) {
    push(1);
    if (failed(pushPointer(root.getKeys().back())) || failed(pushStrided(root.getRows())))
      return failure();
  } else {
    push(int64_t(0));
    for (int pointer = 0; pointer != 2; ++pointer) {
      pushNull();
      push(ElementKind::F32);
    }
    for (int stride = 0; stride != 3; ++stride)
      push(int64_t(0));
  }
  for (Value tensor : {root.getPositions(), root.getSequences(), root.getPageTable()}) {
    std::optional<Storage> indices = tensors.view(tensor);
    if (!indices)
      return function.refuse(root, "an index that is computed in the same kernel");
    push(indices->pointer);
  }
  push(kindOf(cast<RankedTensorType>(root.getPositions().getType()).getElementType()));
  push(function.sizeOf(root.getPageTable(), 1));
  push(root.getSinks() != nullptr);
  if (!root.getSinks()) {
    pushNull();
    push(ElementKind::F32);
  } else if (failed(pushPointer(root.getSinks()))) {
    return failure();
  }
  pushOutput();
  push(function.sizeOf(root.getQuery(), 0));
  push(keyHeads * group);
  push(function.sizeOf(root.getPageTable(), 0));
  push(root.getWindow().value_or(0));
  pushFloat(root.getScale().convertToDouble());
  pushFloat(root.getSoftCap() ? root.getSoftCap()->convertToDouble() : 0.0);
  return success();
}

LogicalResult CachedAttentionKernel::emitDecode(AffineExpr partials) {
  int64_t rows = shape.decodeRows(group, architecture.warpSize), warps = threadsOfDecode / architecture.warpSize;
  AffineExpr grid = number(decodeBlocks);
  function.beginLaunch(threadsOfDecode, grid);
  Value shared = function.sharedMemory(number(warps * rows * (shape.valueFeatures + 2) * 4));
  if (failed(pushCall()))
    return failure();
  push(rows);
  push(shape.lanesOfTeam(architecture.warpSize));
  push(shape.chunks(architecture.warpSize));
  push(warps);
  push(decodeBlocks);
  push(shared);
  pushScratch(partials);
  call("itx_cached_attention_decode");
  function.endLaunch();

  function.beginLaunch(threadsOfDecode, grid);
  if (failed(pushCall()))
    return failure();
  push(rows);
  push(warps);
  push(decodeBlocks);
  pushScratch(partials);
  call("itx_cached_attention_combine");
  function.endLaunch();
  return success();
}

LogicalResult CachedAttentionKernel::emitTiles() {
  int64_t headsOfTile = std::min(group, tile.rows);
  AffineExpr tiles = function.sizes.of(root.getQuery())[0].ceilDiv(tile.rows / headsOfTile);
  function.beginLaunch(tile.threads, tiles * keyHeads * llvm::divideCeil(group, headsOfTile));
  Value shared = function.sharedMemory(number(tile.sharedBytes));
  if (failed(pushCall()))
    return failure();
  push(headsOfTile);
  callTile(microkernel, tile, shared);
  function.endLaunch();
  return success();
}

} // namespace intarsia::gpu
