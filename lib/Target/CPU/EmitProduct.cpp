//===- EmitProduct.cpp - Register tiles, linear layers, batched products ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
// Slots of the plan of a linear layer.
enum { kRowBlock = ITX_PLAN_PRIVATE, kPanelsPerTile, kPanelGroups };
/// Sums in flight that hide the latency of a fused multiply-add: two units of four cycles.
constexpr int64_t kSumsInFlight = 8;
/// About what a tile does: 10 us of one core, twenty times what claiming a tile costs.
constexpr int64_t kTileFlops = int64_t(1) << 21;
/// A finishing tile normalises this many rows: some microseconds of work.
constexpr int64_t kFinishRows = 16;
/// How many rows of a panel ahead a tile of few rows prefetches: 4 KB of f32.
constexpr int64_t kRowsAhead = 32;
/// The least that is worth prefetching at a step: a cache line every eight steps.
constexpr int64_t kPrefetchStep = 8;
} // namespace

//===-- Register tile -----------------------------------------------------------------------------------------===//

bool KernelEmitter::usesBf16Dot(const TileOperands &t) {
  return config.bf16Dot && t.aType.isBF16() && t.bType.isBF16() && matchPattern(t.aColumn, m_One());
}

void KernelEmitter::emitTile(const TileOperands &t, int64_t rows, int64_t columns) {
  int64_t lanes = config.lanes;
  for (int64_t first = 0; first < columns; first += config.tileColumns()) {
    int64_t vectors = std::min(config.columnVectors, (columns - first) / lanes);
    int64_t sums = rows * vectors;
    bool dot = usesBf16Dot(t);
    bool fewSums = !dot && kSumsInFlight / sums > 1;
    int64_t chains = fewSums && !t.ordered ? kSumsInFlight / sums : 1;
    Type f32 = b.getF32Type();
    SmallVector<Value> initial;
    for (int64_t chain = 0; chain < chains; ++chain)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t v = 0; v < vectors; ++v) {
          if (t.accumulate && chain == 0)
            initial.push_back(loadAt(t.out, add(mul(constant(r), t.outRow), constant(first + v * lanes)), f32, lanes));
          else
            initial.push_back(floatConstant(0.0, f32, lanes));
        }
    Value start = offsetPointer(t.b, constant(first), t.bType);
    bool prefetches = t.prefetch && rows == config.rows && first == 0;
    auto step = [&](Value k, int64_t chain, ValueRange running, SmallVector<Value> &next) {
      if (prefetches)
        LLVM::Prefetch::create(b, loc, offsetPointer(t.prefetch, mul(k, t.prefetchStep), b.getI8Type()), /*rw=*/0,
                               /*hint=*/2, /*cache=*/1);
      // With few rows a tile waits for its weights alone: they are asked for well ahead, across pages too.
      if (t.prefetch && fewSums && first == 0)
        for (int64_t line = 0; line < kPanelWidth; line += 64 * 8 / t.bType.getIntOrFloatBitWidth())
          LLVM::Prefetch::create(
              b, loc, offsetPointer(t.b, add(mul(add(k, constant(kRowsAhead)), t.bRow), constant(line)), t.bType),
              /*rw=*/0, /*hint=*/3, /*cache=*/1);
      SmallVector<Value> right;
      for (int64_t v = 0; v < vectors; ++v)
        right.push_back(t.codeBits ? loadCodes(t.b, mul(k, t.bRow), first + v * lanes, t.codeBits)
                                   : loadAt(start, add(mul(k, t.bRow), constant(v * lanes)), t.bType, lanes));
      for (int64_t r = 0; r < rows; ++r) {
        Value left = loadAt(t.a, add(mul(k, t.aColumn), mul(constant(r), t.aRow)), t.aType, 1);
        left = splat(left, lanes);
        for (int64_t v = 0; v < vectors; ++v) {
          int64_t sum = (chain * rows + r) * vectors + v;
          next[sum] = vector::FMAOp::create(b, loc, left, right[v], running[sum]);
        }
      }
    };
    // Two k at a time: the left pair is one 32-bit broadcast, the two right rows are interleaved. Both rows' elements
    // of one column are then neighbours, as the instruction wants them, and the packed layout is the one of all
    // variants.
    auto dotStep = [&](Value k, bool pair, ValueRange running) {
      if (prefetches && pair)
        LLVM::Prefetch::create(b, loc, offsetPointer(t.prefetch, mul(k, t.prefetchStep), b.getI8Type()), /*rw=*/0,
                               /*hint=*/2, /*cache=*/1);
      Type bf16 = b.getBF16Type(), i16 = b.getI16Type(), i32 = b.getI32Type();
      auto narrow = VectorType::get({lanes}, bf16), wide = VectorType::get({2 * lanes}, bf16);
      auto loadRaw = [&](Value pointer, Value offset, Type type) -> Value {
        return LLVM::LoadOp::create(b, loc, type, offsetPointer(pointer, offset, bf16), /*alignment=*/2);
      };
      SmallVector<int64_t> interleave;
      for (int64_t i = 0; i < lanes; ++i)
        llvm::append_values(interleave, i, lanes + i);
      SmallVector<Value> right, next(running);
      for (int64_t v = 0; v < vectors; ++v) {
        Value upper = loadRaw(start, add(mul(k, t.bRow), constant(v * lanes)), narrow);
        Value lower = pair ? loadRaw(start, add(mul(add(k, constant(1)), t.bRow), constant(v * lanes)), narrow)
                           : arith::ConstantOp::create(b, loc, b.getZeroAttr(narrow)).getResult();
        right.push_back(vector::ShuffleOp::create(b, loc, upper, lower, interleave));
      }
      for (int64_t r = 0; r < rows; ++r) {
        Value left = loadRaw(t.a, add(k, mul(constant(r), t.aRow)), pair ? i32 : i16);
        if (!pair)
          left = arith::ExtUIOp::create(b, loc, i32, left);
        left = vector::BitCastOp::create(b, loc, wide, splat(left, lanes));
        for (int64_t v = 0; v < vectors; ++v) {
          int64_t sum = r * vectors + v;
          next[sum] = LLVM::CallIntrinsicOp::create(b, loc, running[sum].getType(),
                                                    b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                                                    ValueRange{running[sum], left, right[v]})
                          .getResults();
        }
      }
      return next;
    };
    Value whole = mul(div(t.depth, constant(dot ? 2 : chains)), constant(dot ? 2 : chains));
    SmallVector<Value> result;
    if (dot) {
      result = forLoop(constant(0), whole, constant(2), initial,
                       [&](Value k, ValueRange running) { return dotStep(k, true, running); });
      if (whole != t.depth)
        result = forLoop(whole, t.depth, constant(1), result,
                         [&](Value k, ValueRange running) { return dotStep(k, false, running); });
    } else {
      result = forLoop(constant(0), whole, constant(chains), initial, [&](Value k, ValueRange running) {
        SmallVector<Value> next(running);
        for (int64_t chain = 0; chain < chains; ++chain)
          step(add(k, constant(chain)), chain, running, next);
        return next;
      });
      if (chains > 1 && whole != t.depth)
        result = forLoop(whole, t.depth, constant(1), result, [&](Value k, ValueRange running) {
          SmallVector<Value> next(running);
          step(k, 0, running, next);
          return next;
        });
    }
    for (int64_t sum = 0; sum < sums; ++sum) {
      Value total = result[sum];
      for (int64_t chain = 1; chain < chains; ++chain)
        total = arith::AddFOp::create(b, loc, total, result[chain * sums + sum]);
      int64_t r = sum / vectors, v = sum % vectors;
      storeAt(total, t.out, add(mul(constant(r), t.outRow), constant(first + v * lanes)), f32, lanes);
    }
  }
}

void KernelEmitter::emitTileRows(const TileOperands &operands, Value rows, int64_t columns) {
  std::function<void(int64_t)> choose = [&](int64_t count) {
    if (count == 1) {
      emitTile(operands, 1, columns);
      return;
    }
    Value equal = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rows, constant(count));
    ifThen(equal, [&] { emitTile(operands, count, columns); }, [&] { choose(count - 1); });
  };
  choose(config.rows);
}

//===-- Packing at run time -----------------------------------------------------------------------------------===//

SmallVector<Value> KernelEmitter::transpose(ArrayRef<Value> rows) {
  int64_t n = rows.size();
  SmallVector<Value> result(rows);
  // Swaps off-diagonal blocks of half the size, then of a quarter, …: log2(n) rounds of n two-operand shuffles.
  for (int64_t s = n / 2; s >= 1; s /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t j = 0; j < n; ++j) {
      low.push_back((j & s) ? n + j - s : j);
      high.push_back((j & s) ? n + j : j + s);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i & s)
        continue;
      Value x = result[i], y = result[i + s];
      result[i] = vector::ShuffleOp::create(b, loc, x, y, low);
      result[i + s] = vector::ShuffleOp::create(b, loc, x, y, high);
    }
  }
  return result;
}

void KernelEmitter::packTransposed(Value panel, Value source, Value stride, Type type, Value depth, Value columns,
                                   Value scale) {
  int64_t lanes = config.lanes;
  Type f32 = b.getF32Type();
  Value width = constant(kPanelWidth);
  Value wholeDepth = mul(div(depth, constant(lanes)), constant(lanes));
  auto scaled = [&](Value value, int64_t w) -> Value {
    return scale ? arith::MulFOp::create(b, loc, value, splat(scale, w)).getResult() : value;
  };
  forLoop(constant(0), width, constant(lanes), [&](Value c) {
    ifThen(
        less(add(c, constant(lanes - 1)), columns),
        [&] {
          forLoop(constant(0), wholeDepth, constant(lanes), [&](Value k) {
            SmallVector<Value> rows;
            for (int64_t i = 0; i < lanes; ++i)
              rows.push_back(scaled(loadAt(source, add(mul(add(c, constant(i)), stride), k), type, lanes), lanes));
            rows = transpose(rows);
            for (int64_t i = 0; i < lanes; ++i)
              storeAt(rows[i], panel, add(mul(add(k, constant(i)), width), c), f32, lanes);
          });
          if (wholeDepth != depth)
            forLoop(wholeDepth, depth, constant(1), [&](Value k) {
              forLoop(constant(0), constant(lanes), constant(1), [&](Value i) {
                Value column = add(c, i);
                Value value = scaled(loadAt(source, add(mul(column, stride), k), type, 1), 1);
                storeAt(value, panel, add(mul(k, width), column), f32, 1);
              });
            });
        },
        [&] {
          forLoop(constant(0), constant(lanes), constant(1), [&](Value i) {
            Value column = add(c, i);
            // Beyond the last column the value of the last one is read, so as to stay inside, and zero is stored.
            Value inside = less(column, columns);
            Value from = mul(min(column, sub(columns, constant(1))), stride);
            forLoop(constant(0), depth, constant(1), [&](Value k) {
              Value value = scaled(loadAt(source, add(from, k), type, 1), 1);
              value = arith::SelectOp::create(b, loc, inside, value, floatConstant(0.0, f32, 1));
              storeAt(value, panel, add(mul(k, width), column), f32, 1);
            });
          });
        });
  });
}

void KernelEmitter::packRows(Value panel, Value source, Value stride, Type type, Value depth, Value columns,
                             int64_t panelWidth) {
  int64_t lanes = config.lanes;
  Type f32 = b.getF32Type();
  forLoop(constant(0), depth, constant(1), [&](Value k) {
    Value from = mul(k, stride), to = mul(k, constant(panelWidth));
    Value whole = mul(div(columns, constant(lanes)), constant(lanes));
    forLoop(constant(0), whole, constant(lanes),
            [&](Value c) { storeAt(loadAt(source, add(from, c), type, lanes), panel, add(to, c), f32, lanes); });
    forLoop(whole, columns, constant(1),
            [&](Value c) { storeAt(loadAt(source, add(from, c), type, 1), panel, add(to, c), f32, 1); });
    forLoop(columns, constant(panelWidth), constant(1),
            [&](Value c) { storeAt(floatConstant(0.0, f32, 1), panel, add(to, c), f32, 1); });
  });
}

//===-- Linear layers -----------------------------------------------------------------------------------------===//

void KernelEmitter::emitLinear(nn::LinearOp root) {
  Value result = root.getResult();
  ArrayRef<AffineExpr> extents = sizes.of(result);
  ArrayRef<AffineExpr> leading = extents.drop_back();
  auto weightType = cast<RankedTensorType>(root.getWeight().getType());
  int64_t features = weightType.getDimSize(0), depth = weightType.getDimSize(1);
  if (ShapedType::isDynamic(features) || ShapedType::isDynamic(depth)) {
    unsupported(root, "its weight has dynamic sizes");
    return;
  }
  std::optional<BlockPanels> codes = panelsOf(root.getWeight());
  if (nn::QuantizeOp activations = quantizedInput(root.getInput())) {
    if (codes)
      emitCodeLinear(root, *codes, activations);
    else
      unsupported(root, "its input is rounded to 8 bits, its weight is not stored as codes");
    return;
  }
  int64_t allPanels = llvm::divideCeil(features, kPanelWidth);
  int64_t rowDepth = std::max<int64_t>(depth, 1); // what is divided by it: without input features rows are empty
  Value rows = product(leading);
  // Rows whose left operand stays in the private cache while the panels pass by. More than 16 register tiles of them
  // cost 4 % at 512 and 1024 cubed and at MiniLM 8x128, for all that the weights then pass fewer times.
  int64_t maximalRows = std::clamp<int64_t>(config.blockBytes / (rowDepth * 4), 2 * config.rows, 16 * config.rows);
  maximalRows = maximalRows / config.rows * config.rows;

  // Outputs that need the whole row (a norm at the end) are computed when the row's last tile is done.
  Operation *norm = nullptr;
  SmallVector<unsigned> early, late;
  unsigned outputCount = kernel.getResultTypes().size();
  for (unsigned i = 0; i < outputCount; ++i) {
    bool waits = false;
    SmallVector<Value> worklist{yielded(i)};
    DenseSet<Operation *> seen;
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (!op || !seen.insert(op).second)
        continue;
      if (isa<RowwiseOpInterface>(op)) {
        if (norm && norm != op)
          unsupported(op, "a linear layer takes one norm after it");
        norm = op;
        waits = true;
      }
      llvm::append_range(worklist, op->getOperands());
    }
    (waits ? late : early).push_back(i);
  }
  SmallVector<LinearSection> sections = sectionsOf(root);
  if (sections.empty() || (norm && sections.front().slices.front() != result))
    unsupported(root, "a result of its kernel is of another shape");
  std::optional<PanelOrder> order = failedAny ? std::nullopt : panelOrderOf(root, sections);
  if (!order)
    return;
  if (norm)
    sections.front().outputs = early;
  // A panel of a tile is one of each slice.
  int64_t together = sections.front().slices.size(), panels = allPanels / together;

  if (planning) {
    // Row blocks as equal as whole register tiles allow.
    Value blocks = max(ceilDiv(rows, constant(maximalRows)), constant(1));
    Value rowBlock = mul(ceilDiv(ceilDiv(rows, blocks), constant(config.rows)), constant(config.rows));
    rowBlock = max(rowBlock, constant(config.rows));
    blocks = ceilDiv(rows, rowBlock);
    // Tiles are as small as pays: a thread that is held up then leaves its work to the others. A left operand that is
    // packed for each tile pays for two tiles a thread only.
    bool packs = !cast<RankedTensorType>(root.getInput().getType()).getElementType().isF32();
    Value evenly = max(ceilDiv(constant(panels), packs ? mul(threads, constant(2)) : threads), constant(1));
    Value panelFlops = mul(rowBlock, constant(2 * kPanelWidth * rowDepth * together));
    Value panelsPerTile = packs ? evenly : min(max(div(constant(kTileFlops), panelFlops), constant(1)), evenly);
    Value groups = ceilDiv(constant(panels), panelsPerTile);
    setPlan(ITX_PLAN_TILES, mul(blocks, groups));
    setPlan(kRowBlock, rowBlock);
    setPlan(kPanelsPerTile, panelsPerTile);
    setPlan(kPanelGroups, groups);
    if (norm)
      setPlan(ITX_PLAN_FINISH_TILES, ceilDiv(rows, constant(kFinishRows)));
    return;
  }

  Type f32 = b.getF32Type();
  int64_t sumsOfSlice = config.rows * kPanelWidth;
  Value sums = scratch(sumsOfSlice * together * 4);
  Value rowBlock = planValue(kRowBlock), panelsPerTile = planValue(kPanelsPerTile), groups = planValue(kPanelGroups);

  // The left operand: rows at a fixed distance in memory, or packed as f32 a block at a time.
  std::optional<Storage> input = view(root.getInput());
  unsigned inputRank = sizes.of(root.getInput()).size();
  auto weightArgument = dyn_cast<BlockArgument>(root.getWeight());
  rt::LayoutAttr layout;
  if (weightArgument)
    layout = kernel.getArgAttrOfType<rt::LayoutAttr>(weightArgument.getArgNumber(), "rt.layout");
  bool packed = layout && layout.getKind() == rt::LayoutKind::Panels && !codes;
  bool bf16Dot = config.bf16Dot && packed && weightType.getElementType().isBF16();
  bool readable = input && (input->elementType.isF32() || (bf16Dot && input->elementType.isBF16()));
  bool packInput = !readable || (inputRank > 2 && !input->dense);
  Value packedInput = packInput ? scratch(maximalRows * depth * 4) : Value();
  Value inputStride = packInput || inputRank == 1 ? constant(depth) : input->strides[inputRank - 2];

  // The right operand: packed ahead of time, or a panel at a time.
  std::optional<Storage> weight = view(root.getWeight());
  if (!weight || (packed && layout.getWidth() != kPanelWidth)) {
    unsupported(root, "its weight is neither packed in panels of 32 nor a tensor in memory");
    return;
  }
  int64_t packedElements = kPanelWidth * (codes ? codes->steps() * BlockPanels::stepDepth : depth);
  Value packedPanels = packed ? Value() : scratch(packedElements * together * 4);

  // Where the row that a norm reads is kept: its own output, or the place of the norm's result.
  std::optional<Storage> rowStorage;
  Value normInput = norm ? norm->getOperand(0) : Value();
  if (norm) {
    unsigned place = late.front();
    for (unsigned i : early)
      if (yielded(i) == normInput)
        place = i;
    rowStorage = outputs[place];
  }

  // Norms are computed in tiles of their own, once all products are done.
  Value tiles = planValue(ITX_PLAN_TILES);
  if (norm)
    ifThen(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, tileBegin, tiles), [&] {
      storage[normInput] = *rowStorage;
      Value firstRow = mul(sub(tileBegin, tiles), constant(kFinishRows));
      Value endRow = min(mul(sub(tileEnd, tiles), constant(kFinishRows)), rows);
      forLoop(firstRow, endRow, constant(1), [&](Value flat) { emitRow(makeRow(flat, leading), late); });
      storage.erase(normInput);
    });

  forLoop(tileBegin, norm ? min(tileEnd, tiles) : tileEnd, constant(1), [&](Value tile) {
    Value block = div(tile, groups), group = rem(tile, groups);
    Value firstRow = mul(block, rowBlock);
    Value endRow = min(add(firstRow, rowBlock), rows);
    Value firstPanel = mul(group, panelsPerTile);
    Value endPanel = min(add(firstPanel, panelsPerTile), constant(panels));

    if (packInput)
      forLoop(firstRow, endRow, constant(1), [&](Value flat) {
        RowScope row = makeRow(flat, leading);
        currentRow = &row;
        Value to = mul(sub(flat, firstRow), constant(depth));
        vectorLoop(constant(depth), [&](Value k, int64_t width) {
          Indices at;
          for (Value prefix : row.prefix)
            at.push_back({prefix});
          at.push_back({k, true});
          storeAt(evaluate(root.getInput(), at, width), packedInput, add(to, k), f32, width);
        });
        currentRow = nullptr;
      });

    forLoop(firstPanel, endPanel, constant(1), [&](Value panel) {
      auto panelOf = [&](Value slice) {
        return add(mul(panel, constant(order->next)), mul(slice, constant(order->ofSlice)));
      };
      auto packedPanel = [&](Value slice) {
        return offsetPointer(packedPanels, mul(slice, constant(packedElements)), f32);
      };
      if (!packed)
        forLoop(constant(0), constant(together), constant(1), [&](Value slice) {
          Value column = mul(panelOf(slice), constant(kPanelWidth)), to = packedPanel(slice);
          if (codes) {
            Value from = mul(panelOf(slice), constant(codes->panelBytes()));
            decodePanel(*codes, offsetPointer(weight->pointer, from, b.getI8Type()), to);
            return;
          }
          packTransposed(to, offsetPointer(weight->pointer, mul(column, weight->strides[0]), weight->elementType),
                         weight->strides[0], weight->elementType, constant(depth),
                         min(sub(constant(features), column), constant(kPanelWidth)), Value());
        });
      // Meanwhile the next panel comes into the second-level cache, a part with each register tile: weights of a
      // whole model pass through once a call and come from far away.
      Value lines = max(ceilDiv(constant(kPanelWidth * weightType.getElementTypeBitWidth() / 8),
                                ceilDiv(sub(endRow, firstRow), constant(config.rows))),
                        constant(kPrefetchStep));
      forLoop(firstRow, endRow, constant(config.rows), [&](Value m) {
        Value count = min(sub(endRow, m), constant(config.rows));
        forLoop(constant(0), constant(together), constant(1), [&](Value slice) {
          TileOperands operands;
          if (packed) {
            Value elements = mul(panelOf(slice), constant(depth * kPanelWidth));
            operands.b = offsetPointer(weight->pointer, elements, weight->elementType);
            Value nextPanel =
                offsetPointer(operands.b, constant(order->next * depth * kPanelWidth), weight->elementType);
            Value part = mul(mul(div(sub(m, firstRow), constant(config.rows)), lines), constant(depth));
            operands.prefetch = offsetPointer(nextPanel, part, b.getI8Type());
            operands.prefetchStep = lines;
          } else {
            operands.b = packedPanel(slice);
          }
          operands.a = packInput ? offsetPointer(packedInput, mul(sub(m, firstRow), constant(depth)), f32)
                                 : offsetPointer(input->pointer, mul(m, inputStride), input->elementType);
          operands.aRow = inputStride;
          operands.aColumn = constant(1);
          operands.aType = packInput ? Type(f32) : input->elementType;
          operands.bRow = constant(kPanelWidth);
          operands.bType = packed ? weight->elementType : f32;
          operands.depth = constant(depth);
          operands.out = offsetPointer(sums, mul(slice, constant(sumsOfSlice)), f32);
          operands.outRow = constant(kPanelWidth);
          emitTileRows(operands, count, kPanelWidth);
        });

        // The rest of the group's ops, while the tile is in the first-level cache.
        inSectionOf(panel, sections, [&](const LinearSection &section, Value column) {
          forLoop(constant(0), count, constant(1), [&](Value r) {
            Value sumRow = mul(r, constant(kPanelWidth));
            bool storesRow = norm && llvm::none_of(early, [&](unsigned i) { return yielded(i) == normInput; });
            storeLinearRow(
                root, section, makeRow(add(m, r), leading), column,
                [&](int64_t slice, Value c, int64_t width) {
                  return loadAt(sums, add(add(sumRow, constant(slice * sumsOfSlice)), c), f32, width);
                },
                [&](ArrayRef<Index> at, int64_t width) {
                  if (storesRow)
                    store(evaluate(normInput, at, width), *rowStorage, at, width);
                });
          });
        });
      });
    });
  });
}

//===-- Batched products --------------------------------------------------------------------------------------===//

void KernelEmitter::emitMatmul(nn::MatmulOp root) {
  Value result = root.getResult();
  ArrayRef<AffineExpr> extents = sizes.of(result);
  ArrayRef<AffineExpr> batch = extents.drop_back(2);
  AffineExpr rowSize = extents[extents.size() - 2], columnSize = extents.back();
  ArrayRef<AffineExpr> leftSizes = sizes.of(root.getLhs());
  AffineExpr depthSize = root.getTransposeLhs() ? leftSizes[leftSizes.size() - 2] : leftSizes.back();
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (sizes.of(yielded(i)) != extents)
      unsupported(root, "a result of its kernel is of another shape");
  if (failedAny)
    return;
  Value panels = ceilDiv(size(columnSize), constant(kPanelWidth));
  if (planning) {
    setPlan(ITX_PLAN_TILES, mul(product(batch), panels));
    return;
  }
  std::optional<Storage> left = view(root.getLhs()), right = view(root.getRhs());
  if (!left || !right) {
    unsupported(root, "an operand is computed in the same kernel");
    return;
  }
  Type f32 = b.getF32Type();
  Value rows = size(rowSize), columns = size(columnSize), depth = size(depthSize);
  Value sums = scratch(config.rows * kPanelWidth * 4);
  Value panelScratch = scratch(depthSize * (kPanelWidth * 4));
  int64_t rank = extents.size();
  auto strideOf = [&](const Storage &operand, int64_t fromEnd) { return operand.strides[rank - fromEnd]; };

  forLoop(tileBegin, tileEnd, constant(1), [&](Value tile) {
    Value panel = rem(tile, panels);
    SmallVector<Value> batchIndices = delinearize(div(tile, panels), batch);
    Value leftOffset = constant(0), rightOffset = constant(0);
    for (auto [d, index] : llvm::enumerate(batchIndices)) {
      leftOffset = add(leftOffset, mul(index, left->strides[d]));
      rightOffset = add(rightOffset, mul(index, right->strides[d]));
    }
    Value column = mul(panel, constant(kPanelWidth));
    Value panelColumns = min(sub(columns, column), constant(kPanelWidth));
    bool transposed = root.getTransposeRhs();
    Value source = offsetPointer(right->pointer, add(rightOffset, mul(column, strideOf(*right, transposed ? 2 : 1))),
                                 right->elementType);
    if (transposed)
      packTransposed(panelScratch, source, strideOf(*right, 2), right->elementType, depth, panelColumns, Value());
    else
      packRows(panelScratch, source, strideOf(*right, 2), right->elementType, depth, panelColumns, kPanelWidth);

    forLoop(constant(0), rows, constant(config.rows), [&](Value m) {
      Value count = min(sub(rows, m), constant(config.rows));
      TileOperands operands;
      operands.aRow = strideOf(*left, root.getTransposeLhs() ? 1 : 2);
      operands.aColumn = strideOf(*left, root.getTransposeLhs() ? 2 : 1);
      operands.a = offsetPointer(left->pointer, add(leftOffset, mul(m, operands.aRow)), left->elementType);
      operands.aType = left->elementType;
      operands.b = panelScratch;
      operands.bRow = constant(kPanelWidth);
      operands.bType = f32;
      operands.depth = depth;
      operands.out = sums;
      operands.outRow = constant(kPanelWidth);
      emitTileRows(operands, count, kPanelWidth);
      forLoop(constant(0), count, constant(1), [&](Value r) {
        auto savedBound = bound;
        Value sumRow = mul(r, constant(kPanelWidth));
        bound[result] = [&](ArrayRef<Index> at, int64_t width) -> Value {
          return loadAt(sums, add(sumRow, sub(at.back().base, column)), f32, width);
        };
        Indices prefix;
        for (Value index : batchIndices)
          prefix.push_back({index});
        prefix.push_back({add(m, r)});
        vectorLoop(panelColumns, [&](Value c, int64_t width) {
          memo.emplace_back();
          Indices at(prefix);
          at.push_back({add(column, c), true});
          for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
            store(evaluate(yielded(i), at, width), outputs[i], at, width);
          memo.pop_back();
        });
        bound = savedBound;
      });
    });
  });
}

} // namespace intarsia::cpu
