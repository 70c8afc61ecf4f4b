//===- EmitKernels.cpp - Kernels become functions of GPU threads ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/KernelBodies.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "intarsia/Target/Target.h"
#include "lib/Target/GPU/Codegen.h"
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/LinearResults.h"
#include "lib/Target/GPU/MatrixInstructions.h"
#include "lib/Target/GPU/QuantizedRows.h"
#include "lib/Target/GPU/TiledLinear.h"
#include "lib/Target/GPU/WindowReads.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;

namespace intarsia::gpu {

/// Returns an op of those that values are computed by whose elements depend on others: it quantizes, or normalizes
/// rows. An op's results count as computed. Returns null if there is none.
static Operation *findRowwise(ValueRange values, Operation *computed = nullptr) {
  SmallVector<Value> worklist(values);
  llvm::DenseSet<Operation *> seen;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || op == computed || !seen.insert(op).second)
      continue;
    if (isa<RowwiseOpInterface, nn::QuantizeOp, nn::DequantizeOp>(op))
      return op;
    llvm::append_range(worklist, op->getOperands());
  }
  return nullptr;
}

/// Returns true if all results have the rows of a linear's result, whose weight has a known shape.
static bool hasRowsOf(ContractionOpInterface product, rt::KernelOp kernel) {
  SymbolicSizes sizes(kernel);
  auto rowsOf = [&](Value value) {
    AffineExpr product = getAffineConstantExpr(1, kernel.getContext());
    for (AffineExpr size : sizes.of(value).drop_back())
      product = product * size;
    return product;
  };
  if (!cast<RankedTensorType>(product.getRight().getType()).hasStaticShape())
    return false;
  return llvm::all_of(kernel.getBody().front().getTerminator()->getOperands(), [&](Value result) {
    ArrayRef<AffineExpr> extents = sizes.of(result);
    return !extents.empty() && extents.back() == sizes.of(product->getResult(0)).back() &&
           rowsOf(result) == rowsOf(product->getResult(0));
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

/// Returns the first op of a kernel for which a condition holds; null if there is none.
static Operation *findOp(rt::KernelOp kernel, function_ref<bool(Operation *)> isMeant) {
  Operation *found = nullptr;
  kernel.getBody().walk([&](Operation *op) {
    found = isMeant(op) ? op : nullptr;
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

/// Returns the op that a kernel is emitted around; null if that are its rows.
static Operation *rootOf(rt::KernelOp kernel) {
  return findOp(kernel, [](Operation *op) {
    auto root = dyn_cast<KernelRootOpInterface>(op);
    return root && root.getKernelRoot() != KernelRoot::Rows;
  });
}

/// Returns why no emitter takes a linear; empty if one does. Each of its elements has to be computed by itself but for
/// the sums, unless its input is quantized in the kernel.
static std::string whyLoops(rt::KernelOp kernel, nn::LinearOp linear, const Architecture &architecture) {
  Operation *rowwise = findRowwise(kernel.getBody().front().getTerminator()->getOperands(), linear);
  if (!rowwise && !QuantizedRows::of(kernel, linear, architecture))
    rowwise = findRowwise(linear->getOperands());
  if (rowwise)
    return ("'" + rowwise->getName().getStringRef() + "' is in the same kernel, whose blocks see parts of rows").str();
  if (!hasRowsOf(linear, kernel))
    return "a result of its kernel has other rows than it";
  return "";
}

static std::string whyLoops(rt::KernelOp kernel, nn::ConvOp conv) {
  if (!WindowReads::arePossible(conv))
    return "its channels are in groups, or it is transposed";
  return hasRowsOf(conv, kernel) ? "" : "a result of its kernel has other rows than it";
}

namespace {
/// One row for each kind of op that a kernel is emitted around, but for linears, which have several emitters.
struct Root {
  KernelRoot kind;
  Emitter (*make)(rt::KernelOp kernel, Operation *root, const Architecture &architecture);
  StringLiteral whyNot;
};
} // namespace

/// Returns the row of an op; null if there is none.
static const Root *findRoot(Operation *op) {
  static constexpr StringLiteral operands =
      "it has heads or operands that its kernels are not made for, or another op stands behind it";
  static constexpr StringLiteral others = "another op than elementwise ones is in the same kernel";
  static const Root table[] = {
      {KernelRoot::Attention, makeAttentionKernel, operands},
      {KernelRoot::CachedAttention, makeCachedAttentionKernel, operands},
      {KernelRoot::CacheAppend, makeCacheAppendKernel, operands},
      {KernelRoot::Route, makeRouteKernel, others},
      {KernelRoot::Candidates, makeCandidatesKernel, others},
      {KernelRoot::Experts, makeExpertsKernel, others},
      {KernelRoot::Matmul, makeMatmulKernel, "an op that is not elementwise, or f64, is in the same kernel"},
  };
  KernelRoot kind = cast<KernelRootOpInterface>(op).getKernelRoot();
  const Root *found = llvm::find_if(table, [&](const Root &root) { return root.kind == kind; });
  return found == std::end(table) ? nullptr : found;
}

/// Returns why a kernel runs as the loops of its ops' references; empty if there is an emitter for it.
static std::string whyLoops(rt::KernelOp kernel, const Architecture &architecture) {
  Operation *op = rootOf(kernel);
  if (!op)
    return findOp(kernel, [](Operation *each) { return isa<nn::QuantizeOp, nn::DequantizeOp>(each); })
               ? "rows are quantized in it, for which there is no other kernel"
               : "";
  if (auto linear = dyn_cast<nn::LinearOp>(op))
    return whyLoops(kernel, linear, architecture);
  if (auto conv = dyn_cast<nn::ConvOp>(op))
    return whyLoops(kernel, conv);
  if (auto experts = dyn_cast<nn::ExpertsOp>(op); experts && experts.getIntermediateFormat())
    return "rows between its matrices are quantized, and kernels of experts multiply floats "
           "(--quantize-activations=16 leaves them as they are)";
  const Root *root = findRoot(op);
  if (!root)
    return "there is no kernel for it";
  return root->make(kernel, op, architecture) ? "" : root->whyNot.str();
}

/// Returns emitters of a linear, for the numbers of rows that it may have.
static std::vector<Emitter> emittersOf(rt::KernelOp kernel, nn::LinearOp linear, const Architecture &architecture) {
  std::vector<Emitter> emitters;
  std::optional<QuantizedRows> quantized = QuantizedRows::of(kernel, linear, architecture);
  const QuantizedRows *input = quantized ? &*quantized : nullptr;
  if (input)
    emitters.push_back(makeQuantizeRowsKernel(kernel, *input, architecture));
  // The number of rows may be known only when the kernel is launched: there are functions for few and for many.
  std::optional<int64_t> rows = knownRows(linear);
  bool areFew = rows && *rows <= mostOfFewRows;
  bool hasFewRows = multipliesFewRows(kernel, linear) && (!rows || areFew);
  if (hasFewRows)
    emitters.push_back(makeFewRowsLinearKernel(kernel, linear, architecture, input));
  if (hasFewRows && areFew)
    return emitters;
  RowRange tiled;
  tiled.above = hasFewRows ? mostOfFewRows : 0;
  if (input && input->values == QuantizedRows::Values::Integers) {
    const MatrixInstruction *integers = findMatrixInstruction(architecture, MatrixElement::I8);
    emitters.push_back(makeIntegerLinearKernel(kernel, linear, architecture, *integers, tiled, *input));
    return emitters;
  }
  if (input && input->values == QuantizedRows::Values::E2M1) {
    const MatrixInstruction *blocks =
        findMatrixInstruction(architecture, input->hasRowScales ? MatrixElement::NVFP4 : MatrixElement::MXFP4);
    emitters.push_back(makeBlockScaledLinearKernel(kernel, linear, architecture, *blocks, tiled, *input));
    return emitters;
  }
  Type precision = linear.getPrecision().value_or(Float32Type::get(kernel.getContext()));
  if (input)
    precision =
        input->values == QuantizedRows::Values::E4M3 ? Type(Float8E4M3FNType::get(kernel.getContext())) : input->type;
  const MatrixInstruction &instruction = matrixInstruction(architecture, precision);
  if (instruction.family == MatrixFamily::Wgmma) {
    // Four warps together multiply 64 rows at least.
    // Reading weights takes the time of so few rows: floats of 8 bits may as well be multiplied as f16.
    const MatrixInstruction *ofWarp =
        findWarpInstruction(architecture, multipliesFloats8(instruction) ? MatrixElement::F16 : instruction.element);
    emitters.push_back(
        makeMatrixLinearKernel(kernel, linear, architecture, *ofWarp, {tiled.above, leastTileRows}, input));
    tiled.above = leastTileRows;
  }
  TensorCopies copies = tensorCopiesOf(kernel, linear, architecture);
  emitters.push_back(copies.arePossible
                         ? makeTensorCopyLinearKernel(kernel, linear, architecture, instruction, copies, tiled)
                         : makeMatrixLinearKernel(kernel, linear, architecture, instruction, tiled, input));
  return emitters;
}

/// Returns emitters of a convolution, for the numbers of positions that it may have.
static std::vector<Emitter> emittersOf(rt::KernelOp kernel, nn::ConvOp conv, const Architecture &architecture) {
  std::vector<Emitter> emitters;
  const MatrixInstruction &instruction =
      matrixInstruction(architecture, conv.getPrecision().value_or(Float32Type::get(kernel.getContext())));
  RowRange tiled;
  if (instruction.family == MatrixFamily::Wgmma) {
    const MatrixInstruction *ofWarp = findWarpInstruction(architecture, instruction.element);
    emitters.push_back(makeMatrixLinearKernel(kernel, conv, architecture, *ofWarp, {0, leastTileRows}, nullptr));
    tiled.above = leastTileRows;
  }
  emitters.push_back(makeMatrixLinearKernel(kernel, conv, architecture, instruction, tiled, nullptr));
  return emitters;
}

/// Returns the emitters of a kernel's functions, in the order of their launches; none if it runs as plain loops.
static std::vector<Emitter> emittersOf(rt::KernelOp kernel, const Architecture &architecture) {
  std::vector<Emitter> emitters;
  if (!whyLoops(kernel, architecture).empty())
    return emitters;
  Operation *root = rootOf(kernel);
  if (auto linear = dyn_cast_if_present<nn::LinearOp>(root))
    return emittersOf(kernel, linear, architecture);
  if (auto conv = dyn_cast_if_present<nn::ConvOp>(root))
    return emittersOf(kernel, conv, architecture);
  emitters.push_back(root ? findRoot(root)->make(kernel, root, architecture) : makeRowsKernel(kernel, architecture));
  return emitters;
}

/// Decides the shape of a kernel, by what IR states where it does: one for each of its emitters.
static FailureOr<ArrayAttr> decideShapes(rt::KernelOp kernel, const Architecture &architecture,
                                         ArrayRef<Emitter> emitters) {
  size_t count = std::max<size_t>(emitters.size(), 1);
  FailureOr<Attribute> all = kernel::statedShape(kernel, architecture.name);
  if (failed(all))
    return failure();
  auto stated = dyn_cast_if_present<ArrayAttr>(*all);
  if (*all && (!stated || stated.size() != count))
    return kernel.emitOpError() << kernel::shapesAttribute << " of " << architecture.name << " states " << *all
                                << ", must be an array of " << count << " shapes, one for each kind of launch";
  SmallVector<Attribute> shapes;
  for (size_t i = 0; i != count; ++i) {
    KernelShape shape(kernel, architecture.name, stated ? stated[i] : Attribute());
    if (emitters.empty()) {
      shape.state("kernel", "loops");
      shape.state("why", whyLoops(kernel, architecture));
    } else if (failed(emitters[i]->decideShape(shape))) {
      return failure();
    }
    FailureOr<DictionaryAttr> described = shape.finish();
    if (failed(described))
      return failure();
    shapes.push_back(*described);
  }
  return ArrayAttr::get(kernel.getContext(), shapes);
}

static LogicalResult emitKernel(rt::KernelOp kernel, const Architecture &architecture, mlir::gpu::GPUModuleOp module,
                                StringRef name) {
  std::vector<Emitter> emitters = emittersOf(kernel, architecture);
  if (failed(decideShapes(kernel, architecture, emitters)))
    return failure();
  if (emitters.empty())
    return emitGeneralKernel(kernel, architecture, module, name);
  return success(llvm::all_of(emitters, [&](Emitter &emitter) { return succeeded(emitter->emit(module, name)); }));
}

LogicalResult chooseShapes(ArrayRef<target::NumberedKernel> kernels, const Architecture &architecture) {
  for (auto [index, kernel] : kernels) {
    FailureOr<ArrayAttr> shapes = decideShapes(kernel, architecture, emittersOf(kernel, architecture));
    if (failed(shapes))
      return failure();
    kernel::setShape(kernel, architecture.name, *shapes);
  }
  return success();
}

/// Remarks on a linear that tensor copies would read, if its rows had other lengths.
static void remarkOnTensorCopies(rt::KernelOp kernel, ArrayRef<const Architecture *> architectures) {
  auto linear = dyn_cast_or_null<nn::LinearOp>(rootOf(kernel));
  std::vector<StringRef> names;
  int64_t pitchBytes = 0;
  for (const Architecture *architecture : architectures) {
    if (!linear || !whyLoops(kernel, *architecture).empty())
      continue;
    TensorCopies copies = tensorCopiesOf(kernel, linear, *architecture);
    if (copies.arePossible || copies.pitchBytes == 0)
      continue;
    names.push_back(architecture->name);
    pitchBytes = copies.pitchBytes;
  }
  if (!names.empty())
    linear.emitRemark() << "kernel '" << kernel.getSymName() << "' copies by threads on " << llvm::join(names, ", ")
                        << ": its rows have " << pitchBytes << " bytes, and tensor copies need a multiple of 16";
}

void remarkOnLoops(ArrayRef<target::NumberedKernel> kernels, ArrayRef<const Architecture *> architectures) {
  for (auto [index, kernel] : kernels) {
    std::map<std::string, std::vector<StringRef>> reasons;
    for (const Architecture *architecture : architectures)
      if (std::string why = whyLoops(kernel, *architecture); !why.empty())
        reasons[why].push_back(architecture->name);
    Operation *named = rootOf(kernel) ? rootOf(kernel) : kernel.getOperation();
    for (const auto &[why, names] : reasons)
      named->emitRemark() << "kernel '" << kernel.getSymName() << "' is slow on " << llvm::join(names, ", ")
                          << ": it runs as plain loops, an element a thread, because " << why;
    remarkOnTensorCopies(kernel, architectures);
  }
}

/// Returns why a kernel widens floats that it could multiply as they are; empty if it does not.
static std::string whyWidens(const QuantizedRows &input, const Architecture &architecture) {
  if (input.values == QuantizedRows::Values::E4M3)
    return multipliesFloats8(matrixInstruction(architecture, Float8E4M3FNType::get(input.type.getContext())))
               ? ""
               : "kernels have no matrix instruction there of 8-bit floats";
  if (input.values != QuantizedRows::Values::Dequantized)
    return "";
  if (architecture.name == "sm_100a")
    return "only tcgen05 multiplies 4-bit floats with scales there, which kernels do not use";
  return "kernels have no matrix instruction there of 4-bit floats with such scales";
}

void remarkOnWidening(ArrayRef<target::NumberedKernel> kernels, ArrayRef<const Architecture *> architectures) {
  for (auto [index, kernel] : kernels) {
    auto linear = dyn_cast_if_present<nn::LinearOp>(rootOf(kernel));
    std::map<std::string, std::vector<StringRef>> reasons;
    std::string what;
    for (const Architecture *architecture : architectures) {
      std::optional<QuantizedRows> input = linear ? QuantizedRows::of(kernel, linear, *architecture) : std::nullopt;
      std::string why = input ? whyWidens(*input, *architecture) : "";
      if (why.empty())
        continue;
      reasons[why].push_back(architecture->name);
      bool isE4M3 = input->values == QuantizedRows::Values::E4M3;
      what = isE4M3 ? "E4M3 as f16" : input->type.isF16() ? "NVFP4 as f16" : "MXFP4 as bf16";
    }
    for (const auto &[why, names] : reasons)
      linear->emitRemark() << "kernel '" << kernel.getSymName() << "' multiplies " << what << " on "
                           << llvm::join(names, ", ") << ": " << why
                           << " (--quantize-activations=16 leaves inputs as they are)";
  }
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
    if (failed(rt::checkBodies(getOperation())))
      return signalPassFailure();
    std::vector<NumberedKernel> kernels = numberKernels(getOperation());
    gpu::remarkOnLoops(kernels, found);
    if (failed(gpu::emitKernels(kernels, *found, getOperation())))
      return signalPassFailure();
    for (auto [index, kernel] : kernels)
      kernel.erase();
  }
};
} // namespace

} // namespace intarsia::target
