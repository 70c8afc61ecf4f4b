//===- Weights.cpp - Tensors of archives, and views of them -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/ModuleBuilder.h"

#include "lib/Support/Status.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace intarsia::importer {

Type floatType(llvm::StringRef dtype, MLIRContext *context) {
  if (dtype == "F32")
    return Float32Type::get(context);
  if (dtype == "BF16")
    return BFloat16Type::get(context);
  if (dtype == "F16")
    return Float16Type::get(context);
  return {};
}

Type elementType(llvm::StringRef dtype, MLIRContext *context) {
  if (Type type = floatType(dtype, context))
    return type;
  if (dtype == "F64")
    return Float64Type::get(context);
  if (dtype == "F8_E4M3")
    return Float8E4M3FNType::get(context);
  if (dtype == "F8_E5M2")
    return Float8E5M2Type::get(context);
  // Integers are bits; whether they have a sign is said by the ops that read them.
  unsigned bits = llvm::StringSwitch<unsigned>(dtype)
                      .Case("BOOL", 1)
                      .Cases({"I8", "U8"}, 8)
                      .Cases({"I16", "U16"}, 16)
                      .Cases({"I32", "U32"}, 32)
                      .Cases({"I64", "U64"}, 64)
                      .Default(0);
  return bits ? IntegerType::get(context, bits) : Type();
}

FlatSymbolRefAttr ModuleBuilder::archiveSymbol(const WeightArchive::File &file) {
  if (!module.lookupSymbol(file.symbol)) {
    OpBuilder::InsertionGuard guard(builder);
    // Inserts after the existing archives, which come first in the module, in order of use.
    builder.setInsertionPointToStart(module.getBody());
    for (Operation &op : *module.getBody())
      if (isa<nn::ArchiveOp>(op))
        builder.setInsertionPointAfter(&op);
    nn::ArchiveOp::create(builder, module.getLoc(), builder.getStringAttr(file.symbol),
                          builder.getStringAttr(file.name));
  }
  return FlatSymbolRefAttr::get(module.getContext(), file.symbol);
}

Value ModuleBuilder::rawWeight(Location at, const WeightArchive::Tensor &tensor, RankedTensorType type) {
  return nn::WeightOp::create(builder, at, type, archiveSymbol(*tensor.file),
                              builder.getStringAttr(tensor.entry->name));
}

Value ModuleBuilder::missingWeight(Location at, llvm::StringRef key, RankedTensorType type) {
  return nn::WeightOp::create(builder, at, type, FlatSymbolRefAttr::get(module.getContext(), "missing"),
                              builder.getStringAttr(key));
}

Value ModuleBuilder::weight(Location at, const WeightArchive &archive, llvm::StringRef key) {
  if (std::optional<WeightArchive::Tensor> tensor = archive.find(key))
    return weight(at, *tensor);
  errors.report(archive.missing(key));
  return missingWeight(at, key, RankedTensorType::get({1}, builder.getF32Type()));
}

Value ModuleBuilder::weight(Location at, const WeightArchive::Tensor &tensor) {
  Value &value = weights[tensor.file->symbol + "/" + tensor.entry->name];
  if (value)
    return value;
  MLIRContext *context = module.getContext();
  bool areBlocks = tensor.gguf && !tensor.gguf->isPlain();
  Type element = areBlocks ? builder.getF32Type() : elementType(tensor.entry->dtype, context);
  if (!element || (areBlocks && !tensor.gguf->type->isDecoded)) {
    errors.report(tensor.file->name + ": tensor '" + tensor.entry->name + "' is of dtype " +
                  (areBlocks ? llvm::StringRef(tensor.gguf->type->name) : tensor.entry->dtype) +
                  ", whose elements are not imported");
    return value = missingWeight(at, tensor.entry->name, RankedTensorType::get(tensor.shape(), builder.getF32Type()));
  }
  if (!areBlocks)
    return value = rawWeight(at, tensor, RankedTensorType::get(tensor.shape(), element));
  Value blocks = rawWeight(at, tensor, RankedTensorType::get(tensor.entry->shape, builder.getI8Type()));
  return value = dequantize(at, {blocks}, RankedTensorType::get(tensor.shape(), element),
                            nn::GgmlTypeAttr::get(context, llvm::StringRef(tensor.gguf->type->keyword)));
}

Value ModuleBuilder::dequantize(Location at, const QuantizedParts &parts, RankedTensorType type,
                                BlockFormatAttrInterface format) {
  return nn::DequantizeOp::create(builder, at, type, parts.values, parts.scales, parts.zeroPoints, parts.tensorScale,
                                  parts.groupIndices, parts.codebook, format);
}

//===-- Views -------------------------------------------------------------------------------------------------===//

Value ModuleBuilder::reshape(Location at, Value tensor, llvm::ArrayRef<int64_t> shape) {
  auto before = cast<RankedTensorType>(tensor.getType());
  auto type = RankedTensorType::get(shape, before.getElementType());
  if (before == type)
    return tensor;
  bool isExpanded = type.getRank() > before.getRank();
  if (auto groups = before.getRank() == type.getRank() ? std::nullopt : getReassociationIndicesForReshape(before, type))
    return isExpanded ? Value(tensor::ExpandShapeOp::create(builder, at, type, tensor, *groups))
                      : Value(tensor::CollapseShapeOp::create(builder, at, type, tensor, *groups));
  auto allOf = [](RankedTensorType type) {
    return llvm::SmallVector<ReassociationIndices>{llvm::to_vector<2>(llvm::seq<int64_t>(0, type.getRank()))};
  };
  Value flat = before.getRank() == 1 ? tensor : tensor::CollapseShapeOp::create(builder, at, tensor, allOf(before));
  return type.getRank() == 1 ? flat : Value(tensor::ExpandShapeOp::create(builder, at, type, flat, allOf(type)));
}

Value ModuleBuilder::permute(Location at, Value tensor, llvm::ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return tensor;
  llvm::ArrayRef<int64_t> before = cast<RankedTensorType>(tensor.getType()).getShape();
  Shape shape;
  for (int64_t dimension : permutation)
    shape.push_back(before[dimension]);
  return transpose(at, tensor, shape, permutation);
}

Value ModuleBuilder::slice(Location at, Value tensor, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes) {
  // One dimension after another: the packer takes parts along one.
  for (size_t dimension = 0; dimension < sizes.size(); ++dimension) {
    llvm::SmallVector<int64_t> shape(cast<RankedTensorType>(tensor.getType()).getShape());
    if (shape[dimension] == sizes[dimension])
      continue;
    Shape from(shape.size(), 0);
    from[dimension] = offsets[dimension];
    shape[dimension] = sizes[dimension];
    Shape to(shape.begin(), shape.end());
    tensor = part(at, tensor, from, to, to);
  }
  return tensor;
}

namespace {
/// A dimension of a tensor of whole strides, which lies in memory without gaps: a view has `size` of its `whole`
/// elements.
struct StridedDimension {
  int64_t size, stride, whole = 1, offset = 0;
  int64_t position; ///< in the view; behind all of them if it has none
};
} // namespace

/// Gives the dimensions, from the outermost to the innermost, their whole sizes. Returns false if a step along one is
/// no multiple of the whole dimension inside of it.
static bool nest(llvm::MutableArrayRef<StridedDimension> dimensions) {
  for (size_t i = 1; i < dimensions.size(); ++i) {
    StridedDimension &inner = dimensions[i];
    int64_t outer = dimensions[i - 1].stride;
    if (inner.stride == 0 || outer % inner.stride != 0 || outer / inner.stride < inner.size)
      return false;
    inner.whole = outer / inner.stride;
  }
  return true;
}

/// Finds the element that a tensor of whole strides begins at: at `offset`, where the view begins, or so far before it
/// that the last row ends with the `elements`, and so that the view wraps in no dimension. Returns nullopt if there is
/// none.
static std::optional<int64_t> beginOf(llvm::MutableArrayRef<StridedDimension> dimensions, int64_t offset,
                                      int64_t elements) {
  StridedDimension &outermost = dimensions.front();
  outermost.whole = outermost.size;
  int64_t before = std::max<int64_t>(0, offset + outermost.stride * outermost.size - elements);
  while (before <= offset && before < outermost.stride) {
    int64_t rest = before;
    size_t number = 1;
    for (; number < dimensions.size(); ++number) {
      StridedDimension &dimension = dimensions[number];
      dimension.offset = rest / dimension.stride;
      rest %= dimension.stride;
      if (dimension.offset + dimension.size > dimension.whole)
        break;
    }
    if (number == dimensions.size())
      return offset - before;
    int64_t outer = dimensions[number - 1].stride;
    before = (before / outer + 1) * outer;
  }
  return std::nullopt;
}

Value ModuleBuilder::stridedView(Location at, llvm::StringRef name, Value tensor, int64_t offset,
                                 llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides) {
  auto flat = cast<RankedTensorType>(tensor.getType());
  auto describe = [&] {
    return ("'" + name + "': a view of sizes " + shapeText(sizes) + ", strides " + shapeText(strides) + ", offset " +
            llvm::Twine(offset))
        .str();
  };
  auto fail = [&](const llvm::Twine &why) -> Value {
    errors.report(describe() + " of a tensor of " + llvm::Twine(flat.getNumElements()) + " elements " + why);
    llvm::SmallVector<int64_t> positive(sizes);
    for (int64_t &size : positive)
      size = std::max<int64_t>(size, 0);
    return missingWeight(at, name, RankedTensorType::get(positive, flat.getElementType()));
  };
  int64_t elements = flat.getNumElements(), last = offset;
  auto isNegative = [](int64_t number) { return number < 0; };
  if (sizes.size() != strides.size() || offset < 0 || llvm::any_of(sizes, isNegative) ||
      llvm::any_of(strides, isNegative))
    return fail("has a negative number or not a stride for each size");
  tensor = reshape(at, tensor, {elements});
  if (llvm::is_contained(sizes, 0))
    return reshape(at, slice(at, tensor, {0}, {0}), sizes);
  llvm::SmallVector<StridedDimension> dimensions;
  for (auto [position, size, stride] : llvm::enumerate(sizes, strides)) {
    int64_t reach;
    if (llvm::MulOverflow(size - 1, stride, reach) || llvm::AddOverflow(last, reach, last))
      last = elements;
    if (size != 1)
      dimensions.push_back({size, stride, 1, 0, int64_t(position)});
  }
  if (last >= elements)
    return fail("reaches outside of it");
  llvm::stable_sort(
      dimensions, [](const StridedDimension &one, const StridedDimension &other) { return one.stride > other.stride; });
  if (dimensions.empty() || dimensions.back().stride != 1)
    dimensions.push_back({1, 1, 1, 0, int64_t(sizes.size())});
  std::optional<int64_t> begin;
  if (!nest(dimensions) || !(begin = beginOf(dimensions, offset, elements)))
    return fail("is none that slices, transposes and reshapes make; store a copy of the view");
  tensor = slice(at, tensor, {*begin}, {dimensions.front().stride * dimensions.front().whole});
  // A dimension of one element lies behind the one that the view has before it, so that no other has to move.
  for (auto [position, size] : llvm::enumerate(sizes)) {
    if (size != 1)
      continue;
    auto before = llvm::find_if(dimensions, [before = int64_t(position) - 1](const StridedDimension &dimension) {
      return dimension.position == before;
    });
    dimensions.insert(position == 0 ? dimensions.begin() : std::next(before),
                      StridedDimension{1, 1, 1, 0, int64_t(position)});
  }
  llvm::SmallVector<int64_t> whole, offsets, shape;
  llvm::SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, dimensions.size()));
  llvm::stable_sort(order,
                    [&](int64_t one, int64_t other) { return dimensions[one].position < dimensions[other].position; });
  for (const StridedDimension &dimension : dimensions)
    whole.push_back(dimension.whole);
  for (int64_t number : order) {
    offsets.push_back(dimensions[number].offset);
    shape.push_back(dimensions[number].size);
  }
  Value view = permute(at, reshape(at, tensor, whole), order);
  return reshape(at, slice(at, view, offsets, shape), sizes);
}

} // namespace intarsia::importer
