//===- MatrixEmitter.cpp - Tiles of matrix multiplications by matrix instructions -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/MatrixEmitter.h"

#include "lib/Target/GPU/TensorCopies.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

struct MatrixEmitter::Copy {
  const Factor *factor;
  int64_t chunks;               ///< of a row of the tile
  Value shared;                 ///< where the tile of stage 0 begins
  Value chunk;                  ///< that this thread copies of its rows
  Value isActive;               ///< null if all threads copy
  SmallVector<Value> rows;      ///< of the matrix, that this thread copies of a tile
  SmallVector<Value> addresses; ///< of the thread's chunks in the first tile, if they lie in memory
  SmallVector<Value> targets;   ///< byte offsets of the thread's chunks in the tile
};

int64_t MatrixEmitter::elementBits() const {
  switch (instruction.element) {
  case MatrixElement::TF32:
  case MatrixElement::F32:
    return 32;
  case MatrixElement::F16:
  case MatrixElement::BF16:
    return 16;
  case MatrixElement::I8:
  case MatrixElement::E4M3:
  case MatrixElement::E4M3FNUZ:
    return 8;
  case MatrixElement::MXFP4:
  case MatrixElement::NVFP4:
    return 4;
  }
  llvm_unreachable("no other elements");
}

Value MatrixEmitter::offsetElements(Value pointer, Value count) {
  return memory.at(pointer, multipliesE2M1(instruction) ? div(count, constant(2)) : count, elementType());
}

Type MatrixEmitter::elementType() {
  switch (instruction.element) {
  case MatrixElement::F16:
    return b.getF16Type();
  case MatrixElement::BF16:
    return b.getBF16Type();
  case MatrixElement::TF32:
  case MatrixElement::F32:
    return b.getF32Type();
  case MatrixElement::I8:
  case MatrixElement::E4M3:
  case MatrixElement::E4M3FNUZ:
  case MatrixElement::MXFP4:
  case MatrixElement::NVFP4:
    return b.getI8Type();
  }
  llvm_unreachable("no other elements");
}

std::function<Value(Value row)> MatrixEmitter::addressOfRows(Value pointer, int64_t depth) {
  // Copies that do not pass through registers are those of cp.async, a chunk each.
  if (architecture.vendor != Vendor::Nvidia || depth % chunkElements() != 0)
    return nullptr;
  return [this, pointer, depth](Value row) { return memory.at(pointer, mul(row, constant(depth)), elementType()); };
}

void MatrixEmitter::chooseTiles(KernelShape &shape, MatrixTiles &tiles, int64_t bytesBeside) {
  shape.state("block", b.getI64ArrayAttr({tiles.rows, tiles.columns}));
  shape.state("warp", b.getI64ArrayAttr({tiles.warpRows, tiles.warpColumns}));
  shape.state("depth", tiles.chunks * chunkElements());
  // Four warps read a stage until the next one is multiplied.
  int64_t leastStages = isWarpgroup() ? 3 : 2, mostLoads = 8, bytesOfStage = sharedBytesOf(tiles) / tiles.stages;
  shape.choose("stages", tiles.stages, {leastStages, (architecture.sharedBytes - bytesBeside) / bytesOfStage});
  shape.choose("loads_ahead", tiles.loadsAhead, {1, mostLoads});
}

int64_t MatrixEmitter::sharedBytesOf(const MatrixTiles &tiles) const {
  return tiles.stages * ((tiles.rows + tiles.columns) * tiles.chunks * chunkBytes + tiles.scaleBytes);
}

Value MatrixEmitter::callIntrinsic(StringRef name, Type result, ValueRange arguments) {
  auto call = result ? make<LLVM::CallIntrinsicOp>(result, b.getStringAttr(name), arguments)
                     : make<LLVM::CallIntrinsicOp>(b.getStringAttr(name), arguments);
  return result ? call.getResult(0) : Value();
}

Value MatrixEmitter::swizzled(Value row, Value chunk, int64_t chunks) {
  // Eight rows have it in different banks. Rows of 128 bytes begin in the same bank; of two rows of 64 bytes the second
  // begins in the middle bank.
  Value key = chunks >= 8 ? rem(row, constant(8)) : rem(div(row, constant(8 / chunks)), constant(chunks));
  return make<arith::XOrIOp>(chunk, key);
}

//===-- From global to shared memory ----------------------------------------------------------------------------===//

MatrixEmitter::Copy MatrixEmitter::beginCopy(const MatrixTiles &tiles, const Factor &factor, int64_t rows,
                                             Value firstRow, Value shared) {
  Copy copy{&factor, tiles.chunks, shared, {}, {}, {}, {}, {}};
  int64_t threads = tiles.warps() * architecture.warpSize, all = rows * tiles.chunks;
  assert((threads % tiles.chunks == 0) && (all % threads == 0 || all < threads) && "threads copy whole rows");
  Value rowOfThread = div(function.thread, constant(tiles.chunks));
  copy.chunk = rem(function.thread, constant(tiles.chunks));
  if (all < threads)
    copy.isActive = less(function.thread, constant(all));
  for (int64_t part = 0; part * threads < all; ++part) {
    Value row = add(rowOfThread, constant(part * (threads / tiles.chunks)));
    Value position = swizzled(row, copy.chunk, tiles.chunks);
    copy.targets.push_back(mul(add(mul(row, constant(tiles.chunks)), position), constant(chunkBytes)));
    Value ofMatrix = add(firstRow, row);
    // Sums of rows behind the last one are not stored: any will do for them.
    if (factor.isRagged)
      ofMatrix = min(ofMatrix, sub(factor.rows, constant(1)));
    if (factor.pick)
      ofMatrix = factor.pick(ofMatrix);
    copy.rows.push_back(ofMatrix);
    if (factor.address)
      copy.addresses.push_back(offsetElements(factor.address(ofMatrix), mul(copy.chunk, constant(chunkElements()))));
  }
  return copy;
}

void MatrixEmitter::copyAsync(const Copy &copy, Value k, Value stage, Value depth) {
  // Chunks behind the end of a row are zeros.
  auto copyChunks = [&] {
    for (auto [address, target] : llvm::zip_equal(copy.addresses, copy.targets)) {
      Value to = memory.at(copy.shared, add(stage, target), b.getI8Type());
      Value from = offsetElements(address, k);
      if (isMultipleOf(depth, copy.chunks * chunkElements())) {
        callIntrinsic("llvm.nvvm.cp.async.cg.shared.global.16", nullptr, {to, from});
        continue;
      }
      Value isInside = less(add(k, mul(copy.chunk, constant(chunkElements()))), depth);
      Type i32 = b.getI32Type();
      auto number = [&](int64_t value) -> Value { return make<arith::ConstantOp>(b.getIntegerAttr(i32, value)); };
      Value bytes = select(isInside, number(chunkBytes), number(0));
      callIntrinsic("llvm.nvvm.cp.async.cg.shared.global.16.s", nullptr, {to, from, bytes});
    }
  };
  if (copy.isActive)
    ifThen(copy.isActive, copyChunks);
  else
    copyChunks();
}

Element MatrixEmitter::loadChunk(const Factor &factor, Value row, Value first, Value depth) {
  int64_t width = chunkElements();
  Type f32 = b.getF32Type(), wide = vectorOf(f32, width);
  auto oneByOne = [&]() -> Element {
    SmallVector<Value> each;
    for (int64_t i = 0; i != width; ++i) {
      Value at = add(first, constant(i));
      Element one = tensors.choose(
          less(at, depth), f32, [&] { return factor.elements(row, at, 1); },
          [&] { return Element(floatConstant(0.0, f32, 1)); });
      if (failed(one))
        return failure();
      each.push_back(*one);
    }
    return make<vector::FromElementsOp>(cast<VectorType>(wide), each).getResult();
  };
  auto whole = [&] { return factor.elements(row, first, width); };
  std::optional<int64_t> known = getConstantIntValue(depth);
  if (!known)
    return tensors.choose(less(add(first, constant(width - 1)), depth), wide, whole, oneByOne);
  if (*known % width != 0)
    return oneByOne();
  return tensors.choose(less(first, depth), wide, whole, [&] { return Element(floatConstant(0.0, f32, width)); });
}

FailureOr<SmallVector<Value>> MatrixEmitter::loadTile(const Copy &copy, Value k, Value depth) {
  int64_t width = chunkElements();
  Type stored = vectorOf(elementType(), multipliesE2M1(instruction) ? chunkBytes : width);
  // Code generators of hosts, for the emulator, call functions even for carrying bf16 around a loop.
  Type carried = elementType().isBF16() ? vectorOf(b.getI16Type(), width) : stored;
  SmallVector<Value> chunks;
  Value first = add(k, mul(copy.chunk, constant(width)));
  bool areTilesWhole = isMultipleOf(depth, copy.chunks * width);
  for (Value address : copy.addresses) {
    auto load = [&]() -> Element {
      Value from = offsetElements(address, k);
      return make<LLVM::LoadOp>(carried, from, chunkBytes).getResult();
    };
    auto none = [&]() -> Element { return make<arith::ConstantOp>(carried, b.getZeroAttr(carried)).getResult(); };
    chunks.push_back(*(areTilesWhole ? load() : tensors.choose(less(first, depth), carried, load, none)));
  }
  if (!chunks.empty())
    return chunks;
  for (Value row : copy.rows) {
    Element elements =
        areTilesWhole ? copy.factor->elements(row, first, width) : loadChunk(*copy.factor, row, first, depth);
    if (failed(elements))
      return failure();
    Value chunk = *elements;
    if (stored != chunk.getType())
      chunk = make<arith::TruncFOp>(stored, chunk);
    chunks.push_back(carried == stored ? chunk : make<arith::BitcastOp>(carried, chunk).getResult());
  }
  return chunks;
}

void MatrixEmitter::storeTile(const Copy &copy, ArrayRef<Value> chunks, Value stage) {
  auto storeAll = [&] {
    for (auto [chunk, target] : llvm::zip_equal(chunks, copy.targets))
      make<LLVM::StoreOp>(chunk, memory.at(copy.shared, add(stage, target), b.getI8Type()), chunkBytes);
  };
  if (copy.isActive)
    ifThen(copy.isActive, storeAll);
  else
    storeAll();
}

//===-- Multiplication ------------------------------------------------------------------------------------------===//

bool MatrixEmitter::hasScalarSums() const {
  MatrixFamily family = instruction.family;
  return family == MatrixFamily::Mma || family == MatrixFamily::Wgmma || family == MatrixFamily::MultiplyAdds;
}

int64_t MatrixEmitter::valuesOfTile() const { return hasScalarSums() ? 8 : 1; }

Value MatrixEmitter::zeroSums() {
  int64_t ofLane = fragmentRows * fragmentRows / architecture.warpSize;
  return floatConstant(0.0, b.getF32Type(), hasScalarSums() ? 1 : ofLane);
}

SmallVector<Value> MatrixEmitter::loadRowsOfLane(const MatrixTiles &tiles, Value tile, int64_t row, int64_t step,
                                                 bool isRight) {
  // Sums lie as those of Mma: storeFragment() says where.
  Value first = isRight ? mul(rem(function.lane, constant(4)), constant(2)) : div(function.lane, constant(4));
  auto addressOf = [&](Value ofFragment) {
    Value position = add(mul(ofFragment, constant(tiles.chunks)), swizzled(ofFragment, constant(step), tiles.chunks));
    return memory.at(tile, mul(position, constant(chunkBytes)), b.getI8Type());
  };
  // Of four chunks or fewer the other rows are swizzled like the first one, because that repeats after eight rows, and
  // an even row and the next one have the same: ptxas needs one address for all. LLVM does not know it, and takes fewer
  // registers for AMD's GPUs so (version 22: 179 instead of 204 for small tiles on gfx1100).
  bool haveOneAddress = tiles.chunks <= 4 && architecture.vendor == Vendor::Nvidia;
  SmallVector<Value> rows;
  static constexpr int64_t rowsOfLeft[] = {0, 8}, rowsOfRight[] = {0, 1, 8, 9};
  for (int64_t offset : isRight ? ArrayRef(rowsOfRight) : ArrayRef(rowsOfLeft)) {
    Value address = addressOf(haveOneAddress ? first : add(first, constant(offset)));
    int64_t behind = haveOneAddress ? row + offset : row;
    address = memory.at(address, constant(behind * tiles.chunks * chunkBytes), b.getI8Type());
    rows.push_back(make<LLVM::LoadOp>(vectorOf(elementType(), chunkElements()), address, chunkBytes));
  }
  return rows;
}

SmallVector<Value> MatrixEmitter::loadFragment(const MatrixTiles &tiles, Value tile, int64_t row, int64_t step,
                                               bool isRight) {
  if (instruction.family == MatrixFamily::MultiplyAdds)
    return loadRowsOfLane(tiles, tile, row, step, isRight);
  Value laneRow = rem(function.lane, constant(fragmentRows)), laneChunk = div(function.lane, constant(fragmentRows));
  if (instruction.family == MatrixFamily::Mma && isRight) {
    // Both chunks of eight rows come one after the other: they are the registers of one instruction.
    laneRow = add(rem(function.lane, constant(8)), mul(div(function.lane, constant(16)), constant(8)));
    laneChunk = rem(div(function.lane, constant(8)), constant(2));
  }
  int64_t rowBytes = tiles.chunks * chunkBytes;
  auto address = [&](Value chunk) {
    Value position = add(mul(laneRow, constant(tiles.chunks)), swizzled(laneRow, chunk, tiles.chunks));
    Value ofLane = memory.at(tile, mul(position, constant(chunkBytes)), b.getI8Type());
    return memory.at(ofLane, constant(row * rowBytes), b.getI8Type());
  };
  int64_t firstChunk = step * chunksOfStep();
  // Instructions of AMD's before CDNA 4 take bf16 as integers.
  bool areIntegers =
      instruction.element == MatrixElement::BF16 && !(instruction.family == MatrixFamily::Mfma && instruction.k == 32);
  Type vector = vectorOf(areIntegers ? b.getI16Type() : elementType(), chunkElements());
  // Floats of 8 bits are words of registers: of an instruction of CDNA one of 64 bits, of RDNA 4 two of 32. Those of 4
  // bits are four of 32.
  if (multipliesE2M1(instruction))
    vector = vectorOf(b.getI32Type(), chunkBytes / 4);
  if (multipliesFloats8(instruction))
    vector = instruction.family == MatrixFamily::Mfma ? vectorOf(b.getI64Type(), chunkBytes / 8)
                                                      : vectorOf(b.getI32Type(), chunkBytes / 4);
  auto load = [&](Value chunk) -> Value { return make<LLVM::LoadOp>(vector, address(chunk), chunkBytes); };
  switch (instruction.family) {
  case MatrixFamily::Mma: {
    SmallVector<Type> words(4, b.getI32Type());
    Type result = LLVM::LLVMStructType::getLiteral(b.getContext(), words);
    Value loaded = callIntrinsic("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3", result,
                                 address(add(laneChunk, constant(firstChunk))));
    SmallVector<Value> registers;
    for (int64_t i = 0; i != 4; ++i) {
      Value word = make<LLVM::ExtractValueOp>(loaded, i);
      if (instruction.element == MatrixElement::F16)
        word = make<LLVM::BitcastOp>(vectorOf(b.getF16Type(), 2), word);
      // The instruction itself would cut off what a mantissa has too much.
      if (instruction.element == MatrixElement::TF32)
        word = callIntrinsic("llvm.nvvm.f2tf32.rna", b.getI32Type(),
                             make<LLVM::BitcastOp>(b.getF32Type(), word).getResult());
      registers.push_back(word);
    }
    return registers;
  }
  case MatrixFamily::WmmaRdna3: {
    // Both halves of the warp have all elements of a row.
    SmallVector<int32_t> all(llvm::to_vector(llvm::seq<int32_t>(0, 2 * chunkElements())));
    Value low = load(constant(firstChunk)), high = load(constant(firstChunk + 1));
    return {make<LLVM::ShuffleVectorOp>(low, high, all)};
  }
  case MatrixFamily::Wgmma:
  case MatrixFamily::MultiplyAdds:
    break;
  case MatrixFamily::Mfma:
  case MatrixFamily::WmmaRdna4:
    // Lanes with the same row have one chunk each. The order along the depth is not that of the manual, but that of
    // both factors: the sum is the same.
    return {load(add(laneChunk, constant(firstChunk)))};
  }
  llvm_unreachable("no other families load fragments");
}

void MatrixEmitter::multiplyHalves(StringRef name, ArrayRef<Value> left, ArrayRef<Value> right,
                                   MutableArrayRef<Value> sums,
                                   function_ref<void(int64_t half, SmallVectorImpl<Value> &)> rest) {
  Type result = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, sums[0].getType()));
  for (int64_t half = 0; half != 2; ++half) {
    SmallVector<Value> arguments(left);
    llvm::append_range(arguments, right.slice(half * right.size() / 2, right.size() / 2));
    MutableArrayRef<Value> four = sums.slice(4 * half, 4);
    llvm::append_range(arguments, four);
    if (rest)
      rest(half, arguments);
    Value product = callIntrinsic(name, result, arguments);
    for (auto [i, sum] : llvm::enumerate(four))
      sum = make<LLVM::ExtractValueOp>(product, int64_t(i));
  }
}

void MatrixEmitter::multiplyFragments(ArrayRef<Value> left, ArrayRef<Value> right, MutableArrayRef<Value> sums) {
  if (instruction.family == MatrixFamily::MultiplyAdds) {
    for (int64_t k = 0; k != chunkElements(); ++k)
      for (auto [i, sum] : llvm::enumerate(sums)) {
        Value a = make<vector::ExtractOp>(left[i % 4 / 2], k);
        sum = make<math::FmaOp>(a, make<vector::ExtractOp>(right[i / 4 * 2 + i % 2], k), sum);
      }
    return;
  }
  std::string name = (instruction.intrinsic + instruction.overload).str();
  if (instruction.family == MatrixFamily::Mma)
    return multiplyHalves(name, left, right, sums);
  bool isMfma = instruction.family == MatrixFamily::Mfma;
  // A lane's chunk may be the elements of several instructions.
  int64_t ofLane = cast<VectorType>(left[0].getType()).getDimSize(0);
  int64_t ofInstruction = isMfma ? instruction.k * instruction.m / architecture.warpSize : ofLane;
  if (multipliesFloats8(instruction))
    ofInstruction = isMfma ? 1 : 2;
  auto part = [&](Value elements, int64_t first) -> Value {
    if (ofInstruction == ofLane)
      return elements;
    if (ofInstruction == 1)
      return make<vector::ExtractOp>(elements, first);
    SmallVector<int32_t> some(llvm::to_vector(llvm::seq<int32_t>(first, first + ofInstruction)));
    return make<LLVM::ShuffleVectorOp>(elements, elements, some);
  };
  for (int64_t first = 0; first != ofLane; first += ofInstruction) {
    SmallVector<Value> arguments = {part(left[0], first), part(right[0], first), sums[0]};
    if (isMfma)
      arguments.append(3, word(0));
    sums[0] = callIntrinsic(name, sums[0].getType(), arguments);
  }
}

void MatrixEmitter::multiplyElements(const MatrixTiles &tiles, Value stage, SmallVectorImpl<Value> &sums) {
  int64_t rowBytes = tiles.chunks * chunkBytes;
  Value left = memory.at(stage, mul(rowOfFragment(tiles, 0), constant(rowBytes)), b.getI8Type());
  Value inRight = add(mul(columnOfFragment(tiles, 0), constant(rowBytes)), constant(tiles.rows * rowBytes));
  Value right = memory.at(stage, inRight, b.getI8Type());
  int64_t rows = tiles.warpRows / fragmentRows, columns = tiles.warpColumns / fragmentRows;
  for (int64_t step = 0; step != tiles.chunks / chunksOfStep(); ++step) {
    SmallVector<SmallVector<Value>> lefts, rights;
    for (int64_t i = 0; i != rows; ++i)
      lefts.push_back(loadFragment(tiles, left, i * fragmentRows, step, /*isRight=*/false));
    for (int64_t j = 0; j != columns; ++j)
      rights.push_back(loadFragment(tiles, right, j * fragmentRows, step, /*isRight=*/true));
    for (int64_t i = 0; i != rows; ++i)
      for (int64_t j = 0; j != columns; ++j)
        multiplyFragments(lefts[i], rights[j],
                          MutableArrayRef(sums).slice((i * columns + j) * valuesOfTile(), valuesOfTile()));
  }
}

Value MatrixEmitter::rowOfFragment(const MatrixTiles &tiles, int64_t fragment) {
  if (isWarpgroup())
    return add(mul(function.warp, constant(fragmentRows)), constant(fragment * instruction.m));
  int64_t columnsOfWarps = tiles.columns / tiles.warpColumns;
  return add(mul(div(function.warp, constant(columnsOfWarps)), constant(tiles.warpRows)),
             constant(fragment * fragmentRows));
}

Value MatrixEmitter::columnOfFragment(const MatrixTiles &tiles, int64_t fragment) {
  int64_t columnsOfWarps = tiles.columns / tiles.warpColumns;
  return add(mul(rem(function.warp, constant(columnsOfWarps)), constant(tiles.warpColumns)),
             constant(fragment * fragmentRows));
}

FailureOr<SmallVector<Value>> MatrixEmitter::multiply(const MatrixTiles &tiles, const Factor &left, const Factor &right,
                                                      Value firstRow, Value firstColumn, Value depth, TileRange range) {
  int64_t tileDepth = tiles.chunks * chunkElements(), rowBytes = tiles.chunks * chunkBytes;
  int64_t leftBytes = tiles.rows * rowBytes, stageBytes = leftBytes + tiles.columns * rowBytes + tiles.scaleBytes;
  Value begin = range.begin ? range.begin : constant(0);
  Value end = range.end ? range.end : ceilDiv(depth, constant(tileDepth));
  shared = function.sharedMemory(getAffineConstantExpr(sharedBytesOf(tiles), b.getContext()));
  Copy copies[] = {
      beginCopy(tiles, left, tiles.rows, firstRow, shared),
      beginCopy(tiles, right, tiles.columns, firstColumn, memory.at(shared, constant(leftBytes), b.getI8Type()))};
  bool isAsync = isCopied(left) || isCopied(right), isLoaded = !isCopied(left) || !isCopied(right);
  auto commit = [&] { callIntrinsic("llvm.nvvm.cp.async.commit.group", nullptr, {}); };
  auto wait = [&](int64_t groups) {
    Value number = word(groups);
    callIntrinsic("llvm.nvvm.cp.async.wait.group", nullptr, number);
  };
  auto copyTiles = [&](Value k, Value stage) {
    for (const Copy &copy : copies)
      if (isCopied(*copy.factor))
        copyAsync(copy, k, stage, depth);
  };
  auto loadTiles = [&](Value k) -> FailureOr<SmallVector<SmallVector<Value>>> {
    SmallVector<SmallVector<Value>> loaded;
    for (const Copy &copy : copies) {
      if (isCopied(*copy.factor))
        continue;
      FailureOr<SmallVector<Value>> chunks = copy.factor->load ? copy.factor->load(k) : loadTile(copy, k, depth);
      if (failed(chunks))
        return failure();
      loaded.push_back(std::move(*chunks));
    }
    return loaded;
  };
  auto storeTiles = [&](ArrayRef<SmallVector<Value>> loaded, Value stage) {
    for (const Copy &copy : copies)
      if (!isCopied(*copy.factor)) {
        if (copy.factor->store)
          copy.factor->store(loaded.front(), memory.at(shared, stage, b.getI8Type()));
        else
          storeTile(copy, loaded.front(), stage);
        loaded = loaded.drop_front();
      }
  };

  // The first tiles. Tiles that are copied have more time to arrive than those that pass through registers. Those that
  // are multiplied by four warps are read until the next ones are.
  int64_t ahead = tiles.stages - (isWarpgroup() ? 2 : 1);
  for (int64_t tile = 0; isAsync && tile != ahead; ++tile) {
    Value number = add(begin, constant(tile));
    auto copyTile = [&] { copyTiles(mul(number, constant(tileDepth)), constant(tile * stageBytes)); };
    std::optional<int64_t> last = range.end ? std::nullopt : getConstantIntValue(end);
    if (!last)
      ifThen(less(number, end), copyTile);
    else if (tile < *last)
      copyTile();
    commit();
  }
  // Behind the last tile there is none: it is loaded once more and not used.
  // With small tiles other warps compute while one waits, as many as registers are left for. With large ones each has
  // to keep its unit busy alone.
  bool isLarge = tiles.rows >= 128, isLargeOnCdna = isLarge && instruction.family == MatrixFamily::Mfma;
  // Numbers of tiles fit 32 bits, which CDNA counts and compares by fewer instructions.
  auto narrow = [&](Value number) -> Value {
    return isLargeOnCdna ? make<arith::TruncIOp>(b.getI32Type(), number) : number;
  };
  auto widen = [&](Value number) -> Value {
    return isLargeOnCdna ? make<arith::ExtUIOp>(b.getI64Type(), number) : number;
  };
  auto loadTilesAt = [&](Value tile) {
    Value last = widen(min(narrow(tile), narrow(sub(end, constant(1)))));
    return loadTiles(mul(last, constant(tileDepth)));
  };
  SmallVector<Value> waiting; // tiles that are loaded, the next one first
  SmallVector<size_t> valuesOfFactors;
  if (isLoaded) {
    auto loaded = loadTiles(mul(begin, constant(tileDepth)));
    if (failed(loaded))
      return failure();
    storeTiles(*loaded, constant(0));
    for (const SmallVector<Value> &ofFactor : *loaded)
      valuesOfFactors.push_back(ofFactor.size());
    for (int64_t ahead = 1; ahead != tiles.loadsAhead; ++ahead) {
      loaded = loadTilesAt(add(begin, constant(ahead)));
      if (failed(loaded))
        return failure();
      for (const SmallVector<Value> &ofFactor : *loaded)
        waiting.append(ofFactor);
    }
  }
  // Loads are issued before a tile is multiplied and waited for after it. LLVM's scheduler for AMD's GPUs would move
  // either among the products, which then wait for memory.
  bool movesLoads = isLarge && isLoaded && architecture.vendor == Vendor::Amd;
  auto keepOrder = [&] {
    if (movesLoads)
      callIntrinsic("llvm.amdgcn.sched.barrier", nullptr, word(0));
  };
  /// Takes the next tile from those that wait.
  auto takeTile = [&](SmallVector<Value> &values) {
    SmallVector<SmallVector<Value>> tile;
    for (size_t count : valuesOfFactors) {
      tile.emplace_back(ArrayRef(values).take_front(count));
      values.erase(values.begin(), values.begin() + count);
    }
    return tile;
  };

  int64_t fragments = (tiles.warpRows / fragmentRows) * (tiles.warpColumns / fragmentRows);
  int64_t sumCount = fragments * valuesOfTile();
  SmallVector<Value> inits(sumCount, zeroSums());
  inits.append(waiting);
  inits.append({constant(0), constant(ahead * stageBytes)});
  using Next = FailureOr<SmallVector<Value>>;
  auto advance = [&](Value stage) -> Value {
    if (tiles.stages == 2)
      return make<arith::XOrIOp>(stage, constant(stageBytes));
    Value isLast = equal(stage, constant((tiles.stages - 1) * stageBytes));
    return select(isLast, constant(0), add(stage, constant(stageBytes)));
  };
  auto multiplyNext = [&](Value number, ValueRange running) -> Next {
    Value tile = widen(number);
    Value stage = running[running.size() - 2], free = running.back();
    if (isAsync)
      wait(ahead - 1);
    if (isWarpgroup())
      fenceProxy(b, loc);
    function.emitBlockBarrier();
    if (isAsync) {
      Value later = add(tile, constant(ahead));
      ifThen(less(later, end), [&] { copyTiles(mul(later, constant(tileDepth)), free); });
      commit();
    }
    SmallVector<Value> next(running.take_front(sumCount)), loaded(running.drop_front(sumCount).drop_back(2));
    if (isLoaded) {
      auto newest = loadTilesAt(add(tile, constant(tiles.loadsAhead)));
      if (failed(newest))
        return failure();
      for (const SmallVector<Value> &ofFactor : *newest)
        loaded.append(ofFactor);
      keepOrder();
    }
    Value base = memory.at(shared, stage, b.getI8Type());
    if (isWarpgroup()) {
      beginWarpgroupStage(tiles, base, memory.at(base, constant(leftBytes), b.getI8Type()), next);
      callIntrinsic("llvm.nvvm.wgmma.wait_group.sync.aligned", nullptr, constant(1));
    } else {
      multiplyStage(tiles, base, next);
    }
    Value nextStage = advance(stage);
    keepOrder();
    storeTiles(takeTile(loaded), nextStage);
    next.append(loaded);
    next.append({nextStage, advance(free)});
    return next;
  };
  Next results = forLoop(narrow(begin), narrow(end), narrow(constant(1)), inits, multiplyNext);
  if (failed(results))
    return failure();
  // LLVM would unroll short loops as a whole, and load what all their tiles need into registers at once.
  // Two tiles a turn make stages constants where there are two of them.
  std::optional<int64_t> tileCount = range.end ? std::nullopt : getConstantIntValue(end);
  bool takesTwo = isLargeOnCdna && tiles.stages == 2 && tileCount && *tileCount % 2 == 0;
  StringRef unroll = takesTwo ? "count = 2 : i32" : "disable = true";
  results->front().getDefiningOp()->setAttr(
      "loop_annotation", parseAttribute(("#llvm.loop_annotation<unroll = <" + unroll + ">>").str(), b.getContext()));
  if (isAsync)
    wait(0);
  if (isWarpgroup())
    callIntrinsic("llvm.nvvm.wgmma.wait_group.sync.aligned", nullptr, constant(0));
  return SmallVector<Value>(ArrayRef(*results).take_front(sumCount));
}

} // namespace intarsia::gpu
