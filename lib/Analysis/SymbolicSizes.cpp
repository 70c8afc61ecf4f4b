//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/SymbolicSizes.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Analysis/Assertions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace intarsia;

//===-- Values -------------------------------------------------------------------------------------------------===//

SymbolicSizes::SymbolicSizes(FunctionOpInterface function, SizesOf sizesOf)
    : context(function->getContext()),
      leastKnown(sizesOf == SizesOf::Call && !function->hasAttr("nn.continues") ? 1 : 0),
      empty(function->getAttrOfType<ArrayAttr>("nn.empty_sizes")),
      givenLimits(function->getAttrOfType<DictionaryAttr>("nn.size_limits")) {
  // A kernel is launched with the values of `sizes`, in that order.
  if (auto kernel = dyn_cast<rt::KernelOp>(function.getOperation()))
    for (StringRef name : kernel.getSizes().getAsValueRange<StringAttr>())
      symbol(name);
  if (function.isExternal())
    return;
  // Uniting symbols may make more of them equal; each round leaves fewer.
  do {
    sizes.clear();
    indices.clear();
    required.clear();
    unknowns = 0;
    visitArguments(function);
    for (Block &block : function.getFunctionBody())
      visitBlock(block);
    visitResults(function);
  } while (sizesOf == SizesOf::Call && replaceEqualSymbols());
  if (sizesOf == SizesOf::Call)
    settleLimits(function);
}

void SymbolicSizes::visitArguments(FunctionOpInterface function) {
  auto namesOf = [&](unsigned index) { return function.getArgAttrOfType<ArrayAttr>(index, "nn.sizes"); };
  auto kernel = dyn_cast<rt::KernelOp>(function.getOperation());
  llvm::StringSet<> given;
  for (unsigned index = 0; index != function.getNumArguments(); ++index)
    if (ArrayAttr names = namesOf(index))
      for (StringRef name : names.getAsValueRange<StringAttr>())
        given.insert(name);
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<ShapedType>(argument.getType());
    if (!type || !type.hasRank())
      continue;
    unsigned index = argument.getArgNumber();
    ArrayAttr names = namesOf(index);
    Sizes expressions;
    for (auto [dimension, size] : llvm::enumerate(type.getShape())) {
      if (!ShapedType::isDynamic(size)) {
        expressions.push_back(getAffineConstantExpr(size, context));
        continue;
      }
      std::string name;
      if (names && dimension < names.size())
        name = cast<StringAttr>(names[dimension]).str();
      if (kernel && !name.empty()) {
        expressions.push_back(normalize(kernel.parseSize(name).replaceSymbols(representative)));
        continue;
      }
      bool isGiven = !name.empty();
      if (!isGiven)
        name = llvm::formatv("arg{0}.{1}", index, dimension).str();
      while (!isGiven && given.contains(name))
        name += "_";
      expressions.push_back(symbol(name, isGiven));
      origins.try_emplace(symbolIds.lookup(name), Origin{index, static_cast<unsigned>(dimension)});
    }
    sizes[argument] = expressions;
  }
}

/// Requires equal sizes where a result shares a size name with an argument or another result.
void SymbolicSizes::visitResults(FunctionOpInterface function) {
  Block &block = function.getFunctionBody().back();
  if (isa<rt::KernelOp>(function.getOperation()) || !block.mightHaveTerminator())
    return;
  Operation *terminator = block.getTerminator();
  llvm::StringMap<AffineExpr> named;
  for (unsigned index = 0; index != function.getNumResults() && index < terminator->getNumOperands(); ++index) {
    auto names = function.getResultAttrOfType<ArrayAttr>(index, "nn.sizes");
    ArrayRef<AffineExpr> expressions = of(terminator->getOperand(index));
    if (!names || names.size() != expressions.size())
      continue;
    for (auto [name, expression] : llvm::zip_equal(names.getAsValueRange<StringAttr>(), expressions)) {
      if (name.empty())
        continue;
      auto argument = symbolIds.find(name);
      AffineExpr promised = argument != symbolIds.end() ? representative[argument->second] : nullptr;
      requireEqual(expression, promised ? promised : named.try_emplace(name, expression).first->second, terminator);
    }
  }
}

AffineExpr SymbolicSizes::symbol(StringRef name, bool isGiven) {
  auto [entry, inserted] = symbolIds.try_emplace(name, symbolNames.size());
  if (inserted) {
    representative.push_back(getAffineSymbolExpr(symbolNames.size(), context));
    symbolNames.push_back(name.str());
    isNameGiven.push_back(isGiven);
    auto limit = givenLimits ? givenLimits.getAs<IntegerAttr>(name) : IntegerAttr();
    limits.push_back(limit ? std::optional(limit.getInt()) : std::nullopt);
    emptySymbols.push_back(empty && llvm::is_contained(empty, StringAttr::get(context, name)));
  }
  return representative[entry->second];
}

ArrayRef<AffineExpr> SymbolicSizes::of(Value value) const {
  auto entry = sizes.find(value);
  return entry == sizes.end() ? ArrayRef<AffineExpr>() : ArrayRef<AffineExpr>(entry->second);
}

AffineExpr SymbolicSizes::ofIndex(Value value) const {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return getAffineConstantExpr(*constant, context);
  return indices.lookup(value);
}

std::optional<SymbolicSizes::Origin> SymbolicSizes::origin(unsigned symbol) const {
  auto found = origins.find(symbol);
  return found == origins.end() ? std::nullopt : std::optional(found->second);
}

bool SymbolicSizes::isKnown(AffineExpr expression) const {
  if (!expression)
    return false;
  bool known = true;
  expression.walk([&](AffineExpr part) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
      known &= symbolNames[symbol.getPosition()].front() != '?';
  });
  return known;
}

AffineExpr SymbolicSizes::expressionOf(OpFoldResult size) const {
  if (std::optional<int64_t> constant = getConstantIntValue(size))
    return getAffineConstantExpr(*constant, context);
  return ofIndex(cast<Value>(size));
}

/// Sets the sizes of a value. A static size comes from the type, and the inferred size must equal it. A dynamic size is
/// the inferred one, or unknown if that is null.
void SymbolicSizes::setSizes(Value value, ArrayRef<AffineExpr> inferred) {
  auto type = dyn_cast<ShapedType>(value.getType());
  if (!type || !type.hasRank())
    return;
  Operation *op = value.getDefiningOp();
  Sizes expressions;
  for (auto [dimension, size] : llvm::enumerate(type.getShape())) {
    AffineExpr expression = dimension < inferred.size() ? normalize(inferred[dimension]) : AffineExpr();
    if (!ShapedType::isDynamic(size)) {
      AffineExpr constant = getAffineConstantExpr(size, context);
      if (expression)
        requireEqual(expression, constant, op);
      expressions.push_back(constant);
    } else if (expression) {
      requireAtMost(getAffineConstantExpr(0, context), expression, op);
      expressions.push_back(expression);
    } else {
      expressions.push_back(symbol("?" + std::to_string(unknowns++), /*isGiven=*/false));
    }
  }
  sizes[value] = expressions;
}

void SymbolicSizes::visitBlock(Block &block) {
  for (Operation &op : block)
    visit(&op);
}

void SymbolicSizes::visit(Operation *op) {
  visitIndex(op);
  if (auto group = dyn_cast<nn::GroupOp>(op)) {
    Block &body = group.getBodyBlock();
    for (auto [argument, input] : llvm::zip_equal(body.getArguments(), group.getInputs())) {
      Sizes inputSizes(of(input));
      setSizes(argument, inputSizes);
    }
    visitBlock(body);
    for (auto [result, value] : llvm::zip_equal(group.getResults(), body.getTerminator()->getOperands())) {
      Sizes valueSizes(of(value));
      setSizes(result, valueSizes);
    }
    return;
  }
  // The values of control flow. What branches yield, and what loops carry, has one size.
  auto setAll = [&](ValueRange to, ValueRange from) {
    for (auto [value, source] : llvm::zip_equal(to, from)) {
      Sizes sourceSizes(of(source));
      setSizes(value, sourceSizes);
    }
  };
  auto requireSame = [&](ValueRange values, ValueRange others) {
    for (auto [value, other] : llvm::zip_equal(values, others))
      for (auto [left, right] : llvm::zip_equal(of(value), of(other)))
        requireEqual(left, right, op);
  };
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    visitBlock(*branch.thenBlock());
    if (branch.elseBlock()) {
      visitBlock(*branch.elseBlock());
      setAll(branch.getResults(), branch.thenYield().getOperands());
      requireSame(branch.thenYield().getOperands(), branch.elseYield().getOperands());
    }
    return;
  }
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    setAll(loop.getRegionIterArgs(), loop.getInitArgs());
    visitBlock(*loop.getBody());
    setAll(loop.getResults(), loop.getInitArgs());
    requireSame(loop.getInitArgs(), loop.getYieldedValues());
    return;
  }
  if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    setAll(loop.getBeforeArguments(), loop.getInits());
    visitBlock(*loop.getBeforeBody());
    setAll(loop.getAfterArguments(), loop.getConditionOp().getArgs());
    setAll(loop.getResults(), loop.getConditionOp().getArgs());
    visitBlock(*loop.getAfterBody());
    requireSame(loop.getInits(), loop.getYieldOp().getOperands());
    return;
  }
  if (visitShape(op))
    return;
  if (auto sized = dyn_cast<SizeOpInterface>(op)) {
    SmallVector<Sizes> operands;
    for (Value operand : op->getOperands())
      operands.emplace_back(of(operand));
    for (auto [left, right] : sized.getEqualSizes(operands))
      requireEqual(left, right, op);
    for (auto [least, size] : sized.getLeastSizes(operands))
      requireAtMost(least, size, op);
    if (auto indexed = dyn_cast<IndexOperandOpInterface>(op))
      for (const IndexOperand &index : indexed.getIndexOperands(operands))
        if (index.isGuarded) // the kernel reads something for any index
          requireAtMost(getAffineConstantExpr(1, context), index.limit, op);
    for (auto [result, inferred] : llvm::zip_equal(op->getResults(), sized.inferResultSizes(operands)))
      setSizes(result, inferred);
    return;
  }
  if (auto assertion = dyn_cast<cf::AssertOp>(op); assertion && assertion->hasAttr(assertsSizeAttr))
    requireOfAssertion(assertion);
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    requireOfLoops(linalgOp);
  if (auto destination = dyn_cast<DestinationStyleOpInterface>(op)) {
    for (OpResult result : op->getResults()) {
      Sizes initSizes(of(destination.getTiedOpOperand(result)->get()));
      setSizes(result, initSizes);
    }
    return;
  }
  // Elementwise ops: every ranked operand has the sizes of the result.
  Sizes elementwise;
  if (op->hasTrait<OpTrait::Elementwise>())
    for (Value operand : op->getOperands()) {
      Sizes operandSizes(of(operand));
      if (elementwise.size() == operandSizes.size())
        for (auto [left, right] : llvm::zip_equal(elementwise, operandSizes))
          requireEqual(left, right, op);
      else if (elementwise.empty())
        elementwise = operandSizes;
    }
  for (Value result : op->getResults())
    setSizes(result, elementwise);
}

void SymbolicSizes::visitIndex(Operation *op) {
  if (op->getNumResults() != 1 || !op->getResult(0).getType().isIntOrIndex())
    return;
  Value result = op->getResult(0);
  AffineExpr expression;
  auto operand = [&](unsigned index) { return ofIndex(op->getOperand(index)); };
  auto isBinary = [&] { return op->getNumOperands() == 2 && operand(0) && operand(1); };
  auto constant = [&](int64_t value) { return getAffineConstantExpr(value, context); };
  // AffineExpr rounds as the ops do if the divisor is positive and, where the sign matters, the dividend not negative.
  auto mayDivide = [&](bool mayBeNegative) {
    auto divisor = dyn_cast<AffineConstantExpr>(operand(1));
    if (divisor && divisor.getValue() < 1)
      return false;
    requireAtMost(constant(1), operand(1), op);
    if (!mayBeNegative)
      requireAtMost(constant(0), operand(0), op);
    return true;
  };
  if (std::optional<int64_t> value = getConstantIntValue(result)) {
    expression = constant(*value);
  } else if (auto dim = dyn_cast<tensor::DimOp>(op); dim && dim.getConstantIndex()) {
    ArrayRef<AffineExpr> source = of(dim.getSource());
    if (static_cast<size_t>(*dim.getConstantIndex()) < source.size())
      expression = source[*dim.getConstantIndex()];
  } else if (auto dim = dyn_cast<memref::DimOp>(op); dim && dim.getConstantIndex()) {
    ArrayRef<AffineExpr> source = of(dim.getSource());
    if (static_cast<size_t>(*dim.getConstantIndex()) < source.size())
      expression = source[*dim.getConstantIndex()];
  } else if (auto hostSymbol = dyn_cast<rt::SymbolOp>(op)) {
    expression = symbol(hostSymbol.getName());
  } else if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op)) {
    expression = operand(0);
  } else if (isBinary()) {
    if (isa<arith::AddIOp>(op))
      expression = operand(0) + operand(1);
    else if (isa<arith::SubIOp>(op))
      expression = operand(0) - operand(1);
    else if (isa<arith::MulIOp>(op))
      expression = operand(0) * operand(1);
    else if (isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op) && mayDivide(isa<arith::FloorDivSIOp>(op)))
      expression = operand(0).floorDiv(operand(1));
    else if (isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(op) && mayDivide(isa<arith::CeilDivSIOp>(op)))
      expression = operand(0).ceilDiv(operand(1));
    else if (isa<arith::RemUIOp, arith::RemSIOp>(op) && mayDivide(false))
      expression = operand(0) % operand(1);
    else if (isa<arith::MaxSIOp, arith::MaxUIOp, arith::MinSIOp, arith::MinUIOp>(op) && operand(0) == operand(1))
      expression = operand(0);
  }
  if (!expression)
    return;
  indices[result] = normalize(expression);
  // Narrow integers wrap around, expressions do not.
  auto type = dyn_cast<IntegerType>(result.getType());
  if (type && type.getWidth() < 64 && !isa<AffineConstantExpr>(indices[result])) {
    requireAtMost(indices[result], constant(APInt::getSignedMaxValue(type.getWidth()).getSExtValue()), op);
    requireAtMost(constant(APInt::getSignedMinValue(type.getWidth()).getSExtValue()), indices[result], op);
  }
  if (isa<arith::ExtUIOp, arith::IndexCastUIOp>(op))
    requireAtMost(constant(0), indices[result], op);
}

/// Returns how many ranks an op of the shard dialect is about, if its module says it.
static int64_t ranksOf(Operation *op) {
  auto name = op->getAttrOfType<FlatSymbolRefAttr>("grid");
  auto grid = name ? SymbolTable::lookupNearestSymbolFrom<shard::GridOp>(op, name) : shard::GridOp();
  auto axes = op->getAttrOfType<DenseI16ArrayAttr>("grid_axes");
  int64_t ranks = 1;
  for (int16_t axis : axes ? axes.asArrayRef() : ArrayRef<int16_t>())
    ranks *= grid && axis < int64_t(grid.getShape().size()) ? grid.getShape()[axis] : 1;
  return std::max<int64_t>(ranks, 1);
}

/// Sets the sizes of ops that make, view or concatenate tensors and buffers. Returns false for other ops.
bool SymbolicSizes::visitShape(Operation *op) {
  auto setFrom = [&](Value value, ArrayRef<OpFoldResult> mixed) {
    Sizes expressions;
    for (OpFoldResult size : mixed)
      expressions.push_back(expressionOf(size));
    setSizes(value, expressions);
  };
  auto setDynamic = [&](Value value, ValueRange dynamic) {
    Sizes expressions;
    for (int64_t size : cast<ShapedType>(value.getType()).getShape()) {
      bool isDynamic = ShapedType::isDynamic(size) && !dynamic.empty();
      expressions.push_back(isDynamic ? ofIndex(dynamic.front()) : AffineExpr());
      if (isDynamic)
        dynamic = dynamic.drop_front();
    }
    setSizes(value, expressions);
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](tensor::EmptyOp empty) {
        setFrom(empty, empty.getMixedSizes());
        return true;
      })
      .Case<tensor::SplatOp>([&](auto splat) {
        setDynamic(splat, splat.getDynamicSizes());
        return true;
      })
      .Case([&](tensor::GenerateOp generate) {
        setDynamic(generate, generate.getDynamicExtents());
        return true;
      })
      .Case<rt::AllocOp, rt::OutputOp>([&](auto buffer) {
        setDynamic(buffer.getResult(), buffer.getSizes());
        return true;
      })
      .Case<memref::AllocOp, memref::AllocaOp>([&](auto buffer) {
        setDynamic(buffer, buffer.getDynamicSizes());
        return true;
      })
      .Case([&](memref::ViewOp view) {
        setDynamic(view, view.getSizes());
        return true;
      })
      .Case<tensor::CastOp, memref::CastOp>([&](auto cast) {
        Sizes source(of(cast.getSource()));
        setSizes(cast, source);
        return true;
      })
      .Case<tensor::ExpandShapeOp, memref::ExpandShapeOp>([&](auto expand) {
        ArrayRef<AffineExpr> source = of(expand.getSrc());
        Sizes expressions;
        for (OpFoldResult size : expand.getMixedOutputShape())
          expressions.push_back(expressionOf(size));
        // The one missing size of a group follows from the others.
        for (auto [dimension, group] : llvm::enumerate(expand.getReassociationIndices())) {
          AffineExpr others = getAffineConstantExpr(1, context);
          SmallVector<int64_t> missing;
          for (int64_t part : group) {
            if (expressions[part])
              others = others * expressions[part];
            else
              missing.push_back(part);
          }
          if (missing.size() == 1) {
            expressions[missing[0]] = source[dimension].floorDiv(others);
            others = others * expressions[missing[0]];
          }
          requireEqual(others, missing.size() > 1 ? AffineExpr() : source[dimension], op);
        }
        setSizes(expand.getResult(), expressions);
        return true;
      })
      .Case<tensor::CollapseShapeOp, memref::CollapseShapeOp>([&](auto collapse) {
        ArrayRef<AffineExpr> source = of(collapse.getSrc());
        Sizes expressions;
        for (const ReassociationIndices &group : collapse.getReassociationIndices()) {
          AffineExpr product = getAffineConstantExpr(1, context);
          for (int64_t part : group)
            product = product * source[part];
          expressions.push_back(product);
        }
        setSizes(collapse.getResult(), expressions);
        return true;
      })
      .Case([&](tensor::ExtractSliceOp slice) {
        llvm::SmallBitVector dropped = slice.getDroppedDims();
        SmallVector<OpFoldResult> kept;
        for (auto [dimension, size] : llvm::enumerate(slice.getMixedSizes()))
          if (!dropped.test(dimension))
            kept.push_back(size);
        setFrom(slice, kept);
        requireOfSlice(slice);
        return true;
      })
      .Case([&](tensor::PadOp pad) {
        ArrayRef<AffineExpr> source = of(pad.getSource());
        Sizes expressions;
        for (auto [size, low, high] : llvm::zip_equal(source, pad.getMixedLowPad(), pad.getMixedHighPad())) {
          AffineExpr before = expressionOf(low), after = expressionOf(high);
          expressions.push_back(before && after ? size + before + after : AffineExpr());
        }
        setSizes(pad, expressions);
        return true;
      })
      .Case([&](tensor::ConcatOp concat) {
        Sizes expressions(of(concat.getInputs().front()));
        AffineExpr &joined = expressions[concat.getDim()];
        for (Value input : concat.getInputs().drop_front())
          for (auto [dimension, size] : llvm::enumerate(of(input))) {
            if (dimension == concat.getDim())
              joined = joined + size;
            else
              requireEqual(expressions[dimension], size, op);
          }
        setSizes(concat, expressions);
        return true;
      })
      .Case([&](shard::AllToAllOp exchange) {
        Sizes exchanged(of(exchange.getInput()));
        int64_t ranks = ranksOf(exchange), split = exchange.getSplitAxis().getSExtValue(),
                concat = exchange.getConcatAxis().getSExtValue();
        if (split != concat) {
          exchanged[split] = exchanged[split].floorDiv(ranks);
          exchanged[concat] = exchanged[concat] * ranks;
        }
        setSizes(exchange.getResult(), exchanged);
        return true;
      })
      .Case<shard::AllReduceOp, shard::BroadcastOp, shard::SendOp, shard::RecvOp>([&](auto exchange) {
        Sizes source(of(exchange.getInput()));
        setSizes(exchange.getResult(), source);
        return true;
      })
      .Case([&](shard::AllGatherOp gather) {
        Sizes gathered(of(gather.getInput()));
        int64_t axis = gather.getGatherAxis().getSExtValue();
        gathered[axis] = gathered[axis] * ranksOf(gather);
        setSizes(gather.getResult(), gathered);
        return true;
      })
      .Case([&](shard::ReduceScatterOp scatter) {
        Sizes scattered(of(scatter.getInput()));
        int64_t axis = scatter.getScatterAxis().getSExtValue();
        scattered[axis] = scattered[axis].ceilDiv(ranksOf(scatter));
        setSizes(scatter.getResult(), scattered);
        return true;
      })
      .Default([](Operation *) { return false; });
}
