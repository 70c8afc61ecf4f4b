//===- Layers.h - A module cut into layers, with what each takes on each device -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_LAYERS_H
#define INTARSIA_LIB_PARTITION_LAYERS_H

#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace intarsia::partition {

/// Returns true for an op whose work is done when the model runs, on a device of its own. Slices, concatenations and
/// the like are wherever they are read.
bool isWork(mlir::Operation *op);

/// Returns the kind of kernel that an op alone makes.
KernelRoot rootOf(mlir::Operation *op);

/// Ops that stay together: those of one layer of the model ("encoder.layer.3"), or of one module outside of layers.
struct Layer {
  std::string name;
  llvm::SmallVector<mlir::Operation *> ops;
  double gpuUs = 0, hostUs = 0; ///< each op as a kernel of its own
};

/// The layers that run on a GPU, from `begin` to before `end`; the others run on the host.
struct Split {
  unsigned begin = 0, end = 0;
  bool onGpu(unsigned layer) const { return layer >= begin && layer < end; }
};

/// Bytes that the layers of a split take on the GPU.
struct GpuMemoryUse {
  double weights = 0, caches = 0, scratch = 0;
  double total() const { return weights + caches + scratch; }
};

/// The layers of all functions of a module, in their order, and what a split of them takes. Sizes are the expected
/// ones; caches are those of one sequence with as many tokens as its positions allow.
class Layers {
public:
  /// Reads a module. Emits an error at a function that cannot be split. Times of the host are those of `measured`, if
  /// it is given (KernelTimes.h).
  static mlir::FailureOr<Layers> read(mlir::ModuleOp module, const target::Device &gpu, const target::Device &host,
                                      const CatalogueDevice *measured = nullptr);

  llvm::ArrayRef<Layer> all() const { return layers; }
  /// Returns what `measured` has no times of.
  const llvm::StringSet<> &notMeasured() const { return missing; }
  /// False if layers that update one cache would run on two devices.
  bool keepsCachesTogether(Split split) const;
  /// Returns the time of all layers one after another, and of the copies between them, in microseconds.
  double microseconds(Split split) const;
  double copyMicroseconds(Split split) const;
  GpuMemoryUse memory(Split split) const;
  /// Returns the bytes of the weights and caches of the layers that a split leaves on the host.
  GpuMemoryUse hostMemory(Split split) const;

private:
  /// A value that is computed when a model runs, or an argument. Layer -1 is the caller, whose memory is the host's.
  struct Value {
    int layer;
    llvm::SmallSetVector<int, 4> readers;
    double bytes;
    size_t begin, last; ///< positions of its op and of the last one that reads it
    unsigned function;
  };
  /// A weight or cache, and the layers that read it.
  struct Stored {
    double bytes;
    llvm::SmallSetVector<int, 2> layers;
  };

  class Reader;

  std::vector<Layer> layers;
  std::vector<Value> values;
  std::vector<Stored> weights, caches;
  llvm::StringSet<> missing;
};

} // namespace intarsia::partition

#endif
