//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Agent/Agent.h"

#include "dialects/Fleet/Figures.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

//===-- What all tasks share ----------------------------------------------------------------------------------===//

LogicalResult agent::verifyTask(Operation *op) {
  auto task = cast<TaskOpInterface>(op);
  std::pair<StringRef, std::optional<StringRef>> names[] = {
      {"label", task.getLabel()}, {"together", task.getTogether()}, {"apart", task.getApart()}};
  for (auto [name, value] : names)
    if (value && value->empty())
      return op->emitOpError() << name << " is empty";
  return success();
}

LogicalResult agent::verifyTaskSymbols(Operation *op, SymbolTableCollection &tables) {
  fleet::PlacementAttr place = cast<TaskOpInterface>(op).getPlaceAttr();
  return place ? fleet::verifyPlacement(op, place, tables) : success();
}

/// Verifies that a task declares the size of its output, in the unit of its type.
static LogicalResult verifySize(Operation *op, AmountAttr size, Type type, bool mayBeMissing = false) {
  Unit unit = unitOf(type);
  if (!size && mayBeMissing)
    return success();
  if (!size)
    return op->emitOpError() << "has no size: what reads it, or writes it token by token, costs time; say how much it "
                                "produces, such as produces <300 "
                             << stringifyUnit(unit) << ", p95 = 700>";
  if (size.getUnit() != unit)
    return op->emitOpError() << "produces " << stringifyUnit(size.getUnit()) << ", " << type << " is counted in "
                             << stringifyUnit(unit);
  return success();
}

/// Verifies that a language model writes at least one token.
static LogicalResult verifyWritten(Operation *op, AmountAttr size, Type type) {
  if (failed(verifySize(op, size, type)))
    return failure();
  if (size.getMeanValue() > 0)
    return success();
  return op->emitOpError()
         << "produces no tokens, must produce more than 0; a task that may not be needed belongs into a "
            "case of an agent.branch";
}

static LogicalResult verifyInstructions(Operation *op, std::optional<int64_t> tokens, bool shared) {
  if (tokens && (*tokens < 1 || *tokens > 100'000'000))
    return op->emitOpError() << "instruction_tokens is " << *tokens << ", must be between 1 and 100000000";
  if (shared && !tokens)
    return op->emitOpError() << "has shared_instructions, but no instruction_tokens";
  return success();
}

/// Returns the name of the encoder that an input needs, empty for text.
static StringRef encoderKind(Type type) {
  return isa<ImageType>(type) ? "image" : isa<AudioType>(type) ? "audio" : isa<VideoType>(type) ? "video" : "";
}

//===-- Tasks as users write them -----------------------------------------------------------------------------===//

LogicalResult LlmOp::verify() {
  if (getInputs().empty() && !getInstructionTokens())
    return emitOpError() << "has neither inputs nor instruction_tokens: its prompt is empty";
  for (Value input : getInputs())
    if (isa<DataType>(input.getType()))
      return emitOpError() << "reads " << input.getType()
                           << ", which no encoder makes tokens of; turn it into text first, by agent.compute";
  if (failed(verifyInstructions(*this, getInstructionTokens(), getSharedInstructions())))
    return failure();
  return verifyWritten(*this, getSizeAttr(), getText().getType());
}

LogicalResult LlmOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto model = lookupNamed<ModelOp>(*this, getModelAttr(), tables, "agent.model");
  if (!model || failed(verifyTaskSymbols(*this, tables)))
    return failure();
  for (Value input : getInputs()) {
    StringRef kind = encoderKind(input.getType());
    if (!kind.empty() && (!model.getEncodersAttr() || !model.getEncodersAttr().contains(kind)))
      return emitOpError() << "reads " << input.getType() << ", but @" << model.getSymName() << " has no encoder for '"
                           << kind << "'; add encoders = {" << kind << " = @encoder} to the model";
  }
  return success();
}

LogicalResult InferOp::verify() { return verifySize(*this, getSizeAttr(), getResult().getType()); }

LogicalResult InferOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(lookupNamed<ModelOp>(*this, getModelAttr(), tables, "agent.model") &&
                 succeeded(verifyTaskSymbols(*this, tables)));
}

LogicalResult InvokeOp::verify() { return verifySize(*this, getSizeAttr(), getResult().getType()); }

LogicalResult InvokeOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(lookupNamed<ToolOp>(*this, getToolAttr(), tables, "agent.tool") &&
                 succeeded(verifyTaskSymbols(*this, tables)));
}

/// Verifies that `top_k` is plausible.
static LogicalResult verifyTopK(Operation *op, int64_t topK) {
  if (topK >= 1 && topK <= 1'000'000)
    return success();
  return op->emitOpError() << "top_k is " << topK << ", must be between 1 and 1000000";
}

static LogicalResult verifyIndexUse(Operation *op, FlatSymbolRefAttr name, int64_t topK,
                                    SymbolTableCollection &tables) {
  auto index = lookupNamed<IndexOp>(op, name, tables, "agent.index");
  if (!index || failed(verifyTaskSymbols(op, tables)))
    return failure();
  if (static_cast<uint64_t>(topK) > index.getVectors())
    return op->emitOpError() << "finds the " << topK << " nearest of " << name << ", which has " << index.getVectors()
                             << " vectors";
  return success();
}

LogicalResult RetrieveOp::verify() {
  if (failed(verifyTopK(*this, getTopK())))
    return failure();
  return verifySize(*this, getSizeAttr(), getTexts().getType(), /*mayBeMissing=*/true);
}

LogicalResult RetrieveOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyIndexUse(*this, getIndexAttr(), getTopK(), tables);
}

LogicalResult ComputeOp::verify() {
  if (getFunction().empty())
    return emitOpError() << "names no function";
  if (getLatency().getUnit() != Unit::Milliseconds)
    return emitOpError() << "takes " << stringifyUnit(getLatency().getUnit()) << ", must be in ms";
  return verifySize(*this, getSizeAttr(), getResult().getType());
}

LogicalResult ComputeOp::verifySymbolUses(SymbolTableCollection &tables) { return verifyTaskSymbols(*this, tables); }

LogicalResult ReadOp::verify() { return verifySize(*this, getSizeAttr(), getResult().getType()); }

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(lookupNamed<MemoryOp>(*this, getMemoryAttr(), tables, "agent.memory") &&
                 succeeded(verifyTaskSymbols(*this, tables)));
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(lookupNamed<MemoryOp>(*this, getMemoryAttr(), tables, "agent.memory") &&
                 succeeded(verifyTaskSymbols(*this, tables)));
}

//===-- Pieces ------------------------------------------------------------------------------------------------===//

LogicalResult PrefillOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(verifyInstructions(*this, getInstructionTokens(), getSharedInstructions())))
    return failure();
  return success(lookupNamed<ModelOp>(*this, getModelAttr(), tables, "agent.model") &&
                 succeeded(verifyTaskSymbols(*this, tables)));
}

LogicalResult DecodeOp::verify() {
  // Follows transfers to the prefill that made the cache, where it is visible.
  Value cache = getCache();
  while (auto transfer = cache.getDefiningOp<KvTransferOp>())
    cache = transfer.getCache();
  if (auto prefill = cache.getDefiningOp<PrefillOp>(); prefill && prefill.getModelAttr() != getModelAttr())
    return emitOpError() << "goes on from a cache of " << prefill.getModelAttr() << " with " << getModelAttr()
                         << ", must be the same model";
  return verifyWritten(*this, getSizeAttr(), getText().getType());
}

LogicalResult DecodeOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(lookupNamed<ModelOp>(*this, getModelAttr(), tables, "agent.model") &&
                 succeeded(verifyTaskSymbols(*this, tables)));
}

LogicalResult EncodeOp::verify() {
  if (encoderKind(getInput().getType()).empty())
    return emitOpError() << "encodes " << getInput().getType() << ", must be an image, audio or video";
  return success();
}

LogicalResult EncodeOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto model = lookupNamed<ModelOp>(*this, getModelAttr(), tables, "agent.model");
  if (!model || failed(verifyTaskSymbols(*this, tables)))
    return failure();
  if (!model.getTokensPerUnit())
    return emitOpError() << "asks @" << model.getSymName()
                         << ", which has no tokens_per_unit: nothing says how many tokens it makes";
  return success();
}

LogicalResult EmbedOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(lookupNamed<ModelOp>(*this, getModelAttr(), tables, "agent.model") &&
                 succeeded(verifyTaskSymbols(*this, tables)));
}

LogicalResult SearchOp::verify() {
  if (failed(verifyTopK(*this, getTopK())))
    return failure();
  return verifySize(*this, getSizeAttr(), getTexts().getType(), /*mayBeMissing=*/true);
}

LogicalResult SearchOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyIndexUse(*this, getIndexAttr(), getTopK(), tables);
}

//===-- Transfers ---------------------------------------------------------------------------------------------===//

template <typename Transfer> static LogicalResult verifyTransfer(Transfer op) {
  auto errors = [&] { return op.emitOpError(); };
  if (failed(verifyFigure(errors, "bytes", op.getBytesAttr(), {1, 1e15, "is it in bytes?", true})))
    return failure();
  return verifyFigure(errors, "milliseconds", op.getMillisecondsAttr(), {1e-6, 1e8, "is it in milliseconds?", true});
}

template <typename Transfer> static LogicalResult verifyTransferSymbols(Transfer op, SymbolTableCollection &tables) {
  for (SymbolRefAttr end : {op.getSourceAttr(), op.getDestinationAttr()})
    if (end && !lookupNamed<fleet::PoolOp>(op, end, tables, "fleet.pool"))
      return failure();
  return success();
}

LogicalResult KvTransferOp::verify() { return verifyTransfer(*this); }
LogicalResult KvTransferOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyTransferSymbols(*this, tables);
}
LogicalResult TransferOp::verify() { return verifyTransfer(*this); }
LogicalResult TransferOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyTransferSymbols(*this, tables);
}
