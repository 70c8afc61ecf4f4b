//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Ops as the shapes of the cost formula of GPU kernels.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Cost/Cost.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>

using namespace mlir;
using namespace intarsia;

/// The most queries of a sequence that share a tile with those of other heads: attention of more is that of a prompt.
static constexpr double mostDecodedQueries = 8;

/// Returns the name that the catalogue has for what elements of a type are multiplied in.
static StringRef catalogueType(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (element.isF32() || element.isF64())
    return "f32";
  unsigned bits = element.getIntOrFloatBitWidth();
  return bits >= 16 ? "bf16" : bits == 8 ? "fp8" : "fp4";
}

/// Returns the catalogue's name for the floats that a tensor is quantized to; empty if it is not.
static StringRef quantizedFloats(Value input) {
  auto dequantize = input.getDefiningOp<nn::DequantizeOp>();
  auto format = dequantize ? dyn_cast<nn::BlockFormatAttr>(dequantize.getFormat()) : nullptr;
  bool isE4M3 = format && format.getElement() == nn::BlockElement::E4M3;
  return isE4M3 ? "fp8" : format && format.getElement() == nn::BlockElement::E2M1 ? "fp4" : "";
}

bool MatrixWork::addColumns(const MatrixWork &other) {
  if (shape.kind != GpuKernelKind::Linear || other.shape.kind != shape.kind || shape.batch != other.shape.batch ||
      shape.rows != other.shape.rows || shape.depth != other.shape.depth || elementType != other.elementType)
    return false;
  shape.columns += other.shape.columns;
  transcendentals += other.transcendentals;
  bytes += other.bytes;
  return true;
}

double WorkModel::elementBytes(Value value) const { return bytes(value) / std::max<double>(1, elements(value)); }

std::optional<MatrixWork> WorkModel::matrixWork(Operation *root) const {
  MatrixWork work;
  GpuKernelShape &shape = work.shape;
  auto size = [&](Value value, int64_t dim) {
    ArrayRef<AffineExpr> all = sizes(value);
    return evaluate(all[size_t(dim < 0 ? int64_t(all.size()) + dim : dim)]);
  };
  // The product of the sizes that loops of a kind go over: in a weight, whose sizes are known, where they are of both
  // sides.
  auto positions = [&](ContractionOpInterface op, ContractionLoop kind) {
    ContractionMaps maps = op.getMaps();
    std::pair<AffineMap, Value> left(maps.left, op.getLeft()), right(maps.right, op.getRight()),
        result(maps.result, root->getResult(0));
    double product = 1;
    for (unsigned loop : maps.loops(kind))
      for (auto &[map, value] : op.hasStoredRight() ? std::array{right, left, result} : std::array{left, right, result})
        if (std::optional<int64_t> dimension = dimensionOf(map, loop)) {
          product *= size(value, *dimension);
          break;
        }
    return product;
  };
  auto describe = [&](GpuKernelKind kind, Value input, Value weight) {
    shape.kind = kind;
    shape.inputBytes = elementBytes(input);
    shape.weightBytes = elementBytes(weight);
    shape.outputBytes = elementBytes(root->getResult(0));
    work.elementType = catalogueType(input.getType());
    return true;
  };
  auto multiplyIn = [&](std::optional<Type> precision) {
    // GPUs multiply floats of 16 bits in attention that may have integers of 8.
    if (precision && precision->isInteger(8))
      work.elementType = "bf16";
    else if (precision)
      work.elementType = catalogueType(*precision);
    return true;
  };
  bool described = llvm::TypeSwitch<Operation *, bool>(root)
                       .Case([&](nn::AttentionOp op) {
                         shape.batch = size(op.getQuery(), 0);
                         shape.rows = size(op.getQuery(), 1);
                         shape.heads = size(op.getQuery(), 2);
                         shape.depth = size(op.getQuery(), 3);
                         shape.columns = size(op.getKey(), 1);
                         shape.keyHeads = size(op.getKey(), 2);
                         shape.causal = op.getCausal();
                         describe(GpuKernelKind::Prefill, op.getQuery(), op.getKey());
                         return multiplyIn(op.getPrecision());
                       })
                       .Case([&](nn::CachedAttentionOp op) {
                         // As many pages as the table has: how full the last one is, and each sequence, only a call
                         // knows.
                         shape.batch = std::max(1.0, size(op.getPageTable(), 0));
                         shape.rows = std::max(1.0, size(op.getQuery(), 0) / shape.batch);
                         shape.heads = size(op.getQuery(), 1);
                         shape.depth = size(op.getQuery(), 2);
                         shape.keyHeads = size(op.getKeys().front(), 1);
                         double page = double(std::max<int64_t>(1, op.getKeyFormat().getPage()));
                         shape.columns = std::max(shape.rows, size(op.getPageTable(), 1) * page);
                         shape.window = double(op.getWindow().value_or(0));
                         Value keys = op.getKeys().front();
                         bool isDecoding = shape.rows <= mostDecodedQueries;
                         describe(isDecoding ? GpuKernelKind::Decode : GpuKernelKind::Prefill, op.getQuery(), keys);
                         // Bytes that hold several elements are no elements.
                         shape.weightBytes =
                             bytes(keys) / std::max(1.0, size(keys, 0) * shape.keyHeads * page * shape.depth);
                         return multiplyIn(op.getPrecision());
                       })
                       .Case([&](nn::ExpertsOp op) {
                         shape.rows = size(op.getInput(), 0);
                         shape.perToken = size(op.getIndices(), 1);
                         shape.experts = size(op.getGateUp(), 0);
                         shape.columns = size(op.getGateUp(), 2);
                         shape.depth = size(op.getGateUp(), 3);
                         return describe(GpuKernelKind::Experts, op.getInput(), op.getGateUp());
                       })
                       .Case([&](ContractionOpInterface op) {
                         if (op.getLeftRead() == LeftRead::Gathered)
                           return false; // how many rows each matrix gets only a call knows
                         bool hasWeight = op.hasStoredRight();
                         shape.batch = positions(op, ContractionLoop::Batch);
                         shape.rows = positions(op, ContractionLoop::Row);
                         shape.columns = positions(op, ContractionLoop::Column);
                         shape.depth = positions(op, ContractionLoop::Depth);
                         shape.warmWeights = hasWeight ? 0 : 1; // another kernel has just computed them
                         describe(GpuKernelKind::Linear, op.getLeft(), op.getRight());
                         StringRef floats = isa<RowInputOpInterface>(root) ? quantizedFloats(op.getLeft()) : "";
                         if (floats.empty())
                           return multiplyIn(op.getPrecision());
                         work.elementType = floats;
                         return true;
                       })
                       .Default([](Operation *) { return false; });
  if (!described)
    return std::nullopt;
  KernelWork alone;
  add(root, alone);
  work.transcendentals = alone.transcendentals;
  for (Value value :
       llvm::concat<const Value>(SmallVector<Value>(root->getOperands()), SmallVector<Value>(root->getResults())))
    if (isa<RankedTensorType>(value.getType()))
      work.bytes += bytes(value);
  return work;
}
