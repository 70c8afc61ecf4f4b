//===- FunctionCaches.cpp - The key/value caches of a function ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/FunctionCaches.h"

#include "intarsia/Analysis/ControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace intarsia {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The value that a tensor of a cache was before the ops that update it and the control flow that passes it on.
Value originOf(Value value) {
  while (true) {
    if (auto append = value.getDefiningOp<nn::CacheAppendOp>())
      value = append.getUpdatedOperand(cast<OpResult>(value).getResultNumber()).get();
    else if (SmallVector<Value> sources = sourcesOf(value); !sources.empty())
      value = sources.front(); // what a loop begins with; the lower phase checks that all are the same cache
    else
      return value;
  }
}

/// An argument and all values that it is updated to or passed on as.
SmallVector<Value> versionsOf(BlockArgument argument) {
  llvm::SetVector<Value> versions;
  versions.insert(argument);
  for (unsigned i = 0; i < versions.size(); ++i)
    for (OpOperand &use : versions[i].getUses()) {
      if (auto append = dyn_cast<nn::CacheAppendOp>(use.getOwner()))
        for (OpResult result : append->getResults())
          if (&append.getUpdatedOperand(result.getResultNumber()) == &use)
            versions.insert(result);
      versions.insert_range(targetsOf(use));
    }
  return versions.takeVector();
}

/// The type of a function is that of its arguments and of what it returns.
void updateType(func::FuncOp function) {
  function.setFunctionType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                             function.back().getTerminator()->getOperandTypes()));
}

class Collector {
public:
  explicit Collector(func::FuncOp function) : function(function) {}

  LogicalResult add(Operation *op) {
    if (auto append = dyn_cast<nn::CacheAppendOp>(op))
      return append.getTail() ? addTail(append) : add(op, append.getFormat(), append.getCache());
    if (auto attention = dyn_cast<nn::CachedAttentionOp>(op))
      return failure(failed(add(op, attention.getKeyFormat(), attention.getKeys())) ||
                     failed(add(op, attention.getValueFormat(), attention.getValues())));
    return success();
  }

  SmallVector<FunctionCache> caches;

private:
  BlockArgument stateOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(originOf(value));
    bool isState = argument && argument.getOwner() == &function.front() &&
                   function.getArgAttr(argument.getArgNumber(), "nn.state");
    return isState ? argument : BlockArgument();
  }

  LogicalResult add(Operation *op, nn::CacheFormatAttr format, ValueRange values) {
    SmallVector<BlockArgument> tensors;
    for (Value value : values)
      tensors.push_back(stateOf(value));
    if (llvm::is_contained(tensors, BlockArgument())) {
      if (!format.isOpen())
        return success(); // laid out by hand: nothing is left to decide
      return op->emitOpError() << "is of a cache " << format
                               << " that is no argument with nn.state, so that its pages cannot be laid out";
    }
    if (format.isOpen() && !function.getBody().hasOneBlock())
      return op->emitOpError() << "is of a cache " << format
                               << " in a function of several blocks, whose pages cannot be laid out";
    auto [entry, isNew] = numbers.try_emplace(tensors.front(), caches.size());
    if (isNew)
      caches.push_back({nameOf(tensors.front()), format, tensors, {}});
    FunctionCache &cache = caches[entry->second];
    if (cache.format != format || cache.tensors != tensors)
      return op->emitOpError() << "uses the cache '" << cache.name << "' as " << format << ", another op as "
                               << cache.format;
    cache.users.push_back(op);
    return success();
  }

  LogicalResult addTail(nn::CacheAppendOp op) {
    BlockArgument tail = stateOf(op.getCache().front());
    auto *cache =
        llvm::find_if(caches, [&](FunctionCache &one) { return tail && llvm::is_contained(one.tensors, tail); });
    if (cache != caches.end() && cache->format == op.getFormat()) {
      cache->users.push_back(op);
      return success();
    }
    if (!op.getFormat().isOpen())
      return success();
    return op.emitOpError() << "updates the tail of a cache " << op.getFormat() << " that no op before it uses";
  }

  std::string nameOf(BlockArgument argument) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name");
    return name ? name.str() : "arg" + std::to_string(argument.getArgNumber());
  }

  func::FuncOp function;
  DenseMap<Value, size_t> numbers;
};

} // namespace

FailureOr<SmallVector<FunctionCache>> findCaches(func::FuncOp function) {
  Collector collector(function);
  if (function.isExternal())
    return std::move(collector.caches);
  WalkResult walked = function.walk([&](Operation *op) { return WalkResult(collector.add(op)); });
  if (walked.wasInterrupted())
    return failure();
  return std::move(collector.caches);
}

//===-- Another format with as many tensors --------------------------------------------------------------------===//

/// The name of a dimension of an argument; null if it has none.
static StringAttr sizeName(func::FuncOp function, unsigned argument, int64_t dimension) {
  auto names = function.getArgAttrOfType<ArrayAttr>(argument, "nn.sizes");
  auto name = names && dimension >= 0 ? dyn_cast<StringAttr>(names[dimension]) : StringAttr();
  return name && !name.empty() ? name : StringAttr();
}

/// Names for the dynamic dimensions of a tensor of a cache: its pages or sequences, and the tokens of a page.
static ArrayAttr sizeNames(const nn::CacheTensor &tensor, RankedTensorType type, StringAttr units, StringAttr slots) {
  Builder builder(type.getContext());
  SmallVector<Attribute> names(type.getRank(), builder.getStringAttr(""));
  if (units && type.isDynamicDim(0))
    names[0] = units;
  if (slots && tensor.slotDimension >= 0 && type.isDynamicDim(tensor.slotDimension))
    names[tensor.slotDimension] = slots;
  return builder.getArrayAttr(names);
}

/// Takes a size that calls no longer decide out of what the function says about its sizes.
static void dropSize(func::FuncOp function, StringAttr name) {
  for (StringRef attribute : {"nn.size_limits", "nn.expected_sizes"})
    if (auto values = function->getAttrOfType<DictionaryAttr>(attribute); values && values.contains(name)) {
      SmallVector<NamedAttribute> kept(values.begin(), values.end());
      llvm::erase_if(kept, [&](NamedAttribute value) { return value.getName() == name; });
      function->setAttr(attribute, DictionaryAttr::get(function.getContext(), kept));
    }
  if (auto empty = function->getAttrOfType<ArrayAttr>("nn.empty_sizes")) {
    SmallVector<Attribute> kept(empty.begin(), empty.end());
    llvm::erase(kept, Attribute(name));
    function->setAttr("nn.empty_sizes", ArrayAttr::get(function.getContext(), kept));
  }
}

/// Sizes of a tensor whose type changes are numbers where both types know them.
static void foldSizes(Value tensor, RankedTensorType type, int64_t slotDimension, int64_t page) {
  for (Operation *user : llvm::make_early_inc_range(tensor.getUsers())) {
    auto size = dyn_cast<tensor::DimOp>(user);
    if (!size)
      continue;
    if (size.use_empty()) {
      size.erase();
      continue;
    }
    std::optional<int64_t> dimension = size.getConstantIndex();
    if (!dimension || *dimension == 0)
      continue;
    bool isSlots = *dimension == slotDimension && type.isDynamicDim(slotDimension);
    if (isSlots && page == 0)
      continue;
    OpBuilder builder(size);
    Value number = arith::ConstantIndexOp::create(builder, size.getLoc(), isSlots ? page : type.getDimSize(*dimension));
    size.replaceAllUsesWith(number);
    size.erase();
  }
}

void setFormat(func::FuncOp function, FunctionCache &cache, nn::CacheFormatAttr format) {
  RankedTensorType elements = typeOf(cache.tensors.front());
  int64_t heads = elements.getDimSize(1), features = cache.format.getFeatures(elements);
  SmallVector<nn::CacheTensor> before = cache.format.getTensors(heads, features);
  SmallVector<nn::CacheTensor> after = format.getTensors(heads, features);
  for (auto [argument, old, tensor] : llvm::zip_equal(cache.tensors, before, after)) {
    RankedTensorType oldType = typeOf(argument), type = tensor.type(oldType.getDimSize(0));
    unsigned number = argument.getArgNumber();
    for (Value version : versionsOf(argument)) {
      foldSizes(version, oldType, old.slotDimension, format.getPage());
      version.setType(type);
    }
    StringAttr slots = sizeName(function, number, old.slotDimension);
    if (function.getArgAttr(number, "nn.sizes"))
      function.setArgAttr(number, "nn.sizes", sizeNames(tensor, type, sizeName(function, number, 0), slots));
    if (!format.isOpen() && old.slotDimension >= 0)
      dropSize(function,
               slots ? slots
                     : StringAttr::get(function.getContext(), "arg" + Twine(number) + "." + Twine(old.slotDimension)));
  }
  for (Operation *user : cache.users) {
    if (auto append = dyn_cast<nn::CacheAppendOp>(user))
      append.setFormatAttr(format);
    else if (format.getKind() == nn::CacheKind::Keys)
      cast<nn::CachedAttentionOp>(user).setKeyFormatAttr(format);
    else
      cast<nn::CachedAttentionOp>(user).setValueFormatAttr(format);
  }
  updateType(function);
  cache.format = format;
}

//===-- Quantized elements -------------------------------------------------------------------------------------===//

namespace {
/// Gives one cache the tensors of a format of quantized values.
class CacheQuantizer {
public:
  CacheQuantizer(func::FuncOp function, FunctionCache &cache, nn::CacheFormatAttr format)
      : function(function), cache(cache), format(format) {
    RankedTensorType elements = typeOf(cache.tensors.front());
    tensors = format.getTensors(elements.getDimSize(1), cache.format.getFeatures(elements));
  }

  LogicalResult run() {
    if (failed(checkBlocks()))
      return failure();
    if (format.hasTail() && failed(checkTail()))
      return failure();
    if (format.getUnrotated() && failed(findRotation()))
      return failure();
    RankedTensorType elements = typeOf(tensors.front());
    for (Value version : versionsOf(cache.tensors.front()))
      version.setType(elements);
    for (unsigned i = 1; i < tensors.size(); ++i)
      addArgument(i);
    if (format.hasTail())
      latest[cache.tensors[2]] = cache.tensors[2];
    parametersOf[cache.tensors[0]] = cache.tensors[1];
    for (Operation *&user : cache.users)
      rewrite(user);
    if (format.hasTail())
      updateTail();
    addResults();
    updateType(function);
    cache.format = format;
    return success();
  }

private:
  RankedTensorType typeOf(const nn::CacheTensor &tensor) {
    return tensor.type(tensor.isPaged ? intarsia::typeOf(cache.tensors.front()).getDimSize(0)
                                      : intarsia::typeOf(pageTable()).getDimSize(0));
  }
  static RankedTensorType typeOf(Value value) { return intarsia::typeOf(value); }

  Value pageTable() {
    for (Operation *user : cache.users)
      if (auto append = dyn_cast<nn::CacheAppendOp>(user))
        return append.getPageTable();
    return cast<nn::CachedAttentionOp>(cache.users.front()).getPageTable();
  }

  /// Checks that control flow neither uses the cache nor passes it on: it would have to pass on all tensors.
  LogicalResult checkBlocks() {
    bool isInside = llvm::any_of(cache.users, [&](Operation *user) { return user->getBlock() != &function.front(); });
    bool isPassed =
        llvm::any_of(versionsOf(cache.tensors.front()), [](Value version) { return !sourcesOf(version).empty(); });
    if (!isInside && !isPassed)
      return success();
    return emitError(cache.users.front()->getLoc())
           << "the cache '" << cache.name << "' is used in control flow, which would have to pass on all tensors of "
           << format << "; leave this cache as it is, or write its format into the file";
  }

  /// Attention reads the tail as it was before the rows of the one append.
  LogicalResult checkTail() {
    for (Operation *user : cache.users) {
      auto next = dyn_cast<nn::CacheAppendOp>(user);
      if (next && append)
        return next.emitOpError() << "is the second of '" << cache.name
                                  << "' in its function; quantized keys, whose last page lies in a tail, take one";
      if (next)
        append = next;
      else if (!append || cast<nn::CachedAttentionOp>(user).getKeys()[0] != append.getNewCache()[0])
        return user->emitOpError() << "reads '" << cache.name
                                   << "' before its new rows are appended, which quantized keys do not allow";
    }
    return success();
  }

  /// Finds out how keys are rotated by their positions, which unrotated ones are turned back by.
  LogicalResult findRotation() {
    rotation = append ? append.getRows().getDefiningOp<nn::RopeOp>() : nullptr;
    if (rotation || !append)
      return success();
    return append.emitOpError() << "stores rows in '" << cache.name
                                << "' that no nn.rope gives: keys without a rotary embedding are quantized as they "
                                   "are, int8 or int4";
  }

  /// "cache.0.keys" → "cache.0.key_parameters".
  StringAttr nameOf(StringAttr name, const nn::CacheTensor &tensor) {
    StringRef stem = name.getValue();
    stem.consume_back("s");
    return StringAttr::get(function.getContext(), stem + "_" + tensor.name);
  }

  void addArgument(unsigned index) {
    const nn::CacheTensor &tensor = tensors[index];
    Builder builder(function.getContext());
    unsigned first = cache.tensors.front().getArgNumber(), number = first + index;
    RankedTensorType type = typeOf(tensor);
    SmallVector<NamedAttribute> attributes = {builder.getNamedAttr("nn.state", builder.getUnitAttr())};
    if (auto name = function.getArgAttrOfType<StringAttr>(first, "nn.name"))
      attributes.push_back(builder.getNamedAttr("nn.name", nameOf(name, tensor)));
    if (function.getArgAttr(first, "nn.sizes")) {
      auto table = dyn_cast<BlockArgument>(pageTable());
      StringAttr units = tensor.isPaged ? sizeName(function, first, 0)
                         : table        ? sizeName(function, table.getArgNumber(), 0)
                                        : StringAttr();
      StringAttr slots = sizeName(function, first, cache.format.getSlotDimension());
      attributes.push_back(builder.getNamedAttr("nn.sizes", sizeNames(tensor, type, units, slots)));
    }
    (void)function.insertArgument(number, type, builder.getDictionaryAttr(attributes), cache.tensors.front().getLoc());
    cache.tensors.push_back(function.getArgument(number));
    // Results say by its number which argument they are.
    for (unsigned result = 0; result < function.getNumResults(); ++result)
      if (auto state = function.getResultAttrOfType<IntegerAttr>(result, "nn.state");
          state && state.getInt() >= int64_t(number))
        function.setResultAttr(result, "nn.state", builder.getI64IntegerAttr(state.getInt() + 1));
  }

  void rewrite(Operation *&user) {
    Value tail = format.hasTail() ? Value(cache.tensors[2]) : Value();
    if (auto attention = dyn_cast<nn::CachedAttentionOp>(user)) {
      bool isKeys = format.getKind() == nn::CacheKind::Keys;
      MutableOperandRange read = isKeys ? attention.getKeysMutable() : attention.getValuesMutable();
      read.append(parametersOf.lookup(read[0].get()));
      if (tail) {
        attention.getKeysMutable().append(tail);
        attention.getRowsMutable().assign(append.getRows());
      }
      if (rotation) {
        attention.getFrequenciesMutable().assign(rotation.getFrequencies());
        attention.setInterleaved(rotation.getInterleaved());
      }
      isKeys ? attention.setKeyFormatAttr(format) : attention.setValueFormatAttr(format);
      return;
    }
    auto old = cast<nn::CacheAppendOp>(user);
    OpBuilder builder(old);
    SmallVector<Value> operands = {old.getCache()[0], parametersOf.lookup(old.getCache()[0])};
    SmallVector<Type> types = {operands[0].getType(), operands[1].getType()};
    if (tail)
      operands.push_back(tail);
    auto made = nn::CacheAppendOp::create(builder, old.getLoc(), types, operands, old.getRows(), old.getPositions(),
                                          old.getSequences(), old.getPageTable(),
                                          rotation ? rotation.getFrequencies() : Value(), format, /*tail=*/false,
                                          /*interleaved=*/rotation && rotation.getInterleaved());
    made->setDiscardableAttrs(old->getDiscardableAttrDictionary());
    parametersOf[made.getNewCache()[0]] = made.getNewCache()[1];
    old.getNewCache()[0].replaceAllUsesWith(made.getNewCache()[0]);
    old.erase();
    user = made;
    append = made;
  }

  void updateTail() {
    if (!append)
      return;
    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfter(cache.users.back());
    auto made = nn::CacheAppendOp::create(builder, append.getLoc(), cache.tensors[2].getType(), cache.tensors[2],
                                          append.getRows(), append.getPositions(), append.getSequences(),
                                          /*page_table=*/Value(), /*frequencies=*/Value(), format, /*tail=*/true,
                                          /*interleaved=*/false);
    made->setDiscardableAttrs(append->getDiscardableAttrDictionary());
    latest[cache.tensors[2]] = made.getNewCache()[0];
    cache.users.push_back(made);
  }

  /// Returns the further tensors behind each result that is the tensor of elements.
  void addResults() {
    Operation *terminator = function.back().getTerminator();
    Builder builder(function.getContext());
    for (unsigned result = 0; result < terminator->getNumOperands(); ++result) {
      auto state = function.getResultAttrOfType<IntegerAttr>(result, "nn.state");
      if (!state || state.getInt() != int64_t(cache.tensors.front().getArgNumber()))
        continue;
      auto name = function.getResultAttrOfType<StringAttr>(result, "nn.name");
      Value elements = terminator->getOperand(result);
      for (unsigned i = 1; i < tensors.size(); ++i) {
        Value value = i == 1 ? parametersOf.lookup(elements) : latest.lookup(cache.tensors[i]);
        SmallVector<NamedAttribute> attributes = {
            builder.getNamedAttr("nn.state", builder.getI64IntegerAttr(cache.tensors[i].getArgNumber()))};
        if (name)
          attributes.push_back(builder.getNamedAttr("nn.name", nameOf(name, tensors[i])));
        (void)function.insertResult(result + i, value.getType(), builder.getDictionaryAttr(attributes));
        terminator->insertOperands(result + i, value);
      }
      return;
    }
  }

  func::FuncOp function;
  FunctionCache &cache;
  nn::CacheFormatAttr format;
  SmallVector<nn::CacheTensor> tensors;
  nn::CacheAppendOp append;            ///< the last one that was seen
  nn::RopeOp rotation;                 ///< that gives its rows; null if keys stay as they are
  DenseMap<Value, Value> parametersOf; ///< of each version of the elements
  DenseMap<Value, Value> latest;       ///< last version of a tail
};
} // namespace

LogicalResult quantizeCache(func::FuncOp function, FunctionCache &cache, nn::CacheFormatAttr format) {
  return CacheQuantizer(function, cache, format).run();
}

} // namespace intarsia
