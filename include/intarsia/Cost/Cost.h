//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Cost of a piece of a model on a device: work (flops, transcendental functions, bytes) at the expected sizes, and a
// device model whose figures are fitted from measurements (catalogue/efficiency). GPUs have a formula of their own for
// kernels around a matrix product (GpuKernels.h).
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_COST_H
#define INTARSIA_COST_COST_H

#include "dialects/Interfaces/Interfaces.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "intarsia/Cost/GpuKernels.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace intarsia {

/// The matrix product that a kernel is built around, as a kernel of its own.
struct MatrixWork {
  GpuKernelShape shape;
  llvm::StringRef elementType; ///< what it computes in, as the catalogue names it
  double transcendentals = 0;
  double bytes = 0; ///< of its operands and results

  /// Makes one product of two linears of the same input, whose columns add up; false if they are no such.
  bool addColumns(const MatrixWork &other);
};

/// Work of one kernel.
struct KernelWork {
  KernelRoot root = KernelRoot::Generic;
  double flops = 0; ///< multiply and add counted separately
  double transcendentals = 0;
  double weightBytes = 0;     ///< weights and constants: read once a call, from memory or the last cache
  double activationBytes = 0; ///< read from and written to other kernels
  double finishElements = 0;  ///< elements that a row-wise finish of a matmul passes over again
  std::optional<MatrixWork> matrix = std::nullopt; ///< read by models of GPUs
};

/// Shares of the device's peaks that kernels with one kind of root reach.
struct RootEfficiency {
  double compute = 0;   ///< share of peakGflops
  double bandwidth = 0; ///< share of cacheGBps and memoryGBps
};

/// Fitted figures of one kind of device. `time = launch + max(flops / (peak * efficiency), bytes / (bandwidth *
/// efficiency)) + transcendentals + row-wise finish`. On a GPU the formula of GpuKernels.h replaces launch and maximum
/// of kernels around a matrix product.
struct DeviceModel {
  std::string name;
  std::string kind;                  ///< kind of the targets that use the model: "cpu"
  std::vector<std::string> variants; ///< variants of that kind that use the model: "znver5"; "" is a target's only one
  std::string machine;               ///< machine of the measurements, by features, or that nothing was measured
  double peakGflops = 0;             ///< f32 fused multiply-adds, all threads together
  double memoryGBps = 0;             ///< weights
  double cacheGBps = 0;              ///< activations
  double launchUs = 0;               ///< start and end of a kernel on all threads
  double transcendentalNs = 0;       ///< one evaluation of exp, tanh or erf, all threads together
  double finishNs = 0;               ///< one element of a row-wise finish, all threads together
  std::map<KernelRoot, RootEfficiency> roots;
  std::optional<GpuCosts> gpu; ///< of a GPU: times of kernels around a matrix product

  /// Returns the time of one launch in microseconds.
  double microseconds(const KernelWork &work) const;

  /// Reads a model; the error says `file:line: ` and the reason.
  static llvm::Expected<DeviceModel> parse(llvm::StringRef yaml, llvm::StringRef file);
  /// Returns the model of a kind of target that has this name or lists it as a variant, null if there is none.
  static const DeviceModel *find(llvm::StringRef kind, llvm::StringRef variant);
  /// Returns all models of the catalogue, which is part of the program.
  static const std::vector<DeviceModel> &all();
};

/// Sizes and work of a function's ops at expected values of its symbols: `nn.expected_sizes` of the function, and where
/// that is missing batch = 1, sequence = 128 and 1 for every other symbol, bounded by `nn.size_limits`.
class WorkModel {
public:
  explicit WorkModel(mlir::FunctionOpInterface function);
  /// Reads the expected values again, after `nn.expected_sizes` of the function has changed.
  void readExpected(mlir::FunctionOpInterface function);

  /// Returns the expressions of all dimensions of a tensor.
  mlir::ArrayRef<mlir::AffineExpr> sizes(mlir::Value value) const;
  /// Returns the expression of an index value, null if it is not a function of sizes.
  mlir::AffineExpr indexSize(mlir::Value value) const;
  /// Returns true if both tensors have equal sizes whatever the symbols are.
  bool sameSizes(mlir::Value a, mlir::Value b) const { return sizes(a) == sizes(b); }
  /// Returns the underlying analysis, for the names of symbols.
  const SymbolicSizes &symbols() const { return analysis; }
  /// Gives a value that a pass made after the analysis the sizes of the value that it replaces.
  void replaced(mlir::Value before, mlir::Value after);

  int64_t elements(mlir::Value value) const;
  double bytes(mlir::Value value) const;
  /// Returns the work of the ops as one kernel: bytes are those of values that cross its border.
  KernelWork work(KernelRoot root, mlir::ArrayRef<mlir::Operation *> ops) const;
  /// Returns the value of each symbol, in order.
  mlir::ArrayRef<int64_t> expected() const { return expectedValues; }

private:
  void add(mlir::Operation *op, KernelWork &work) const;
  /// Returns the matrix product of the op that a kernel is built around; none if it is something else.
  std::optional<MatrixWork> matrixWork(mlir::Operation *root) const;
  double elementBytes(mlir::Value value) const;
  double evaluate(mlir::AffineExpr expression) const;

  SymbolicSizes analysis;
  llvm::SmallVector<int64_t> expectedValues;
  llvm::DenseMap<mlir::Value, Sizes> overrides;
};

/// Returns true for a tensor that is known at compile time: a weight, a constant, a concatenation or reshape of those,
/// or a transposed stored matrix.
bool isCompileTime(mlir::Value value);

} // namespace intarsia

#endif
