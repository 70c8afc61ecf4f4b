//===- KernelTimes.cpp - What each op of a function takes --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/KernelTimes.h"

#include "intarsia/Partition/Partition.h"
#include "lib/Partition/Layers.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

llvm::Expected<intarsia::CatalogueDevice> intarsia::readRankFigures(StringRef file) {
  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer)
    return llvm::createStringError("--rank-figures=" + file + " cannot be read: " + buffer.getError().message());
  llvm::Expected<CatalogueDevice> device = CatalogueDevice::parse((*buffer)->getBuffer(), file);
  if (!device)
    return llvm::createStringError("--rank-figures: " + llvm::toString(device.takeError()));
  if (!device->serving)
    return llvm::createStringError("--rank-figures=" + file +
                                   " has no times of models ('serving'); intarsia-plan --probe=" + file +
                                   " measures them on the machine of a rank");
  return device;
}

namespace intarsia::partition {

FailureOr<std::shared_ptr<const CatalogueDevice>> rankFigures(ModuleOp module, StringRef file,
                                                              const target::Device &device) {
  if (file.empty())
    return std::shared_ptr<const CatalogueDevice>();
  if (device.target->kind() != "cpu")
    return module.emitError() << "--rank-figures=" << file << ": times of processors say nothing about ranks on "
                              << device.target->kind() << "; leave it out";
  llvm::Expected<CatalogueDevice> read = readRankFigures(file);
  if (!read)
    return module.emitError() << llvm::toString(read.takeError());
  return std::make_shared<const CatalogueDevice>(std::move(*read));
}

void remarkNotMeasured(ModuleOp module, StringRef file, const llvm::StringSet<> &names, const target::Device &device) {
  if (names.empty())
    return;
  SmallVector<StringRef> sorted(names.keys());
  llvm::sort(sorted);
  module.emitRemark() << "--rank-figures=" << file << " has no times of " << llvm::join(sorted, ", ")
                      << ": the figures of " << device.model->name << " stand for them";
}

/// True if a value reaches the function's results, no caches, with no linear or attention on the way: it is the model's
/// head.
static bool reachesResults(Value value) {
  SmallVector<Value> work = {value};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (isa<func::ReturnOp>(user))
        return true;
      bool isProduct = asProductWithWeight(user) || isa<nn::CachedAttentionOp, nn::CacheAppendOp>(user);
      if (!isProduct && seen.insert(user).second)
        llvm::append_range(work, user->getResults());
    }
  return false;
}

/// Returns the name by which --probe measures weights of a format, "" if it does not; `name` becomes the name of the
/// format. Models in int4 have their heads in six bits (lib/Quantize), also those of the probe.
static StringRef precisionOf(Value weight, bool isHead, std::string &name) {
  while (Operation *op = weight.getDefiningOp()) {
    if (auto stored = dyn_cast<nn::DequantizeOp>(op)) {
      auto format = dyn_cast<nn::BlockFormatAttr>(stored.getFormat());
      name = format ? nn::stringifyBlockElement(format.getElement()).str() : "a packed format";
      return llvm::StringSwitch<StringRef>(name)
          .Case("i4", "int4")
          .Case("i6", isHead ? "int4" : "")
          .Case("i8", "int8")
          .Case("e4m3", "fp8")
          .Case("e2m1", "fp4")
          .Default("");
    }
    if (!isa<tensor::TensorDialect>(op->getDialect()) && !isa<linalg::TransposeOp>(op))
      break;
    weight = op->getOperand(0);
  }
  Type type = cast<RankedTensorType>(weight.getType()).getElementType();
  llvm::raw_string_ostream(name) << type;
  return type.isF32() ? "f32" : type.isBF16() ? "bf16" : type.isF16() ? "f16" : "";
}

KernelTimes::KernelTimes(func::FuncOp function, const target::Device &device, const CatalogueDevice *measured)
    : work(function), device(device), measured(measured) {
  if (!measured)
    return;
  auto module = function->getParentOfType<ModuleOp>();
  isDecoder = module.walk([](nn::CachedAttentionOp) { return WalkResult::interrupt(); }).wasInterrupted();
  double weights = 0, layers = 0;
  std::string format;
  function.walk([&](Operation *op) {
    layers += isa<nn::CachedAttentionOp>(op);
    ContractionOpInterface linear = asProductWithWeight(op);
    if (!linear || (isDecoder && reachesResults(op->getResult(0))))
      return;
    weights += double(work.elements(linear.getRight()));
    measuresLayers |= !measuredPrecision(linear, format).empty();
  });
  layerWeights = weights / std::max(layers, 1.0);
}

StringRef KernelTimes::measuredPrecision(ContractionOpInterface linear, std::string &format) const {
  bool isHead = isDecoder && reachesResults(linear->getResult(0));
  StringRef name = precisionOf(linear.getRight(), isHead, format);
  const MeasuredTimes &times = *measured->serving;
  return (isDecoder ? times.hasDecoder(name) : times.hasEncoder(name)) ? name : "";
}

std::optional<double> KernelTimes::linearUs(ContractionOpInterface linear) const {
  std::string format;
  const MeasuredTimes &times = *measured->serving;
  StringRef precision = measuredPrecision(linear, format);
  if (precision.empty()) {
    missing.insert("weights in " + format);
    return std::nullopt;
  }
  auto type = cast<RankedTensorType>(linear.getLeft().getType());
  double weights = double(work.elements(linear.getRight()));
  double rows = double(work.elements(linear.getLeft())) / double(std::max<int64_t>(type.getShape().back(), 1));
  if (!isDecoder)
    return times.encoderUs(precision, weights, rows);
  if (reachesResults(linear->getResult(0)))
    return times.headUs(precision, weights, rows);
  return times.layerUs(precision, layerWeights, rows) * weights / layerWeights;
}

double KernelTimes::attentionUs(nn::CachedAttentionOp attention, const KernelWork &of) const {
  const MeasuredTimes &times = *measured->serving;
  // One exponential for each score: of a head of a token as many as its sequence is long.
  auto query = work.sizes(attention.getQuery());
  auto count = [&](AffineExpr size) { return double(SymbolicSizes::evaluate(size, work.expected())); };
  double scores = of.transcendentals, tokens = count(query[0]);
  double length = scores / std::max(tokens * count(query[1]), 1.0);
  double flops = scores * 2 * (count(query[2]) + count(work.sizes(attention.getResult())[2]));
  if (tokens > count(work.sizes(attention.getPageTable())[0]))
    return times.promptScoresUs(flops, length);
  double readUs = measured->memoryGBps ? of.weightBytes / measured->memoryGBps->value * 1e-3 : 0;
  return std::max(times.stepScoresUs(flops, length), readUs);
}

std::optional<double> KernelTimes::measuredUs(Operation *op, const KernelWork &of) const {
  if (ContractionOpInterface linear = asProductWithWeight(op))
    return linearUs(linear);
  if (auto attention = dyn_cast<nn::CachedAttentionOp>(op))
    return attentionUs(attention, of);
  // The time of a measured layer contains its norms, activations and updates of caches.
  bool isPartOfLayers = of.root == KernelRoot::Rows || of.root == KernelRoot::CacheAppend || isa<nn::EmbeddingOp>(op) ||
                        (!isDecoder && isa<nn::AttentionOp>(op));
  if (isPartOfLayers)
    return measuresLayers ? std::optional(0.0) : std::nullopt;
  if (!isa<nn::CandidatesOp>(op)) // little beside the head, whose logits it reads
    missing.insert(op->getName().getStringRef());
  return std::nullopt;
}

double KernelTimes::microseconds(Operation *op) const { return microseconds(op, work.work(rootOf(op), op)); }

double KernelTimes::microseconds(Operation *op, const KernelWork &of) const {
  if (measured)
    if (std::optional<double> us = measuredUs(op, of))
      return *us;
  return device.model->microseconds(of);
}

} // namespace intarsia::partition
