//===- PartitionFit.cpp - As many layers on a GPU as its memory holds -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Partition/Partition.h"
#include "lib/Partition/Layers.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Format.h"

using namespace mlir;

llvm::Expected<uint64_t> intarsia::parseMemorySize(StringRef text) {
  static constexpr std::pair<StringLiteral, double> units[] = {
      {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"kB", 1e3},
      {"KB", 1e3},     {"MB", 1e6},        {"GB", 1e9},           {"B", 1}};
  for (auto [unit, factor] : units) {
    StringRef number = text;
    double value = 0;
    if (!number.consume_back(unit))
      continue;
    number = number.rtrim();
    // Sizes beyond 2^53 bytes would not be exact, and no device has them.
    if (number.empty() || number.find_first_not_of("0123456789.") != StringRef::npos || number.getAsDouble(value) ||
        value * factor < 1 || value * factor > double(uint64_t(1) << 53))
      break;
    return uint64_t(value * factor);
  }
  return llvm::createStringError("--gpu-memory=" + text +
                                 ": is no size: write a positive number and a unit, as in 8GB, 7.5GiB or 512MB (B, kB, "
                                 "MB, GB, KiB, MiB, GiB)");
}

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_PARTITIONFIT
#include "lib/Partition/Passes.h.inc"

namespace {

/// Writes bytes with three digits: "1.25 GB".
std::string bytesText(double bytes) {
  static constexpr std::pair<double, StringLiteral> units[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (auto [factor, unit] : units)
    if (bytes >= factor) {
      stream << llvm::format("%.3g ", bytes / factor) << unit;
      return text;
    }
  stream << uint64_t(bytes) << " B";
  return text;
}

/// A row of the table: the part of the model that a device runs.
struct Row {
  target::Device device;
  std::string layers;
  unsigned count;
  GpuMemoryUse memory;
  double microseconds;
};

struct PartitionFit : impl::PartitionFitBase<PartitionFit> {
  using PartitionFitBase::PartitionFitBase;

  void runOnOperation() override {
    if (memory.empty())
      return;
    llvm::Expected<uint64_t> limit = parseMemorySize(memory);
    if (!limit) {
      getOperation().emitError() << llvm::toString(limit.takeError());
      return signalPassFailure();
    }
    if (failed(findDevices()) || failed(fit(double(*limit))))
      signalPassFailure();
  }

private:
  /// Finds the GPU that has the limit, and the device that takes the rest.
  LogicalResult findDevices() {
    std::string names;
    for (auto declared : getOperation().getOps<rt::DeviceOp>()) {
      FailureOr<target::Device> device = deviceNamed(declared);
      if (failed(device))
        return failure();
      names += (names.empty() ? "@" : ", @") + declared.getSymName().str();
      if (device->model->gpu && !gpu)
        gpu = *device;
      else if (device->target->usesHostMemory() && !host)
        host = *device;
    }
    if (!gpu)
      return getOperation().emitError() << "--gpu-memory is about the memory of a GPU, and there is none among the "
                                           "devices "
                                        << names << ": name one in --target, as in cuda:sm_80";
    if (!host)
      return getOperation().emitError() << "--gpu-memory needs a second device for the layers that do not fit on @"
                                        << gpu->op.getSymName() << ": add one, as in --target=cpu";
    return success();
  }

  /// Returns a declared device with its target and its figures.
  static FailureOr<target::Device> deviceNamed(rt::DeviceOp declared) {
    // The function asks an op for the device that runs it; the declaration stands for one.
    declared->setAttr(rt::deviceAttr, FlatSymbolRefAttr::get(declared.getSymNameAttr()));
    FailureOr<target::Device> device = target::deviceOf(declared);
    declared->removeAttr(rt::deviceAttr);
    return device;
  }

  LogicalResult fit(double limit) {
    FailureOr<Layers> layers = Layers::read(getOperation(), *gpu, *host);
    if (failed(layers))
      return failure();
    unsigned count = layers->all().size();
    Split whole = {0, count};
    std::optional<Split> best = whole;
    if (layers->memory(whole).total() > limit)
      best = cheapest(*layers, limit);
    if (!best) {
      GpuMemoryUse least = smallest(*layers);
      return getOperation().emitError() << "--gpu-memory=" << memory << ": no layer with weights fits on @"
                                        << gpu->op.getSymName() << "; the smallest needs " << bytesText(least.total())
                                        << " (weights " << bytesText(least.weights) << ", caches "
                                        << bytesText(least.caches) << ", scratch " << bytesText(least.scratch)
                                        << "): allow more, or compile with --target=cpu alone";
    }
    place(*layers, *best);
    report(*layers, *best, limit);
    return success();
  }

  /// Returns the fastest range of layers that fits and has weights; of equally fast ones that with most layers. Layers
  /// left on the host are those in front of the range and behind it, so that values cross to the GPU and back once.
  static std::optional<Split> cheapest(const Layers &layers, double limit) {
    std::optional<Split> best;
    double bestUs = 0;
    unsigned count = layers.all().size();
    for (unsigned begin = 0; begin < count; ++begin)
      for (unsigned end = count; end > begin; --end) {
        Split split = {begin, end};
        GpuMemoryUse use = layers.memory(split);
        if (use.weights == 0 || use.total() > limit || !layers.keepsCachesTogether(split))
          continue;
        double us = layers.microseconds(split);
        if (!best || us < bestUs || (us == bestUs && end - begin > best->end - best->begin)) {
          best = split;
          bestUs = us;
        }
      }
    return best;
  }

  static GpuMemoryUse smallest(const Layers &layers) {
    GpuMemoryUse least = layers.memory({0, unsigned(layers.all().size())});
    for (unsigned layer = 0; layer < layers.all().size(); ++layer)
      if (GpuMemoryUse one = layers.memory({layer, layer + 1}); one.weights != 0 && one.total() < least.total())
        least = one;
    return least;
  }

  // ---- Setting devices ----------------------------------------------------------------------------------------

  void place(const Layers &layers, Split split) {
    for (auto [number, layer] : llvm::enumerate(layers.all()))
      for (Operation *op : layer.ops)
        setDevice(op, split.onGpu(number) ? *gpu : *host);
  }

  void setDevice(Operation *op, target::Device device) {
    op->setAttr(rt::deviceAttr, FlatSymbolRefAttr::get(device.op.getSymNameAttr()));
    for (OpOperand &operand : op->getOpOperands())
      follow(operand, device);
  }

  /// Slices and the like, and what is computed of weights at compile time, belong to the op that reads them; a weight
  /// that ops of both devices read is there twice.
  void follow(OpOperand &operand, target::Device device) {
    Operation *op = operand.get().getDefiningOp();
    if (!op || op->getNumOperands() == 0 || !isa<RankedTensorType>(operand.get().getType()) ||
        isa<tensor::EmptyOp, tensor::DimOp>(op))
      return;
    bool isStored = isCompileTime(operand.get());
    if (!isStored && !isa<tensor::TensorDialect>(op->getDialect()))
      return;
    auto name = FlatSymbolRefAttr::get(device.op.getSymNameAttr());
    if (Attribute other = op->getAttr(rt::deviceAttr); other && other != name) {
      if (!isStored)
        return; // it stays with the first op that reads it
      Operation *copy = OpBuilder(op).clone(*op);
      operand.set(copy->getResult(cast<OpResult>(operand.get()).getResultNumber()));
      op = copy;
    }
    if (rt::runsOnDevice(op))
      op->setAttr(rt::deviceAttr, name);
    for (OpOperand &deeper : op->getOpOperands())
      follow(deeper, device);
  }

  // ---- The table ----------------------------------------------------------------------------------------------

  void report(const Layers &layers, Split split, double limit) {
    ArrayRef<Layer> all = layers.all();
    auto range = [&](unsigned begin, unsigned end) {
      if (begin == end)
        return std::string();
      return end - begin == 1 ? all[begin].name : all[begin].name + " to " + all[end - 1].name;
    };
    std::string outside = range(0, split.begin), behind = range(split.end, all.size());
    outside += (outside.empty() || behind.empty() ? "" : ", ") + behind;
    double gpuUs = 0, hostUs = 0;
    for (auto [number, layer] : llvm::enumerate(all))
      (split.onGpu(number) ? gpuUs : hostUs) += split.onGpu(number) ? layer.gpuUs : layer.hostUs;
    Row rows[] = {{*gpu, range(split.begin, split.end), split.end - split.begin, layers.memory(split), gpuUs},
                  {*host, outside, unsigned(all.size()) - (split.end - split.begin), layers.hostMemory(split), hostUs}};
    std::string table;
    llvm::raw_string_ostream stream(table);
    stream << llvm::format("%-12s %6s %10s %10s %10s %12s  %s", "device", "layers", "weights", "caches", "scratch",
                           "predicted", "which");
    Builder builder(&getContext());
    SmallVector<Attribute> recorded;
    for (Row &row : rows) {
      bool isGpu = row.device.op == gpu->op;
      stream << "\n"
             << llvm::format("%-12s %6u %10s %10s %10s %9.1f us  %s", row.device.op.getSymName().str().c_str(),
                             row.count, bytesText(row.memory.weights).c_str(), bytesText(row.memory.caches).c_str(),
                             isGpu ? bytesText(row.memory.scratch).c_str() : "-", row.microseconds, row.layers.c_str());
      auto bytes = [&](double value) { return builder.getI64IntegerAttr(int64_t(value)); };
      SmallVector<NamedAttribute> fields = {
          builder.getNamedAttr("device", row.device.op.getSymNameAttr()),
          builder.getNamedAttr("layers", builder.getI64IntegerAttr(row.count)),
          builder.getNamedAttr("which", builder.getStringAttr(row.layers)),
          builder.getNamedAttr("weight_bytes", bytes(row.memory.weights)),
          builder.getNamedAttr("cache_bytes", bytes(row.memory.caches)),
          builder.getNamedAttr("expected_us", builder.getF64FloatAttr(row.microseconds))};
      if (isGpu) {
        fields.push_back(builder.getNamedAttr("scratch_bytes", bytes(row.memory.scratch)));
        fields.push_back(builder.getNamedAttr("limit_bytes", bytes(limit)));
      }
      recorded.push_back(builder.getDictionaryAttr(fields));
    }
    stream << "\n" << llvm::format("copies between them: %.1f us", layers.copyMicroseconds(split));
    getOperation()->setAttr(intarsia::splitAttr, builder.getArrayAttr(recorded));
    getOperation().emitRemark() << "--gpu-memory=" << memory << "\n" << table;
  }

  std::optional<target::Device> gpu, host;
};

} // namespace
} // namespace intarsia::partition
