//===- KernelTable.cpp - One kernel for each different group -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/KernelTable.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace intarsia::lower {
namespace {

/// "add" of arith.addf, "layer_norm" of nn.layer_norm; empty for ops that say nothing about a kernel.
std::string verbOf(Operation &op) {
  StringRef dialect = op.getName().getDialectNamespace();
  StringRef verb = op.getName().stripDialect();
  if (dialect == "tensor" || verb == "constant" || verb == "yield" || verb == "fill" || verb == "index_cast")
    return "";
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return generic.getNumReductionLoops() ? "reduce" : "map";
  if (dialect == "arith") {
    if (llvm::all_of(op.getResultTypes(), [](Type type) { return !isa<ShapedType>(type); }))
      return "";
    if (verb.size() == 4 && (verb.ends_with("f") || verb.ends_with("i")))
      verb = verb.drop_back();
  }
  return verb.str();
}

std::string sizesText(ArrayRef<int64_t> sizes) {
  std::string text;
  for (int64_t size : sizes)
    if (!ShapedType::isDynamic(size))
      text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// `<root>_<ops…>_<static sizes>`: readable, not necessarily unique.
std::string nameOf(rt::KernelOp kernel) {
  constexpr unsigned maximalVerbs = 4; // beyond that a name is no easier to tell from others
  std::string name = stringifyKernelRoot(kernel.getRoot()).str(), sizes;
  llvm::StringSet<> seen;
  seen.insert(name);
  unsigned verbs = 0;
  Block &body = kernel.getBody().front();
  for (Operation &op : body.without_terminator()) {
    std::string verb = verbOf(op);
    if (!verb.empty() && seen.insert(verb).second && verbs++ < maximalVerbs)
      name += "_" + verb;
    if (!sizes.empty())
      continue;
    auto contraction = dyn_cast<ContractionOpInterface>(op);
    if (contraction && contraction.givesSums() && contraction.hasStoredRight()) {
      ContractionMaps maps = contraction.getMaps();
      auto weight = cast<RankedTensorType>(contraction.getRight().getType());
      SmallVector<int64_t> depthAndColumns;
      for (ContractionLoop kind : {ContractionLoop::Depth, ContractionLoop::Column})
        for (unsigned loop : maps.loops(kind))
          if (std::optional<int64_t> dimension = dimensionOf(maps.right, loop))
            depthAndColumns.push_back(weight.getDimSize(*dimension));
      sizes = sizesText(depthAndColumns);
    } else if (auto attention = dyn_cast<nn::AttentionOp>(op)) {
      sizes = sizesText(cast<RankedTensorType>(attention.getQuery().getType()).getShape().take_back(2));
    }
  }
  if (sizes.empty() && body.getTerminator()->getNumOperands())
    sizes = sizesText(cast<RankedTensorType>(body.getTerminator()->getOperand(0).getType()).getShape());
  return sizes.empty() ? name : name + "_" + sizes;
}

void collectNames(Location location, SmallVectorImpl<StringRef> &names) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    if (!llvm::is_contained(names, name.getName().getValue()))
      names.push_back(name.getName().getValue());
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collectNames(part, names);
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    collectNames(call.getCallee(), names);
  }
}

/// Names the dynamic sizes of a kernel's values; equal expressions have one name. What follows from sizes that the
/// kernel's operands have is written as an expression in them, so that the kernel knows it too: the rows of one operand
/// are those of another whose outer dimensions it collapses.
class KernelSizes {
public:
  KernelSizes(Builder &builder, const SymbolicSizes &sizes, ValueRange operands) : builder(builder), sizes(sizes) {
    for (Value operand : operands)
      for (AffineExpr size : sizes.of(operand))
        if (isa<AffineSymbolExpr>(size))
          given.insert(size);
  }

  /// `nn.sizes` of a value, null if all its sizes are static; failure if one is not known.
  FailureOr<ArrayAttr> of(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.hasStaticShape())
      return ArrayAttr();
    SmallVector<Attribute> texts;
    for (auto [size, expression] : llvm::zip_equal(type.getShape(), sizes.of(value))) {
      if (!ShapedType::isDynamic(size)) {
        texts.push_back(builder.getStringAttr(""));
        continue;
      }
      if (!sizes.isKnown(expression))
        return failure();
      std::string text;
      llvm::raw_string_ostream(text) << (follows(expression) ? inKernel(expression) : symbolOf(expression));
      texts.push_back(builder.getStringAttr(text));
    }
    return builder.getArrayAttr(texts);
  }

  SmallVector<Attribute> names;
  SmallVector<AffineExpr> expressions;

private:
  /// The kernel's symbol for an expression in those of the function. It prints as its name.
  AffineExpr symbolOf(AffineExpr expression) {
    auto [entry, isNew] = symbolIndices.try_emplace(expression, names.size());
    AffineExpr symbol = builder.getAffineSymbolExpr(entry->second);
    if (isNew) {
      std::string name;
      llvm::raw_string_ostream(name) << symbol;
      names.push_back(builder.getStringAttr(name));
      expressions.push_back(expression);
    }
    return symbol;
  }

  /// True if a size is a function of sizes that operands have as they are.
  bool follows(AffineExpr expression) const {
    bool hasSymbol = false, hasOther = false;
    expression.walk([&](AffineExpr part) {
      if (isa<AffineSymbolExpr>(part))
        (given.contains(part) ? hasSymbol : hasOther) = true;
    });
    return hasSymbol && !hasOther;
  }

  AffineExpr inKernel(AffineExpr expression) {
    DenseMap<AffineExpr, AffineExpr> replacements;
    expression.walk([&](AffineExpr part) {
      if (isa<AffineSymbolExpr>(part))
        replacements[part] = symbolOf(part);
    });
    return expression.replace(replacements);
  }

  Builder &builder;
  const SymbolicSizes &sizes;
  DenseSet<AffineExpr> given; // symbols that are the size of a dimension of an operand
  DenseMap<AffineExpr, unsigned> symbolIndices;
};

} // namespace

std::string labelOf(nn::GroupOp group) {
  SmallVector<StringRef> names;
  KernelRoot kind = group.getRoot();
  for (Operation &op : group.getBodyBlock().without_terminator())
    if (auto root = dyn_cast<KernelRootOpInterface>(op);
        root && kind != KernelRoot::Rows && kind != KernelRoot::Generic && root.getKernelRoot() == kind)
      collectNames(op.getLoc(), names);
  if (names.empty())
    collectNames(group.getLoc(), names);
  for (Operation &op : group.getBodyBlock().without_terminator())
    if (names.empty())
      collectNames(op.getLoc(), names);
  return llvm::join(names, ", ");
}

std::string labelOf(Location location) {
  SmallVector<StringRef> names;
  collectNames(location, names);
  return llvm::join(names, ", ");
}

/// If ops read only those parts along the first dimension of a weight that indices choose, returns the indices: the
/// weight need not be in memory as a whole. Null for other weights.
static Value indicesOf(Value weight) {
  Value indices;
  for (OpOperand &use : weight.getUses()) {
    auto embedding = dyn_cast<nn::EmbeddingOp>(use.getOwner());
    auto experts = dyn_cast<nn::ExpertsOp>(use.getOwner());
    Value own;
    if (embedding && &use == &embedding.getTableMutable())
      own = embedding.getIndices();
    else if (experts && (&use == &experts.getGateUpMutable() || &use == &experts.getDownMutable()))
      own = experts.getIndices();
    if (!own || (indices && own != indices))
      return nullptr;
    indices = own;
  }
  return indices;
}

FailureOr<KernelUse> KernelTable::add(nn::GroupOp group, FlatSymbolRefAttr device,
                                      ArrayRef<rt::LayoutAttrInterface> layouts, const SymbolicSizes &sizes) {
  OpBuilder builder(group.getContext());
  KernelSizes names(builder, sizes, group.getInputs());
  auto attributesOf = [&](Value value, rt::LayoutAttrInterface layout, Value argument) -> FailureOr<DictionaryAttr> {
    FailureOr<ArrayAttr> texts = names.of(value);
    if (failed(texts))
      return group.emitError() << "a size of " << value.getType()
                               << " is not a function of the sizes of the inputs, so no buffer can be made for it ("
                               << labelOf(group) << ")";
    SmallVector<NamedAttribute> attributes;
    if (*texts)
      attributes.push_back(builder.getNamedAttr("nn.sizes", *texts));
    if (layout)
      attributes.push_back(builder.getNamedAttr("rt.layout", layout));
    if (Value indices = layout ? indicesOf(argument) : Value()) {
      auto known = dyn_cast<BlockArgument>(indices); // else they are computed in the kernel
      int64_t number = known ? int64_t(known.getArgNumber()) : -1;
      attributes.push_back(builder.getNamedAttr("rt.gathered", builder.getI64IntegerAttr(number)));
    }
    return builder.getDictionaryAttr(attributes);
  };
  SmallVector<Attribute> argumentAttributes, resultAttributes;
  for (auto [operand, layout, argument] :
       llvm::zip_equal(group.getInputs(), layouts, group.getBodyBlock().getArguments())) {
    auto attributes = attributesOf(operand, layout, argument);
    if (failed(attributes))
      return failure();
    argumentAttributes.push_back(*attributes);
  }
  for (Value result : group.getResults()) {
    auto attributes = attributesOf(result, nullptr, nullptr);
    if (failed(attributes))
      return failure();
    resultAttributes.push_back(*attributes);
  }

  auto type = builder.getFunctionType(group.getBodyBlock().getArgumentTypes(), group.getResultTypes());
  OperationState state(group.getLoc(), rt::KernelOp::getOperationName());
  state.addAttribute("sym_name", builder.getStringAttr(""));
  state.addAttribute("function_type", TypeAttr::get(type));
  state.addAttribute("sizes", builder.getArrayAttr(names.names));
  state.addAttribute("root", group.getRootAttr());
  state.addAttribute("device", device);
  state.addAttribute("arg_attrs", builder.getArrayAttr(argumentAttributes));
  state.addAttribute("res_attrs", builder.getArrayAttr(resultAttributes));
  state.addRegion()->takeBody(group.getBody());
  auto kernel = cast<rt::KernelOp>(Operation::create(state));
  Operation *terminator = kernel.getBody().front().getTerminator();
  builder.setInsertionPoint(terminator);
  rt::YieldOp::create(builder, terminator->getLoc(), terminator->getOperands());
  terminator->erase();

  // The printed form without locations and name is the structure: symbols are numbered by first appearance, values too.
  std::string structure;
  llvm::raw_string_ostream stream(structure);
  kernel->print(stream, OpPrintingFlags().useLocalScope().printGenericOpForm());
  auto [entry, isNew] = byStructure.try_emplace(structure, kernel);
  if (!isNew) {
    kernel->erase();
    return KernelUse{entry->second, names.expressions};
  }
  kernel.setSymName(nameOf(kernel));
  symbols.insert(kernel, Block::iterator(before));
  return KernelUse{kernel, names.expressions};
}

} // namespace intarsia::lower
