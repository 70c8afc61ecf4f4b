//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Agent/Agent.h"

#include "dialects/Fleet/Figures.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

/// Verifies that probabilities are between 0 and 1 and sum to 1, up to the rounding of written numbers.
static LogicalResult verifyProbabilities(Operation *op, StringRef what, ArrayRef<double> probabilities) {
  double sum = 0;
  std::string text;
  for (double probability : probabilities) {
    if (!(probability >= 0 && probability <= 1))
      return op->emitOpError() << what << " " << figureText(probability) << " is not between 0 and 1";
    sum += probability;
    text += (text.empty() ? "" : ", ") + figureText(probability);
  }
  if (std::fabs(sum - 1) > 1e-6)
    return op->emitOpError() << what << " are " << text << ", which sum to " << figureText(std::round(sum * 1e9) / 1e9)
                             << ", must sum to 1";
  return success();
}

static LogicalResult verifyYield(Operation *op, const Twine &where, Block &block, TypeRange results) {
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield)
    return op->emitOpError() << where << " must end with agent.yield";
  if (yield.getValues().getTypes() != results)
    return yield.emitOpError() << "of " << where << " gives (" << yield.getValues().getTypes() << "), '"
                               << op->getName() << "' gives (" << results << ")";
  return success();
}

/// Replaces an op by the ops of its region, with `arguments` for the region's arguments.
static void inlineRegion(PatternRewriter &rewriter, Operation *op, Region &region, ValueRange arguments) {
  auto yield = cast<YieldOp>(region.front().getTerminator());
  rewriter.inlineBlockBefore(&region.front(), op, arguments);
  SmallVector<Value> results(yield.getValues());
  rewriter.eraseOp(yield);
  rewriter.replaceOp(op, results);
}

//===-- Branches ----------------------------------------------------------------------------------------------===//

ParseResult BranchOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  SMLoc location = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("on")) && parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren))
    return failure();
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), location, result.operands))
    return failure();
  result.addTypes(type.getResults());
  SmallVector<double> probabilities;
  SmallVector<Attribute> names;
  while (succeeded(parser.parseOptionalKeyword("case"))) {
    FloatAttr probability;
    StringAttr name;
    if (parseFigure(parser, probability) || parser.parseAttribute(name) || parser.parseRegion(*result.addRegion()))
      return failure();
    probabilities.push_back(probability.getValueAsDouble());
    names.push_back(name);
  }
  result.addAttribute(getProbabilitiesAttrName(result.name),
                      DenseF64ArrayAttr::get(parser.getContext(), probabilities));
  result.addAttribute(getNamesAttrName(result.name), parser.getBuilder().getArrayAttr(names));
  return success();
}

void BranchOp::print(OpAsmPrinter &printer) {
  if (!getOn().empty())
    printer << " on(" << getOn() << ')';
  printer.printOptionalAttrDict((*this)->getAttrs(), {getProbabilitiesAttrName(), getNamesAttrName()});
  printer << " : ";
  printer.printFunctionalType(getOn().getTypes(), getResultTypes());
  printer.increaseIndent();
  for (auto [probability, name, region] : llvm::zip_equal(getProbabilities(), getNames(), getCases())) {
    printer.printNewline();
    printer << "case " << figureText(probability) << ' ' << name << ' ';
    printer.printRegion(region, /*printEntryBlockArgs=*/false);
  }
  printer.decreaseIndent();
}

LogicalResult BranchOp::verify() {
  if (getCases().empty())
    return emitOpError() << "has no case";
  if (getProbabilities().size() != getCases().size() || getNames().size() != getCases().size())
    return emitOpError() << "has " << getCases().size() << " cases, " << getProbabilities().size()
                         << " probabilities and " << getNames().size() << " names";
  llvm::StringSet<> names;
  for (StringRef name : getNames().getAsValueRange<StringAttr>())
    if (name.empty() || !names.insert(name).second)
      return emitOpError() << "has " << (name.empty() ? "a case without a name" : "two cases of the name '") << name
                           << (name.empty() ? "" : "'");
  return verifyProbabilities(*this, "probabilities", getProbabilities());
}

LogicalResult BranchOp::verifyRegions() {
  for (auto [name, region] : llvm::zip_equal(getNames(), getCases())) {
    if (region.getNumArguments() != 0)
      return emitOpError() << "case " << name << " takes arguments, must take none";
    if (failed(
            verifyYield(*this, "case '" + cast<StringAttr>(name).getValue() + "'", region.front(), getResultTypes())))
      return failure();
  }
  return success();
}

namespace {
struct DropImpossibleCases : OpRewritePattern<BranchOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BranchOp branch, PatternRewriter &rewriter) const override {
    SmallVector<unsigned> kept;
    for (auto [index, probability] : llvm::enumerate(branch.getProbabilities()))
      if (probability > 0)
        kept.push_back(index);
    if (kept.size() == branch.getCases().size())
      return rewriter.notifyMatchFailure(branch, "every case is possible");
    SmallVector<double> probabilities;
    SmallVector<Attribute> names;
    for (unsigned index : kept) {
      probabilities.push_back(branch.getProbabilities()[index]);
      names.push_back(branch.getNames()[index]);
    }
    auto fewer =
        BranchOp::create(rewriter, branch.getLoc(), branch.getResultTypes(), branch.getOn(), probabilities,
                         rewriter.getArrayAttr(names), branch.getDecideAttr(), branch.getLabelAttr(), kept.size());
    fewer->setDiscardableAttrs(branch->getDiscardableAttrDictionary());
    for (auto [position, index] : llvm::enumerate(kept))
      rewriter.inlineRegionBefore(branch.getCases()[index], fewer.getCases()[position],
                                  fewer.getCases()[position].begin());
    rewriter.replaceOp(branch, fewer);
    return success();
  }
};

/// Inlines a branch of one case. The case no longer waits for the branch's operands that it does not need, which can
/// make a plan faster.
struct InlineOnlyCase : OpRewritePattern<BranchOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BranchOp branch, PatternRewriter &rewriter) const override {
    if (branch.getCases().size() != 1)
      return rewriter.notifyMatchFailure(branch, "there are several cases");
    if (!branch.getOn().empty())
      return rewriter.notifyMatchFailure(branch, "the case waits for what the branch is decided on");
    inlineRegion(rewriter, branch, branch.getCases().front(), {});
    return success();
  }
};
} // namespace

void BranchOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropImpossibleCases, InlineOnlyCase>(context);
}

//===-- Loops -------------------------------------------------------------------------------------------------===//

ParseResult LoopOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  AmountAttr runs;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseAssignmentList(arguments, operands) || parser.parseKeyword("runs") ||
      parser.parseCustomAttributeWithFallback(runs))
    return failure();
  result.addAttribute(getRunsAttrName(result.name), runs);
  if (succeeded(parser.parseOptionalKeyword("keeps_prefix")))
    result.addAttribute(getKeepsPrefixAttrName(result.name), parser.getBuilder().getUnitAttr());
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type))
    return failure();
  if (type.getNumInputs() != arguments.size())
    return parser.emitError(location) << "loop carries " << arguments.size() << " values, its type "
                                      << type.getNumInputs();
  if (parser.resolveOperands(operands, type.getInputs(), location, result.operands))
    return failure();
  for (auto [argument, input] : llvm::zip_equal(arguments, type.getInputs()))
    argument.type = input;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

static void printAssignments(OpAsmPrinter &printer, Block &block, ValueRange operands) {
  printer << '(';
  llvm::interleaveComma(llvm::zip(block.getArguments(), operands), printer,
                        [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
  printer << ')';
}

void LoopOp::print(OpAsmPrinter &printer) {
  printAssignments(printer, getBody().front(), getInitial());
  printer << " runs ";
  printer.printStrippedAttrOrType(getRunsAttr());
  if (getKeepsPrefix())
    printer << " keeps_prefix";
  printer.printOptionalAttrDict((*this)->getAttrs(), {getRunsAttrName(), getKeepsPrefixAttrName()});
  printer << " : ";
  printer.printFunctionalType(getInitial().getTypes(), getResultTypes());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult LoopOp::verify() {
  if (getRuns().getUnit() != Unit::Count)
    return emitOpError() << "runs are counted in " << stringifyUnit(getRuns().getUnit())
                         << ", must be a plain number: runs <3.2, max = 8>";
  FloatAttr max = getRuns().getMax();
  if (!max)
    return emitOpError() << "has no bound: a loop that may run for ever has no latency that could be promised; say how "
                            "often at most, such as runs <3.2, max = 8>";
  double most = max.getValueAsDouble();
  if (most != std::floor(most) || most > 100'000)
    return emitOpError() << "runs at most " << figureText(most) << " times, must be a whole number of at most 100000";
  if (getRunProbabilities()) {
    ArrayRef<double> probabilities = *getRunProbabilities();
    if (probabilities.size() > most)
      return emitOpError() << "has " << probabilities.size() << " run_probabilities, but runs at most "
                           << figureText(most) << " times";
    if (failed(verifyProbabilities(*this, "run_probabilities", probabilities)))
      return failure();
    double mean = 0;
    for (auto [index, probability] : llvm::enumerate(probabilities))
      mean += (index + 1) * probability;
    double said = getRuns().getMeanValue();
    if (getRuns().getMean() && std::fabs(mean - said) > 0.005 * mean)
      return emitOpError() << "runs " << figureText(said) << " times on average, by its run_probabilities "
                           << figureText(std::round(mean * 1e6) / 1e6);
  } else if (getRuns().getPercents()) {
    return emitOpError() << "says by percentiles how often it runs, must say a mean alone or run_probabilities";
  }
  if (getInitial().getTypes() != getResultTypes())
    return emitOpError() << "carries (" << getInitial().getTypes() << "), gives (" << getResultTypes()
                         << "), must be the same";
  return success();
}

LogicalResult LoopOp::verifyRegions() {
  if (getBody().getArgumentTypes() != getInitial().getTypes())
    return emitOpError() << "region takes (" << getBody().getArgumentTypes() << "), the loop carries ("
                         << getInitial().getTypes() << ")";
  return verifyYield(*this, "the loop", getBody().front(), getResultTypes());
}

namespace {
struct InlineSingleRun : OpRewritePattern<LoopOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(LoopOp loop, PatternRewriter &rewriter) const override {
    if (loop.getRuns().getMax().getValueAsDouble() != 1)
      return rewriter.notifyMatchFailure(loop, "may run again");
    inlineRegion(rewriter, loop, loop.getBody(), loop.getInitial());
    return success();
  }
};
} // namespace

void LoopOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<InlineSingleRun>(context);
}

//===-- Maps --------------------------------------------------------------------------------------------------===//

ParseResult MapOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  AmountAttr width, each;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseAssignmentList(arguments, operands) || parser.parseKeyword("width") ||
      parser.parseCustomAttributeWithFallback(width))
    return failure();
  result.addAttribute(getWidthAttrName(result.name), width);
  if (succeeded(parser.parseOptionalKeyword("each"))) {
    if (parser.parseCustomAttributeWithFallback(each))
      return failure();
    result.addAttribute(getEachAttrName(result.name), each);
  }
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type))
    return failure();
  if (arguments.size() != 1 || type.getNumInputs() != 1)
    return parser.emitError(location) << "map is over " << arguments.size() << " values, must be over one";
  if (parser.resolveOperands(operands, type.getInputs(), location, result.operands))
    return failure();
  arguments.front().type = type.getInput(0);
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

void MapOp::print(OpAsmPrinter &printer) {
  printAssignments(printer, getBody().front(), getOver());
  printer << " width ";
  printer.printStrippedAttrOrType(getWidthAttr());
  if (getEachAttr()) {
    printer << " each ";
    printer.printStrippedAttrOrType(getEachAttr());
  }
  printer.printOptionalAttrDict((*this)->getAttrs(), {getWidthAttrName(), getEachAttrName()});
  printer << " : ";
  printer.printFunctionalType((*this)->getOperandTypes(), getResultTypes());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult MapOp::verify() {
  if (getWidth().getUnit() != Unit::Count)
    return emitOpError() << "width is counted in " << stringifyUnit(getWidth().getUnit())
                         << ", must be a plain number: width <20, p95 = 40>";
  Unit unit = unitOf(getOver().getType());
  if (getEach() && getEach()->getUnit() != unit)
    return emitOpError() << "items are counted in " << stringifyUnit(getEach()->getUnit()) << ", "
                         << getOver().getType() << " is counted in " << stringifyUnit(unit);
  if (getConcurrency() && (*getConcurrency() < 1 || *getConcurrency() > 1'000'000))
    return emitOpError() << "concurrency is " << *getConcurrency() << ", must be between 1 and 1000000";
  return success();
}

LogicalResult MapOp::verifyRegions() {
  if (getBody().getNumArguments() != 1 || getBody().getArgument(0).getType() != getOver().getType())
    return emitOpError() << "region takes (" << getBody().getArgumentTypes() << "), the map is over "
                         << getOver().getType();
  return verifyYield(*this, "the map", getBody().front(), getResultTypes());
}

namespace {
struct InlineSingleItem : OpRewritePattern<MapOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MapOp map, PatternRewriter &rewriter) const override {
    Amount width = map.getWidth().getAmount();
    if (!width.isConstant() || width.mean() != 1)
      return rewriter.notifyMatchFailure(map, "may have several items");
    if (map.getEach())
      return rewriter.notifyMatchFailure(map, "says a size of its item");
    inlineRegion(rewriter, map, map.getBody(), map.getOver());
    return success();
  }
};
} // namespace

void MapOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<InlineSingleItem>(context);
}
