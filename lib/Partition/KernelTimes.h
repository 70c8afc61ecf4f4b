//===- KernelTimes.h - What each op of a function takes ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_KERNELTIMES_H
#define INTARSIA_LIB_PARTITION_KERNELTIMES_H

#include "dialects/Nn/Nn.h"
#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Cost/Cost.h"
#include "intarsia/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace intarsia::partition {

/// Reads the file of --rank-figures for ranks on a device; null if `file` is empty. Emits an error at the module if it
/// cannot be read, or if the device is no processor.
mlir::FailureOr<std::shared_ptr<const CatalogueDevice>> rankFigures(mlir::ModuleOp module, llvm::StringRef file,
                                                                    const target::Device &device);

/// Says in a remark what the file has no times of, if there is something.
void remarkNotMeasured(mlir::ModuleOp module, llvm::StringRef file, const llvm::StringSet<> &names,
                       const target::Device &device);

/// Microseconds of the ops of a function at the expected sizes, each as a kernel of its own: by the device's figures,
/// or by the times that were measured on a machine (`MeasuredTimes`). A measured layer has its norms, activations and
/// updates of caches in it: its linears take all of its time, by their weights, and attention what its length adds.
class KernelTimes {
public:
  /// `measured` may be null, and has `serving` else.
  KernelTimes(mlir::func::FuncOp function, const target::Device &device, const CatalogueDevice *measured);

  /// Reads the expected sizes of the function again.
  void readExpected(mlir::func::FuncOp function) { work.readExpected(function); }
  double microseconds(mlir::Operation *op) const;
  /// The same, of an op whose work is known.
  double microseconds(mlir::Operation *op, const KernelWork &of) const;
  const WorkModel &model() const { return work; }
  /// Returns the names of what `microseconds` found no measured time of, so that it took the device's figures:
  /// "weights in i6", "nn.experts".
  const llvm::StringSet<> &notMeasured() const { return missing; }

private:
  std::optional<double> measuredUs(mlir::Operation *op, const KernelWork &of) const;
  /// Returns the name by which the weights of a linear were measured, "" for formats that were not; `format` becomes
  /// the name of the format.
  llvm::StringRef measuredPrecision(ContractionOpInterface linear, std::string &format) const;
  std::optional<double> linearUs(ContractionOpInterface linear) const;
  double attentionUs(nn::CachedAttentionOp attention, const KernelWork &of) const;

  WorkModel work;
  const target::Device &device;
  const CatalogueDevice *measured;
  bool isDecoder = false;      ///< a function of a model that keeps caches
  double layerWeights = 0;     ///< weights of the linears in the function's layers, divided by the number of layers
  bool measuresLayers = false; ///< times were measured for the format of some of these linears
  mutable llvm::StringSet<> missing;
};

} // namespace intarsia::partition

#endif
