//===- Layers.cpp - A module cut into layers, with what each takes on each device ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/Layers.h"

#include "intarsia/Analysis/ControlFlow.h"
#include "intarsia/Analysis/FunctionCaches.h"
#include "intarsia/Analysis/LayerNames.h"
#include "lib/Partition/KernelTimes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <map>

using namespace mlir;

namespace intarsia::partition {

/// One direction of PCIe 4.0 with 16 lanes: 16 GT/s * 16 * 128/130 / 8, of which copies reach about 80 % (25 GB/s on
/// NVIDIA's A100, whose link this is). The catalogue's links are those between GPUs.
static constexpr double linkGBps = 25;
/// A copy between a GPU and the host that the host waits for: two submissions and a wait, 10 us by the time that
/// drivers take for a launch (catalogue/efficiency/gpu-kernels.yaml) and for waking a thread.
static constexpr double copyUs = 10;

KernelRoot rootOf(Operation *op) {
  if (auto root = dyn_cast<KernelRootOpInterface>(op))
    return root.getKernelRoot();
  auto generic = dyn_cast<linalg::LinalgOp>(op);
  return generic && generic.getNumParallelLoops() != generic.getNumLoops() ? KernelRoot::Generic : KernelRoot::Rows;
}

bool isWork(Operation *op) {
  return rt::runsOnDevice(op) && !isa<tensor::TensorDialect>(op->getDialect()) && !isCompileTime(op->getResult(0));
}

/// Fills the layers of a module function by function.
class Layers::Reader {
public:
  Reader(Layers &result, const target::Device &gpu, const target::Device &host, const CatalogueDevice *measured)
      : result(result), gpu(gpu), host(host), measured(measured) {}

  LogicalResult add(func::FuncOp function) {
    if (function.isExternal())
      return success();
    for (Operation &op : function.getBody().front())
      if (isControlFlow(&op) || !function.getBody().hasOneBlock())
        return op.emitError() << "'" << function.getSymName()
                              << "' has control flow, whose layers cannot be split over devices or ranks: place ops "
                                 "by --place instead";
    KernelTimes times(function, host, measured);
    const WorkModel &model = times.model();
    known.clear();
    position = 0;
    if (failed(addCaches(function, model)))
      return failure();
    for (BlockArgument argument : function.getArguments())
      if (isa<RankedTensorType>(argument.getType()) && !cacheOf.contains(argument))
        makeValue(argument, -1, model);
    for (Operation &op : function.getBody().front()) {
      ++position;
      if (isWork(&op))
        addOp(&op, times);
      else if (isa<func::ReturnOp>(op))
        for (mlir::Value value : op.getOperands())
          readValue(value, -1, model);
    }
    ++functions;
    for (const auto &name : times.notMeasured())
      result.missing.insert(name.getKey());
    return success();
  }

private:
  LogicalResult addCaches(func::FuncOp function, const WorkModel &model) {
    cacheOf.clear();
    FailureOr<SmallVector<FunctionCache>> found = findCaches(function);
    if (failed(found))
      return failure();
    for (FunctionCache &cache : *found) {
      nn::CacheFormatAttr format = cache.format;
      if (format.isOpen()) {
        // Devices that disagree about pages are refused where caches are laid out.
        llvm::Expected<target::CacheLayout> layout = gpu.target->cacheLayout(format, /*page=*/0);
        if (!layout)
          return cache.users.front()->emitError() << "keeps '" << cache.name << "' as " << format
                                                  << ", which a GPU cannot: " << llvm::toString(layout.takeError());
        format = format.withLayout(layout->page, layout->transposed);
      }
      auto elements = cast<RankedTensorType>(cache.tensors.front().getType());
      auto tensors = format.getTensors(elements.getDimSize(1), cache.format.getFeatures(elements));
      int64_t pages = llvm::divideCeil(tokensOf(cache), format.getPage());
      Stored stored = {0, {}};
      for (auto [tensor, argument] : llvm::zip_equal(tensors, cache.tensors)) {
        RankedTensorType type = tensor.type(tensor.isPaged ? pages : 1);
        stored.bytes += double(llvm::divideCeil(type.getNumElements() * type.getElementTypeBitWidth(), 8));
        cacheOf[argument] = result.caches.size();
      }
      result.caches.push_back(stored);
    }
    return success();
  }

  /// Returns how many tokens a sequence of a cache may have: what its positions may be.
  static int64_t tokensOf(const FunctionCache &cache) {
    for (Operation *user : cache.users)
      for (mlir::Value operand : user->getOperands())
        if (auto argument = dyn_cast<BlockArgument>(operand))
          if (auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()))
            if (auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name");
                name && name.getValue() == "positions")
              if (auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(), "nn.range"))
                return range[1];
    return 1;
  }

  void addOp(Operation *op, const KernelTimes &times) {
    const WorkModel &model = times.model();
    int layer = layerOf(op);
    Layer &entry = result.layers[layer];
    entry.ops.push_back(op);
    KernelWork work = model.work(rootOf(op), op);
    entry.gpuUs += gpu.model->microseconds(work);
    entry.hostUs += times.microseconds(op, work);
    for (mlir::Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        readValue(operand, layer, model);
    for (mlir::Value value : op->getResults())
      if (auto cache = findCache(op); cache && isa<nn::CacheAppendOp>(op))
        cacheOf[value] = *cache; // the next version of the cache, in the same memory
      else
        makeValue(value, layer, model);
  }

  std::optional<size_t> findCache(Operation *op) const {
    for (mlir::Value operand : op->getOperands())
      if (auto found = cacheOf.find(operand); found != cacheOf.end())
        return found->second;
    return std::nullopt;
  }

  int layerOf(Operation *op) {
    std::string name = layerName(op);
    // An op without a name belongs to those before it.
    if (name.empty())
      name = result.layers.empty() ? "" : result.layers[last].name;
    auto [entry, isNew] = numbers.try_emplace(name, int(result.layers.size()));
    if (isNew)
      result.layers.push_back({name, {}, 0, 0});
    return last = entry->second;
  }

  void makeValue(mlir::Value value, int layer, const WorkModel &model) {
    known[value] = result.values.size();
    result.values.push_back({layer, {}, model.bytes(value), position, position, functions});
  }

  /// Returns a name of what is stored of a weight: as it is, or the values or scales that it is quantized to.
  static std::string storedName(mlir::Value value) {
    std::string name;
    llvm::raw_string_ostream stream(name);
    while (Operation *op = value.getDefiningOp()) {
      if (auto weight = dyn_cast<nn::WeightOp>(op)) {
        stream << weight.getArchiveAttr() << weight.getKey();
        break;
      }
      stream << op->getName() << cast<OpResult>(value).getResultNumber() << value.getType();
      if (op->getNumOperands() == 0) {
        stream << op; // a constant
        break;
      }
      value = op->getOperand(0);
    }
    return name;
  }

  void readValue(mlir::Value value, int layer, const WorkModel &model) {
    if (auto cache = cacheOf.find(value); cache != cacheOf.end()) {
      if (layer >= 0)
        result.caches[cache->second].layers.insert(layer);
      return;
    }
    if (auto found = known.find(value); found != known.end()) {
      result.values[found->second].readers.insert(layer);
      result.values[found->second].last = position;
      return;
    }
    Operation *op = value.getDefiningOp();
    if (!op || op->hasTrait<OpTrait::ConstantLike>() || isa<tensor::EmptyOp, tensor::DimOp>(op))
      return;
    if (isa<nn::WeightOp, nn::QuantizeOp>(op)) {
      // Functions share the weights of a module, in each form in which they are stored.
      auto [entry, isNew] = weightNumbers.try_emplace(storedName(value), result.weights.size());
      if (isNew)
        result.weights.push_back({model.bytes(value), {}});
      if (layer >= 0)
        result.weights[entry->second].layers.insert(layer);
      return;
    }
    // Views, and what is computed of weights at compile time.
    for (mlir::Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        readValue(operand, layer, model);
  }

  Layers &result;
  const target::Device &gpu;
  const target::Device &host;
  const CatalogueDevice *measured;
  std::map<std::string, int> numbers;
  std::map<std::string, size_t> weightNumbers;
  DenseMap<mlir::Value, size_t> known, cacheOf;
  size_t position = 0;
  unsigned functions = 0;
  int last = 0;
};

FailureOr<Layers> Layers::read(ModuleOp module, const target::Device &gpu, const target::Device &host,
                               const CatalogueDevice *measured) {
  Layers result;
  Reader reader(result, gpu, host, measured);
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(reader.add(function)))
      return failure();
  return result;
}

bool Layers::keepsCachesTogether(Split split) const {
  return llvm::all_of(caches, [&](const Stored &cache) {
    return llvm::all_of(cache.layers,
                        [&](int layer) { return split.onGpu(layer) == split.onGpu(cache.layers.front()); });
  });
}

/// Returns true if a layer runs on the GPU; the caller, -1, does not.
static bool isOnGpu(Split split, int layer) { return layer >= 0 && split.onGpu(unsigned(layer)); }

double Layers::copyMicroseconds(Split split) const {
  double time = 0;
  for (const Value &value : values)
    if (llvm::any_of(value.readers, [&](int reader) { return isOnGpu(split, reader) != isOnGpu(split, value.layer); }))
      time += copyUs + value.bytes / (linkGBps * 1e3);
  return time;
}

double Layers::microseconds(Split split) const {
  double time = copyMicroseconds(split);
  for (auto [number, layer] : llvm::enumerate(layers))
    time += split.onGpu(number) ? layer.gpuUs : layer.hostUs;
  return time;
}

GpuMemoryUse Layers::memory(Split split) const {
  auto bytesOf = [&](ArrayRef<Stored> all) {
    double bytes = 0;
    for (const Stored &one : all)
      if (llvm::any_of(one.layers, [&](int layer) { return isOnGpu(split, layer); }))
        bytes += one.bytes;
    return bytes;
  };
  // The largest sum of values that live at once: functions run one at a time, and fusing only makes it smaller.
  std::map<std::pair<unsigned, size_t>, double> changes;
  for (const Value &value : values) {
    bool isThere =
        isOnGpu(split, value.layer) || llvm::any_of(value.readers, [&](int reader) { return isOnGpu(split, reader); });
    if (!isThere)
      continue;
    changes[{value.function, value.begin}] += value.bytes;
    changes[{value.function, value.last + 1}] -= value.bytes;
  }
  double live = 0, most = 0;
  for (auto &[position, change] : changes)
    most = std::max(most, live += change);
  return {bytesOf(weights), bytesOf(caches), most};
}

GpuMemoryUse Layers::hostMemory(Split split) const {
  auto bytesOf = [&](ArrayRef<Stored> all) {
    double bytes = 0;
    for (const Stored &one : all)
      if (llvm::any_of(one.layers, [&](int layer) { return !isOnGpu(split, layer); }))
        bytes += one.bytes;
    return bytes;
  };
  return {bytesOf(weights), bytesOf(caches), 0};
}

} // namespace intarsia::partition
