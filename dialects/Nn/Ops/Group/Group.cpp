//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

void GroupOp::build(OpBuilder &builder, OperationState &state, TypeRange results, ValueRange inputs, KernelRoot root,
                    StringRef why) {
  state.addOperands(inputs);
  state.addTypes(results);
  state.addAttribute(getRootAttrName(state.name), RootAttr::get(builder.getContext(), root));
  if (!why.empty())
    state.addAttribute(getWhyAttrName(state.name), builder.getStringAttr(why));
  Region *body = state.addRegion();
  SmallVector<Location> locations(inputs.size(), state.location);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(body, {}, inputs.getTypes(), locations);
}

ParseResult GroupOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  SMLoc location = parser.getCurrentLocation();
  std::string text;
  if (succeeded(parser.parseOptionalString(&text)))
    return parser.emitError(location) << "root is the string \"" << text
                                      << "\", as Intarsia wrote it before kernel roots were words: write " << text
                                      << " without quotes, or compile the model again with this version";
  auto root = FieldParser<KernelRoot>::parse(parser);
  if (failed(root))
    return failure();
  result.addAttribute(getRootAttrName(result.name), RootAttr::get(parser.getContext(), *root));
  if (parser.parseAssignmentList(arguments, operands) || parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type))
    return failure();
  if (type.getNumInputs() != arguments.size())
    return parser.emitError(location) << "group has " << arguments.size() << " inputs, its type "
                                      << type.getNumInputs();
  if (parser.resolveOperands(operands, type.getInputs(), location, result.operands))
    return failure();
  for (auto [argument, input] : llvm::zip_equal(arguments, type.getInputs()))
    argument.type = input;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

void GroupOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getRoot() << '(';
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()), printer,
                        [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
  printer << ')';
  printer.printOptionalAttrDict((*this)->getAttrs(), {getRootAttrName()});
  printer << " : ";
  printer.printFunctionalType(getInputs().getTypes(), getResultTypes());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult GroupOp::verify() {
  Block &body = getBodyBlock();
  if (body.getNumArguments() != getInputs().size())
    return emitOpError() << "body has " << body.getNumArguments() << " arguments, the group has " << getInputs().size()
                         << " inputs";
  for (auto [argument, input] : llvm::zip_equal(body.getArguments(), getInputs()))
    if (argument.getType() != input.getType())
      return emitOpError() << "argument " << argument.getArgNumber() << " of the body is " << argument.getType()
                           << ", the input is " << input.getType();
  if (!isa<YieldOp>(body.back()))
    return emitOpError() << "body ends with '" << body.back().getName() << "', must end with 'nn.yield'";
  return success();
}

LogicalResult YieldOp::verify() {
  auto group = cast<GroupOp>((*this)->getParentOp());
  if (getValues().size() != group.getNumResults())
    return emitOpError() << "gives " << getValues().size() << " values, the group has " << group.getNumResults()
                         << " results";
  for (auto [index, value, type] : llvm::enumerate(getValues(), group.getResultTypes()))
    if (value.getType() != type)
      return emitOpError() << "value " << index << " is " << value.getType() << ", the group's result is " << type;
  return success();
}

namespace {
/// Drops inputs that nothing inside reads and gives equal inputs one argument, so that equal groups look equal.
struct TidyGroupInputs : OpRewritePattern<GroupOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GroupOp group, PatternRewriter &rewriter) const override {
    Block &body = group.getBodyBlock();
    llvm::SmallBitVector dead(group.getInputs().size());
    llvm::DenseMap<Value, unsigned> first;
    SmallVector<std::pair<unsigned, unsigned>> merges;
    for (auto [index, input] : llvm::enumerate(group.getInputs())) {
      if (body.getArgument(index).use_empty()) {
        dead.set(index);
        continue;
      }
      auto [entry, inserted] = first.try_emplace(input, index);
      if (!inserted) {
        merges.emplace_back(index, entry->second);
        dead.set(index);
      }
    }
    if (dead.none())
      return rewriter.notifyMatchFailure(group, "every input is read and none is there twice");
    rewriter.modifyOpInPlace(group, [&] {
      for (auto [from, to] : merges)
        rewriter.replaceAllUsesWith(body.getArgument(from), body.getArgument(to));
      body.eraseArguments([&](BlockArgument argument) { return dead.test(argument.getArgNumber()); });
      for (int index = dead.size() - 1; index >= 0; --index)
        if (dead.test(index))
          group.getInputsMutable().erase(index);
    });
    return success();
  }
};

/// Drops results that nothing reads.
struct DropUnusedGroupResults : OpRewritePattern<GroupOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GroupOp group, PatternRewriter &rewriter) const override {
    auto yield = cast<YieldOp>(group.getBodyBlock().getTerminator());
    SmallVector<Value> values, kept;
    SmallVector<Type> types;
    for (auto [value, result] : llvm::zip_equal(yield.getValues(), group.getResults())) {
      if (result.use_empty())
        continue;
      values.push_back(value);
      kept.push_back(result);
      types.push_back(result.getType());
    }
    if (values.size() == group.getNumResults())
      return rewriter.notifyMatchFailure(group, "every result is read");
    if (values.empty())
      return rewriter.notifyMatchFailure(group, "no result is read: dead code elimination takes the group");
    rewriter.modifyOpInPlace(yield, [&] { yield.getValuesMutable().assign(values); });
    auto smaller = GroupOp::create(rewriter, group.getLoc(), types, group.getInputs(), group.getRoot(),
                                   group.getWhy().value_or(""));
    smaller->setDiscardableAttrs(group->getDiscardableAttrDictionary());
    rewriter.eraseBlock(&smaller.getBodyBlock());
    rewriter.inlineRegionBefore(group.getBody(), smaller.getBody(), smaller.getBody().end());
    for (auto [old, now] : llvm::zip_equal(kept, smaller.getResults()))
      rewriter.replaceAllUsesWith(old, now);
    rewriter.eraseOp(group);
    return success();
  }
};
} // namespace

void GroupOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<TidyGroupInputs, DropUnusedGroupResults>(context);
}
