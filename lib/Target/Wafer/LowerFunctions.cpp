//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/Programs.h"

#include "dialects/Wafer/WorkingGrid.h"
#include "lib/Runtime/Wafer/Functional.h"
#include "lib/Target/Wafer/Lifetimes.h"
#include "lib/Target/Wafer/ProgramBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace intarsia::wafer {

#define GEN_PASS_DECL
#define GEN_PASS_DEF_WAFERLOWERFUNCTIONS
#define GEN_PASS_DEF_WAFERVERIFYPROGRAMS
#define GEN_PASS_REGISTRATION
#include "lib/Target/Wafer/Passes.h.inc"

namespace {

/// Returns the grid of all ops of a function; 0, with an error, if there is none or they differ.
int64_t gridOf(func::FuncOp function) {
  int64_t grid = 0;
  for (Operation &op : function.getBody().front()) {
    auto attribute = op.getAttrOfType<IntegerAttr>("grid");
    if (!attribute)
      continue;
    if (grid != 0 && grid != attribute.getInt()) {
      op.emitOpError() << "is on a grid of " << attribute.getInt() << ", an op before on one of " << grid
                       << "; changing the grid is not supported";
      return 0;
    }
    grid = attribute.getInt();
  }
  if (grid == 0)
    function.emitOpError() << "has no distributed product";
  return grid;
}

LogicalResult lowerOp(ProgramBuilder &builder, Operation &op) {
  builder.loc = op.getLoc();
  if (isa<DistDecodeOp>(op)) // the product that reads it decodes
    return success();
  if (auto gemm = dyn_cast<DistGemmOp>(op))
    return lowerGemm(builder, gemm);
  if (auto gemv = dyn_cast<DistGemvOp>(op))
    return lowerGemv(builder, gemv);
  if (auto map = dyn_cast<DistMapOp>(op))
    return lowerMap(builder, map);
  if (auto norm = dyn_cast<DistNormOp>(op))
    return lowerNorm(builder, norm);
  if (auto attention = dyn_cast<DistAttentionOp>(op))
    return lowerAttention(builder, attention);
  if (auto append = dyn_cast<DistAppendOp>(op))
    return lowerAppend(builder, append);
  if (auto relayout = dyn_cast<DistRelayoutOp>(op))
    return lowerRelayout(builder, relayout);
  if (auto result = dyn_cast<func::ReturnOp>(op)) {
    for (auto [index, value] : llvm::enumerate(result.getOperands()))
      if (failed(builder.store(value, int64_t(index))))
        return failure();
    return success();
  }
  return op.emitOpError() << "is not supported on wafers: wafer.dist_gemm, wafer.dist_gemv, wafer.dist_map, "
                             "wafer.dist_norm, wafer.dist_decode, wafer.dist_attention, wafer.dist_append, "
                             "wafer.dist_relayout and return are";
}

LogicalResult lowerFunction(func::FuncOp function, TargetAttr target) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError() << "has control flow or no body, which programs of wafers cannot have";
  int64_t grid = gridOf(function);
  if (grid == 0)
    return failure();
  if (grid > target.getColumns() || grid > target.getRows())
    return function.emitOpError() << "is on a grid of " << grid << " by " << grid << ", " << target.getName().getValue()
                                  << " has " << target.getColumns() << " by " << target.getRows() << " cores";
  OpBuilder builder(function);
  DenseI64ArrayAttr origin;
  if (target.getDefects()) {
    WaferCores cores{target.getColumns(), target.getRows(), target.getDefects().asArrayRef()};
    std::optional<WorkingGrid> working = findWorkingGrid(cores, grid);
    if (!working) {
      int64_t largest = largestWorkingGrid(cores);
      return function.emitOpError() << "is on a grid of " << grid << " by " << grid << ", but the largest of "
                                    << target.getName().getValue()
                                    << " on columns and rows in which all cores work has " << largest << " by "
                                    << largest << "; take a smaller grid";
    }
    origin = builder.getDenseI64ArrayAttr({working->columns.front(), working->rows.front()});
  }
  auto program = ProgramOp::create(builder, function.getLoc(), function.getSymName(), target, grid, grid, origin);
  program.getBody().emplaceBlock();
  ProgramBuilder writer(function, program);
  for (Operation &op : function.getBody().front())
    if (failed(lowerOp(writer, op)))
      return failure();
  function.erase();
  for (auto [buffer, place] : llvm::zip_equal(program.getBody().getOps<BufferOp>(), placesOf(extractProgram(program))))
    buffer.setOffset(place);
  return success();
}

struct LowerFunctions : impl::WaferLowerFunctionsBase<LowerFunctions> {
  using WaferLowerFunctionsBase::WaferLowerFunctionsBase;

  void runOnOperation() override {
    llvm::Expected<TargetAttr> named = targetNamed(&getContext(), target);
    if (!named) {
      getOperation().emitError() << llvm::toString(named.takeError());
      return signalPassFailure();
    }
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (failed(lowerFunction(function, *named)))
        return signalPassFailure();
  }
};

struct VerifyPrograms : impl::WaferVerifyProgramsBase<VerifyPrograms> {
  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (std::string problem = check(extractProgram(program)); !problem.empty()) {
        program.emitOpError() << problem;
        return signalPassFailure();
      }
  }
};

} // namespace

} // namespace intarsia::wafer

void intarsia::registerWaferPasses() { wafer::registerWaferPasses(); }

void intarsia::buildWaferPipeline(OpPassManager &pipeline, StringRef target, bool verifies) {
  wafer::WaferLowerFunctionsOptions options;
  options.target = target.str();
  pipeline.addPass(wafer::createWaferLowerFunctions(options));
  if (verifies)
    pipeline.addPass(wafer::createWaferVerifyPrograms());
}
