//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Agent/Agent.h"

#include "dialects/Fleet/Figures.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

#define GET_OP_CLASSES
#include "dialects/Agent/AgentOps.cpp.inc"

static auto errorsOf(Operation *op) {
  return [op] { return op->emitOpError(); };
}

static LogicalResult verifyUnit(Operation *op, StringRef word, AmountAttr amount, Unit unit) {
  if (!amount || amount.getUnit() == unit)
    return success();
  return op->emitOpError() << word << " " << stringifyUnit(amount.getUnit()) << ", must be in " << stringifyUnit(unit);
}

static LogicalResult verifyCount(Operation *op, StringRef name, std::optional<int64_t> count, int64_t most) {
  if (!count || (*count >= 1 && *count <= most))
    return success();
  return op->emitOpError() << name << " is " << *count << ", must be between 1 and " << most;
}

//===-- What tasks name ---------------------------------------------------------------------------------------===//

LogicalResult ModelOp::verify() {
  if (!getShape() && !getModule() && !getParameters())
    return emitOpError() << "@" << getSymName()
                         << " has neither a shape nor a module nor parameters: nothing says what it costs";
  auto errors = errorsOf(*this);
  if (failed(verifyFigure(errors, "parameters", getParametersAttr(), {1e3, 1e14, "is it a number, 7e9 for 7B?"})) ||
      failed(
          verifyFigure(errors, "flops_per_unit", getFlopsPerUnitAttr(), {1, 1e16, "is it in flops, not teraflops?"})) ||
      failed(verifyFigure(errors, "flops_per_output", getFlopsPerOutputAttr(),
                          {1, 1e16, "is it in flops, not teraflops?", true})) ||
      failed(verifyFigure(errors, "tokens_per_unit", getTokensPerUnitAttr(),
                          {1e-7, 1e4, "is it tokens for one pixel or one second?"})) ||
      failed(verifyFigure(errors, "kv_bytes_per_token", getKvBytesPerTokenAttr(), {16, 1e8, "is it in bytes?"})) ||
      failed(verifyCount(*this, "context_tokens", getContextTokens(), 100'000'000)))
    return failure();
  if (ArrayAttr precisions = getPrecisionsAttr())
    for (StringRef precision : precisions.getAsValueRange<StringAttr>())
      if (failed(fleet::verifyPrecision(errors, precision)))
        return failure();
  if (getCache()) {
    if (failed(fleet::verifyPrecision(errors, *getCache())))
      return failure();
    if (*getCache() == "f32")
      return emitOpError() << "cache is 'f32', must be 'bf16', 'f16', 'fp8', 'int8', 'fp4' or 'int4'";
  }
  if (DictionaryAttr encoders = getEncodersAttr())
    for (NamedAttribute encoder : encoders) {
      if (!llvm::is_contained({"image", "audio", "video"}, encoder.getName().getValue()))
        return emitOpError() << "encoders has '" << encoder.getName().getValue()
                             << "', known are 'image', 'audio', 'video'";
      if (!isa<FlatSymbolRefAttr>(encoder.getValue()))
        return emitOpError() << "encoder of " << encoder.getName() << " is " << encoder.getValue()
                             << ", must be a model such as @vit";
    }
  return success();
}

LogicalResult ModelOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (DictionaryAttr encoders = getEncodersAttr())
    for (NamedAttribute encoder : encoders) {
      auto model = lookupNamed<ModelOp>(*this, cast<FlatSymbolRefAttr>(encoder.getValue()), tables, "agent.model");
      if (!model)
        return failure();
      if (!model.getTokensPerUnit())
        return emitOpError() << "encoder " << encoder.getValue() << " of " << encoder.getName()
                             << " has no tokens_per_unit: nothing says how many tokens it makes";
    }
  return success();
}

LogicalResult IndexOp::verify() {
  if (failed(verifyUnit(*this, "takes", getLatencyAttr(), Unit::Milliseconds)) ||
      failed(verifyCount(*this, "vectors", getVectors(), int64_t(1) << 50)) ||
      failed(verifyCount(*this, "dimension", getDimension(), 1'000'000)) ||
      failed(verifyCount(*this, "chunk_tokens", getChunkTokens(), 100'000'000)) ||
      failed(verifyCount(*this, "bytes_per_vector", getBytesPerVector(), 100'000'000)))
    return failure();
  if (!getEmbedder() && !getLatency())
    return emitOpError() << "@" << getSymName()
                         << " has neither an embedder nor a time: say which model makes vectors of queries (embedder = "
                            "@minilm), or how long somebody else's index takes (takes <40 ms>)";
  return verifyFigure(errorsOf(*this), "visited", getVisitedAttr(), {1e-9, 1, "it is a fraction of the vectors"});
}

LogicalResult IndexOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(!getEmbedder() || lookupNamed<ModelOp>(*this, getEmbedderAttr(), tables, "agent.model"));
}

LogicalResult ToolOp::verify() {
  auto errors = errorsOf(*this);
  if (failed(verifyUnit(*this, "takes", getLatencyAttr(), Unit::Milliseconds)) ||
      failed(
          verifyFigure(errors, "dollars_per_call", getDollarsPerCallAttr(), {1e-9, 1e4, "is it in dollars?", true})) ||
      failed(verifyCount(*this, "concurrency", getConcurrency(), 100'000'000)))
    return failure();
  return verifyFigure(errors, "failure_probability", getFailureProbabilityAttr(),
                      {1e-12, 0.99, "it is a fraction of the calls, and some must succeed", true});
}

LogicalResult MemoryOp::verify() {
  if (failed(verifyUnit(*this, "reads", getReadLatencyAttr(), Unit::Milliseconds)) ||
      failed(verifyUnit(*this, "writes", getWriteLatencyAttr(), Unit::Milliseconds)))
    return failure();
  return verifyCount(*this, "concurrency", getConcurrency(), 100'000'000);
}

//===-- Graphs ------------------------------------------------------------------------------------------------===//

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void GraphOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

LogicalResult GraphOp::verify() {
  for (Type type : llvm::concat<const Type>(getArgumentTypes(), getResultTypes()))
    if (!isa<TextType, ImageType, AudioType, VideoType, DataType>(type))
      return emitOpError() << "@" << getSymName() << " takes or gives " << type
                           << ", must be text, image, audio, video or data";
  return success();
}

LogicalResult GraphOp::verifyRegions() {
  if (!getBody().hasOneBlock() || getBody().front().empty() || !isa<ReturnOp>(getBody().front().back()))
    return emitOpError() << "@" << getSymName() << " must be one block that ends with agent.return";
  for (BlockArgument argument : getBody().getArguments())
    if (!argument.use_empty() && !getArgumentSize(argument.getArgNumber()))
      return emitOpError() << "argument " << argument.getArgNumber() << " of @" << getSymName()
                           << " has no size: what reads it costs time; add {agent.size = #agent.amount<400 "
                           << stringifyUnit(unitOf(argument.getType())) << ">}";
  auto end = cast<ReturnOp>(getBody().front().back());
  if (end.getValues().getTypes() != getResultTypes())
    return end.emitOpError() << "gives (" << end.getValues().getTypes() << "), @" << getSymName() << " gives ("
                             << getResultTypes() << ")";
  return success();
}

/// Finds calls from a graph that lead back to it; `path` receives their names.
static bool findCycle(GraphOp start, GraphOp graph, SymbolTableCollection &tables, SmallVectorImpl<StringRef> &path,
                      llvm::SmallPtrSetImpl<Operation *> &seen) {
  bool found = false;
  graph.walk([&](CallOp call) {
    auto callee = tables.lookupNearestSymbolFrom<GraphOp>(call, call.getCalleeAttr());
    if (!callee)
      return WalkResult::advance();
    path.push_back(callee.getSymName());
    if (callee == start || (seen.insert(callee).second && findCycle(start, callee, tables, path, seen))) {
      found = true;
      return WalkResult::interrupt();
    }
    path.pop_back();
    return WalkResult::advance();
  });
  return found;
}

LogicalResult GraphOp::verifySymbolUses(SymbolTableCollection &tables) {
  SmallVector<StringRef> path = {getSymName()};
  llvm::SmallPtrSet<Operation *, 8> seen;
  if (findCycle(*this, *this, tables, path, seen))
    return emitOpError() << "calls itself (@" << llvm::join(path, " calls @")
                         << "): what repeats belongs into an agent.loop with a bound";
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto callee = lookupNamed<GraphOp>(*this, getCalleeAttr(), tables, "agent.graph");
  if (!callee)
    return failure();
  if (TypeRange(callee.getArgumentTypes()) != getInputs().getTypes())
    return emitOpError() << "gives (" << getInputs().getTypes() << "), " << getCalleeAttr() << " takes ("
                         << callee.getArgumentTypes() << ")";
  if (TypeRange(callee.getResultTypes()) != getResultTypes())
    return emitOpError() << "takes (" << getResultTypes() << "), " << getCalleeAttr() << " gives ("
                         << callee.getResultTypes() << ")";
  return success();
}

//===-- Joins and streams -------------------------------------------------------------------------------------===//

OpFoldResult JoinOp::fold(FoldAdaptor) {
  return getParts().size() == 1 && getParts().front() != getResult() ? OpFoldResult(getParts().front())
                                                                     : OpFoldResult();
}

namespace {
/// Flattens a join of joins.
struct FlattenJoins : OpRewritePattern<JoinOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(JoinOp join, PatternRewriter &rewriter) const override {
    SmallVector<Value> parts;
    for (Value part : join.getParts()) {
      auto inner = part.getDefiningOp<JoinOp>();
      if (inner && inner->getBlock() == join->getBlock())
        llvm::append_range(parts, inner.getParts());
      else
        parts.push_back(part);
    }
    if (parts.size() == join.getParts().size())
      return rewriter.notifyMatchFailure(join, "no part is a join");
    rewriter.modifyOpInPlace(join, [&] { join.getPartsMutable().assign(parts); });
    return success();
  }
};
} // namespace

void JoinOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FlattenJoins>(context);
}

LogicalResult StreamOp::verify() {
  if (getEveryAttr() && getEveryAttr().getMeanValue() <= 0)
    return emitOpError() << "streams every 0 " << stringifyUnit(getEveryAttr().getUnit())
                         << ", must be more: a consumer starts when so much is there";
  return verifyUnit(*this, "streams every", getEveryAttr(), unitOf(getValue().getType()));
}
