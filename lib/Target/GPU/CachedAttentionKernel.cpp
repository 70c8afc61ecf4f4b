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
  std::optional<std::pair<int64_t, int64_t>> matrixKindAndParts();
  bool multipliesByWarpgroups(int64_t kind);
  LogicalResult pushCall();
  LogicalResult pushCache(OperandRange operands, nn::CacheFormatAttr format);

  StringRef microkernel() const {
    return byWarpgroups ? "itx_cached_attention_warpgroups"
           : matrices   ? "itx_cached_attention_matrix_tiles"
                        : "itx_cached_attention_tiles";
  }

  nn::CachedAttentionOp root;
  int64_t keyHeads, group;
  AttentionShape shape;
  int64_t decodeBlocks = blocksOfMultiprocessor * architecture.multiprocessors;
  // Of many tokens.
  std::optional<std::pair<int64_t, int64_t>> matrices; ///< what matrix instructions multiply, if they do
  bool byWarpgroups = false, areConverted = false;
  int64_t rows = 0, keys = 0, threads = 0, bytes = 0; ///< of a block
};
} // namespace

Emitter makeCachedAttentionKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture) {
  return std::make_unique<CachedAttentionKernel>(kernel, cast<nn::CachedAttentionOp>(root), architecture);
}

bool hasCachedAttentionKernel(rt::KernelOp kernel, Operation *op, const Architecture &architecture) {
  auto root = cast<nn::CachedAttentionOp>(op);
  auto query = cast<RankedTensorType>(root.getQuery().getType());
  AttentionShape shape(query.getDimSize(2), cast<RankedTensorType>(root.getResult().getType()).getDimSize(2));
  auto isOpen = [](nn::CacheFormatAttr format) { return format.isOpen(); };
  if (root.getFrequencies() || isOpen(root.getKeyFormat()) || isOpen(root.getValueFormat()) || query.isDynamicDim(1) ||
      !shape.fits(architecture.warpSize))
    return false;
  for (Value tensor :
       llvm::concat<Value>(SmallVector<Value>(root.getKeys()), SmallVector<Value>(root.getValues()),
                           SmallVector<Value>{root.getPositions(), root.getSequences(), root.getPageTable()}))
    if (!MicrokernelEmitter::isWhole(tensor))
      return false;
  for (Value tensor : {root.getQuery(), root.getRows()})
    if (tensor && !MicrokernelEmitter::isReadable(tensor))
      return false;
  return (!root.getSinks() || MicrokernelEmitter::isWhole(root.getSinks())) &&
         MicrokernelEmitter::yieldsOnly(kernel, root);
}

void CachedAttentionKernel::chooseShape(KernelShape &stated) {
  matrices = matrixKindAndParts();
  if (matrices) {
    auto [kind, parts] = *matrices;
    auto isMultiplied = [&](Type element) { return kind == ElementKind::F16 ? element.isF16() : element.isBF16(); };
    areConverted = !isMultiplied(root.getKeyFormat().getElement()) || !isMultiplied(root.getValueFormat().getElement());
    byWarpgroups = multipliesByWarpgroups(kind);
    rows = byWarpgroups ? shape.warpgroupRows() : shape.matrixRows(architecture, parts);
    keys = byWarpgroups ? warpgroupKeys : shape.matrixKeys(architecture, parts, areConverted);
    threads = (byWarpgroups ? warpsOfWarpgroups : warpsOfMatrixTile) * architecture.warpSize;
    bytes = byWarpgroups ? shape.sharedBytesOfWarpgroups(parts)
                         : shape.sharedBytesOfMatrices(architecture, parts, areConverted);
  } else {
    rows = shape.tileRows();
    keys = shape.tileKeys();
    threads = threadsOfTile;
    bytes = shape.sharedBytesOfTile();
  }
  stated.state("kernel", "cached attention");
  stated.part("decode", [&](KernelShape &part) {
    part.state("rows", shape.decodeRows(group, architecture.warpSize));
    part.state("lanes", shape.lanesOfTeam(architecture.warpSize));
    part.choose("blocks", decodeBlocks, {1, 1 << 16});
    part.state("threads", threadsOfDecode);
  });
  stated.part("tiles", [&](KernelShape &part) {
    part.state("microkernel", microkernel());
    part.state("queries", rows);
    part.state("block_keys", keys);
    part.state("threads", threads);
    part.state("shared_bytes", bytes);
  });
}

LogicalResult CachedAttentionKernel::run() {
  int64_t rowsOfDecode = shape.decodeRows(group, architecture.warpSize);
  AffineExpr partials = function.reserve(number(decodeBlocks * rowsOfDecode * (shape.valueFeatures + 2) * 4));
  if (failed(prepare(root.getQuery())) || (root.getRows() && failed(prepare(root.getRows()))))
    return failure();
  return failed(emitDecode(partials)) ? failure() : emitTiles();
}

/// Returns the kind of elements that matrix instructions multiply, and how many summands of it a query has; nothing if
/// keys and values are not exact in 16 bits, or queries no sum of two, and neither may be rounded.
std::optional<std::pair<int64_t, int64_t>> CachedAttentionKernel::matrixKindAndParts() {
  Type query = getElementTypeOrSelf(root.getQuery());
  Type keys = root.getKeyFormat().getElement(), values = root.getValueFormat().getElement();
  Type precision = root.getPrecision().value_or(Type());
  auto isF16 = [](Type element) { return element.isF16() || isa<Float8E4M3FNType>(element); };
  if (!shape.fitsMatrices())
    return std::nullopt;
  // Rows of queries are scaled, so that f16 is nearer to them than any type that they may be rounded to.
  if (isF16(keys) && isF16(values))
    return std::pair<int64_t, int64_t>(ElementKind::F16, query.isF16() || precision ? 1 : 2);
  if (keys.isBF16() && values.isBF16() && query.isBF16())
    return std::pair<int64_t, int64_t>(ElementKind::BF16, 1);
  if (precision && (precision.isF16() || precision.isBF16()))
    return std::pair<int64_t, int64_t>(kindOf(precision), 1);
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
  int64_t headsOfTile = std::min(group, rows);
  AffineExpr tiles = function.sizes.of(root.getQuery())[0].ceilDiv(rows / headsOfTile);
  function.beginLaunch(threads, tiles * keyHeads * llvm::divideCeil(group, headsOfTile));
  Value shared = function.sharedMemory(number(bytes));
  if (failed(pushCall()))
    return failure();
  push(headsOfTile);
  if (!matrices) {
    push(rows);
    push(keys);
  } else {
    auto [kind, parts] = *matrices;
    push(byWarpgroups ? warpsOfWarpgroups : shape.rowBlocks(architecture, parts));
    push(keys);
    push(kind);
    push(parts);
    if (!byWarpgroups)
      push(shape.keepsQueries(architecture, parts, areConverted));
  }
  push(shared);
  call(microkernel(), /*leastBlocks=*/byWarpgroups ? 1 : 2);
  function.endLaunch();
  return success();
}

} // namespace intarsia::gpu
