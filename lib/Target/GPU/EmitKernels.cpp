//===- EmitKernels.cpp - Kernels become functions of GPU threads ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/SymbolicSizes.h"
#include "intarsia/Target/Target.h"
#include "lib/Target/GPU/Codegen.h"
#include "lib/Target/GPU/LinearResults.h"
#include "lib/Target/GPU/QuantizedRows.h"
#include "lib/Target/GPU/TiledLinear.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::gpu {

/// Returns true if every element of values can be computed by itself: nothing is quantized, and no row is normalized.
/// An op's results count as computed.
static bool isElementwise(ValueRange values, Operation *computed = nullptr) {
  SmallVector<Value> worklist(values);
  llvm::DenseSet<Operation *> seen;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || op == computed || !seen.insert(op).second)
      continue;
    if (isa<RowwiseOpInterface, nn::QuantizeOp, nn::DequantizeOp>(op))
      return false;
    llvm::append_range(worklist, op->getOperands());
  }
  return true;
}

/// Returns true if all results have the rows of a linear's result, whose weight has a known shape.
static bool hasRowsOfLinear(rt::KernelOp kernel, nn::LinearOp linear) {
  SymbolicSizes sizes(kernel);
  auto rowsOf = [&](Value value) {
    AffineExpr product = getAffineConstantExpr(1, kernel.getContext());
    for (AffineExpr size : sizes.of(value).drop_back())
      product = product * size;
    return product;
  };
  if (!cast<RankedTensorType>(linear.getWeight().getType()).hasStaticShape())
    return false;
  return llvm::all_of(kernel.getBody().front().getTerminator()->getOperands(), [&](Value result) {
    ArrayRef<AffineExpr> extents = sizes.of(result);
    return !extents.empty() && extents.back() == sizes.of(linear.getResult()).back() &&
           rowsOf(result) == rowsOf(linear.getResult());
  });
}

/// Returns how many rows a linear has, if that is known.
static std::optional<int64_t> knownRows(nn::LinearOp linear) {
  auto type = cast<RankedTensorType>(linear.getResult().getType());
  int64_t rows = 1;
  for (int64_t size : type.getShape().drop_back()) {
    if (ShapedType::isDynamic(size))
      return std::nullopt;
    rows *= size;
  }
  return rows;
}

/// Emits a linear, by functions for the numbers of rows that it may have. `quantized` is null if the input is not.
static LogicalResult emitLinear(rt::KernelOp kernel, nn::LinearOp linear, const Architecture &architecture,
                                const MatrixInstruction *instruction, const QuantizedRows *quantized,
                                mlir::gpu::GPUModuleOp module, StringRef name) {
  if (quantized && failed(makeQuantizeRowsKernel(kernel, *quantized, architecture)->emit(module, name)))
    return failure();
  // Whether rows are few is known when the kernel is launched: there are functions for both.
  std::optional<int64_t> rows = knownRows(linear);
  bool areFew = rows && *rows <= mostOfFewRows;
  bool hasFewRows = multipliesFewRows(kernel, linear) && (!rows || areFew);
  if (hasFewRows && failed(makeFewRowsLinearKernel(kernel, linear, architecture, quantized)->emit(module, name)))
    return failure();
  if (hasFewRows && areFew)
    return success();
  RowRange tiled;
  tiled.above = hasFewRows ? mostOfFewRows : 0;
  if (quantized)
    return makeIntegerLinearKernel(kernel, linear, architecture, *instruction, *quantized, tiled)->emit(module, name);
  if (instruction && instruction->family == MatrixFamily::Wgmma) {
    // Four warps together multiply 64 rows at least.
    const MatrixInstruction *ofWarp = findWarpInstruction(architecture, instruction->element);
    if (failed(makeMatrixLinearKernel(kernel, linear, architecture, *ofWarp, {tiled.above, leastTileRows})
                   ->emit(module, name)))
      return failure();
    tiled.above = leastTileRows;
  }
  if (instruction)
    return makeMatrixLinearKernel(kernel, linear, architecture, *instruction, tiled)->emit(module, name);
  return makeLinearKernel(kernel, linear, architecture, hasFewRows)->emit(module, name);
}

LogicalResult emitKernel(rt::KernelOp kernel, const Architecture &architecture, mlir::gpu::GPUModuleOp module,
                         StringRef name) {
  Operation *root = nullptr;
  bool quantizes = false;
  kernel.getBody().walk([&](Operation *op) {
    quantizes |= isa<nn::QuantizeOp, nn::DequantizeOp>(op);
    if (auto found = dyn_cast<KernelRootOpInterface>(op); found && found.getKernelRoot() != KernelRoot::Rows)
      root = op;
  });
  if (!root && !quantizes)
    return makeRowsKernel(kernel, architecture)->emit(module, name);
  if (auto attention = dyn_cast_if_present<nn::AttentionOp>(root);
      attention && hasAttentionKernel(kernel, attention, architecture))
    return makeAttentionKernel(kernel, root, architecture)->emit(module, name);
  if (auto attention = dyn_cast_if_present<nn::CachedAttentionOp>(root);
      attention && hasCachedAttentionKernel(kernel, attention, architecture))
    return makeCachedAttentionKernel(kernel, root, architecture)->emit(module, name);
  if (auto append = dyn_cast_if_present<nn::CacheAppendOp>(root); append && hasCacheAppendKernel(kernel, append))
    return makeCacheAppendKernel(kernel, root, architecture)->emit(module, name);
  auto linear = dyn_cast_if_present<nn::LinearOp>(root);
  ValueRange results = kernel.getBody().front().getTerminator()->getOperands();
  if (!linear || !isElementwise(results, linear) || !hasRowsOfLinear(kernel, linear))
    return emitGeneralKernel(kernel, architecture, module, name);
  auto emit = [&](std::optional<MatrixElement> element, const QuantizedRows *quantized) {
    const MatrixInstruction *instruction = element ? findMatrixInstruction(architecture, *element) : nullptr;
    return emitLinear(kernel, linear, architecture, instruction, quantized, module, name);
  };
  if (std::optional<QuantizedRows> quantized = QuantizedRows::of(kernel, linear))
    return emit(MatrixElement::I8, &*quantized);
  if (!isElementwise(linear->getOperands()))
    return emitGeneralKernel(kernel, architecture, module, name);
  Type precision = linear.getPrecision().value_or(Float32Type::get(kernel.getContext()));
  return emit(matrixElement(precision), nullptr);
}

FailureOr<mlir::gpu::GPUModuleOp> emitKernels(ArrayRef<target::NumberedKernel> kernels,
                                              const Architecture &architecture, ModuleOp into) {
  OpBuilder builder = OpBuilder::atBlockEnd(into.getBody());
  auto module = mlir::gpu::GPUModuleOp::create(builder, into.getLoc(), architecture.name);
  for (auto [index, kernel] : kernels)
    if (failed(emitKernel(kernel, architecture, module, "itx_k" + std::to_string(index))))
      return failure();
  return module;
}

} // namespace intarsia::gpu

namespace intarsia::target {

#define GEN_PASS_DECL_TARGETGPUEMITKERNELS
#define GEN_PASS_DEF_TARGETGPUEMITKERNELS
#include "lib/Target/Passes.h.inc"

namespace {
struct TargetGpuEmitKernels : impl::TargetGpuEmitKernelsBase<TargetGpuEmitKernels> {
  using TargetGpuEmitKernelsBase::TargetGpuEmitKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override { gpu::addGpuDialects(registry); }

  void runOnOperation() override {
    const gpu::Architecture *found = gpu::findArchitecture(gpu::Vendor::Nvidia, architecture);
    if (!found)
      found = gpu::findArchitecture(gpu::Vendor::Amd, architecture);
    if (!found) {
      getOperation().emitError() << "unknown GPU architecture '" << architecture << "'";
      return signalPassFailure();
    }
    std::vector<NumberedKernel> kernels = numberKernels(getOperation());
    if (failed(gpu::emitKernels(kernels, *found, getOperation())))
      return signalPassFailure();
    for (auto [index, kernel] : kernels)
      kernel.erase();
  }
};
} // namespace

} // namespace intarsia::target
