//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Programs for several rows, and the grid that their products are on.
//
// Weights and caches stay where programs for one row have them. A launch for several rows moves the weights of its
// layer to the grid of products of matrices, and forgets them there afterwards, so that the next token finds all where
// it needs it. Moving them so takes as long as moving the weights of all layers once before a prompt, which would have
// to go back after it. Programs of caches are on the grid of the caches.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/Timing.h"
#include "lib/Target/Wafer/GridChoice.h"
#include "lib/Target/Wafer/Programs.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>

using namespace llvm;

namespace intarsia::wafer {
namespace {

/// Rows that a core multiplies at once. More than 8 save little of a product, which takes 7 cycles for 8 of which 3 are
/// the start of the loop.
constexpr int64_t rowsOfTile[] = {8, 4, 2, 1};
/// Grids that are tried with programs beside that of one row, after an estimate of all.
constexpr size_t mostGridsTried = 2;
/// Regions that layers may be on beside those that programs for one row need.
constexpr int64_t mostMoreRegions = 3;

/// Returns the rows of a tile for a prompt on a grid.
int64_t tileFor(int64_t rows, int64_t grid) {
  int64_t tile = rowsOfTile[0];
  while (tile > 1 && tile / 2 * grid >= rows)
    tile /= 2;
  return tile;
}

} // namespace

/// Returns a program of a function, which is taken out of its module; none if it does not fit.
std::optional<Program> GridChooser::lowerAlone(mlir::func::FuncOp function) {
  mlir::OwningOpRef<mlir::ModuleOp> module(mlir::ModuleOp::create(location));
  function->remove();
  module->push_back(function);
  // The verifier refuses programs that do not fit. Others are tried then, and the user need not know.
  mlir::ScopedDiagnosticHandler ignore(location.getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
  mlir::PassManager manager(location.getContext());
  buildWaferPipeline(manager, mesh.source, /*verifies=*/isCompiled);
  if (failed(manager.run(*module)))
    return std::nullopt;
  return extractProgram(*module->getOps<ProgramOp>().begin());
}

/// Returns the weights of products: matrices that are the same for all rows.
std::vector<GridChooser::Weight> GridChooser::weightsOf(const GridPlan &plan) const {
  std::vector<Weight> weights;
  for (auto [index, kernel] : enumerate(plan.kernels)) {
    const RowsProgram &one = kernel.programs.back();
    for (const Binding &input : one.program.inputs)
      if (const MatrixView &view = one.inputs[size_t(input.argument)];
          !view.hasRows && !kernel.cache && input.tiles.rows != MeshAxis::None && input.tiles.columns != MeshAxis::None)
        weights.push_back({index, input.argument, input.rows, input.columns, input.tiles.rows,
                           one.program.buffers[size_t(input.slot)]});
  }
  return weights;
}

/// Returns the way of a weight to where products of matrices on a grid have it.
Expected<Relayout> GridChooser::relayoutOf(const GridPlan &plan, const Weight &weight, int64_t grid) {
  int64_t side = grid == plan.grid ? grid : std::max(grid, mesh.reachOf(plan.grid, plan.regions));
  std::string key = formatv("{0} {1} {2} {3} {4} {5} {6} {7}", weight.height, weight.width, int(weight.along),
                            weight.tile.isHalf, weight.tile.codeBits, plan.grid, grid, side);
  if (auto known = knownRelayouts.find(key); known != knownRelayouts.end()) {
    Relayout same = known->second;
    same.argument = weight.argument;
    return std::move(same);
  }
  mlir::OpBuilder builder(location.getContext());
  mlir::Type element = weight.tile.codeBits ? mlir::Type(builder.getIntegerType(unsigned(weight.tile.codeBits)))
                       : weight.tile.isHalf ? mlir::Type(builder.getF16Type())
                                            : builder.getF32Type();
  auto type = mlir::RankedTensorType::get({weight.height, weight.width}, element);
  auto function = mlir::func::FuncOp::create(location, "relayout", builder.getFunctionType({type}, {type}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  mlir::Value moved = DistRelayoutOp::create(builder, location, type, function.getArgument(0),
                                             weight.along == MeshAxis::X ? Axis::X : Axis::Y, plan.grid, grid, side);
  mlir::func::ReturnOp::create(builder, location, moved);
  std::optional<Program> program = lowerAlone(function);
  if (!program)
    return createStringError("weights do not fit while they move");
  Relayout way;
  way.cycles = time(*program).cycles;
  way.program = std::move(*program);
  knownRelayouts[key] = way;
  way.argument = weight.argument;
  return std::move(way);
}

/// Returns programs for several rows, with so many in a tile of the grid, as far as they fit beside all weights and
/// caches. They have the weights of their kernel a second time.
Expected<GridChooser::RowsPrograms> GridChooser::rowsOn(const GridPlan &plan, int64_t grid, ArrayRef<int64_t> tiles) {
  RowsPrograms made;
  made.grid = grid;
  made.bytes = plan.bytes;
  size_t count = plan.kernels.size();
  made.programs.resize(count), made.relayouts.resize(count), made.movedBytes.resize(count);
  std::vector<int64_t> movingBytes(count); // of a core, while weights move, beside those that stay
  std::vector<bool> moves(count, true);
  for (const Weight &weight : weightsOf(plan)) {
    Expected<Relayout> way = relayoutOf(plan, weight, grid);
    if (!way) {
      consumeError(way.takeError());
      moves[weight.kernel] = false;
      continue;
    }
    const Program &program = way->program;
    int64_t kept = program.buffers[size_t(program.outputs[0].slot)].placedBytes();
    movingBytes[weight.kernel] =
        std::max(movingBytes[weight.kernel],
                 made.movedBytes[weight.kernel] + program.bytesPerCore() - weight.tile.placedBytes());
    made.movedBytes[weight.kernel] += kept;
    made.relayouts[weight.kernel].push_back(std::move(*way));
  }
  auto fits = [&](int64_t bytes) { return plan.resident + bytes <= memory(); };
  for (int64_t tile : tiles) {
    FunctionSizes sizes{tile * grid, grid, context};
    sizes.cacheGrid = plan.grid;
    sizes.otherGrid = plan.grid;
    mlir::OwningOpRef<mlir::ModuleOp> all(mlir::ModuleOp::create(location));
    std::vector<KernelFunction> functions;
    if (!build(sizes, *all, functions))
      return createStringError("kernels could not be lowered for the wafer");
    std::vector<double> handOvers = handOverCycles(mesh, plan.split, calls, plan.rowBytes, plan.grid, tile * grid,
                                                   /*onlyBetweenWafers=*/grid != plan.grid);
    for (auto [index, function] : enumerate(functions)) {
      if (function.count == 1 || !moves[index] || !fits(movingBytes[index]))
        continue;
      std::optional<Program> program = lowerAlone(function.function);
      if (!program)
        continue;
      int64_t inPlace = 0;
      for (const Binding &input : program->inputs)
        if (function.inputs[size_t(input.argument)].kind == ViewKind::Cache)
          inPlace += program->buffers[size_t(input.slot)].bytes();
      int64_t bytes = std::max(program->bytesPerCore() - inPlace, movingBytes[index]);
      if (!fits(bytes))
        continue;
      made.bytes = std::max(made.bytes, plan.resident + bytes);
      RowsProgram &timed = made.programs[index].emplace_back(timedProgram(function, std::move(*program)));
      timed.cycles += handOvers[index] * double(timed.rows) / double(tile * grid);
    }
  }
  for (auto [programs, relayouts] : zip_equal(made.programs, made.relayouts))
    if (programs.empty())
      relayouts.clear();
  return std::move(made);
}

/// Returns the cycles of a prompt, each kernel for all of its rows.
double GridChooser::promptCycles(const GridPlan &plan, const RowsPrograms &rows) const {
  double cycles = 0;
  for (auto [kernel, count, programs, relayouts] :
       zip_equal(plan.kernels, plan.launches, rows.programs, rows.relayouts)) {
    WaferKernel with = kernel;
    with.programs.insert(with.programs.begin(), programs.begin(), programs.end());
    with.relayouts = relayouts;
    cycles += with.cyclesFor(promptRows()) * double(count);
  }
  return cycles;
}

/// Estimates the cycles of a prompt's products on a grid, and of the ways of their weights, by what a step of MeshGEMM
/// and of a ring takes by the model of times. What does not depend on the grid is left out.
double GridChooser::estimate(const GridPlan &plan, ArrayRef<Weight> weights, int64_t grid) const {
  auto figure = [&](const char *name) { return mesh.wafer.figures.at(name).value; };
  auto tileOf = [](int64_t size, int64_t cores) { return double(divideCeil(size, cores)); };
  int64_t tile = tileFor(promptRows(), grid), times = int64_t(divideCeil(promptRows(), tile * grid));
  int64_t side = grid == plan.grid ? grid : std::max(grid, mesh.reachOf(plan.grid, plan.regions));
  double stage = figure("stage_cycles"), loop = figure("loop_cycles"), link = figure("link_bytes");
  double cycles = 0;
  for (const Weight &weight : weights) {
    double rows = tileOf(weight.height, grid), columns = tileOf(weight.width, grid);
    double sourceRows = tileOf(weight.height, plan.grid), sourceColumns = tileOf(weight.width, plan.grid);
    double wordsOfElement = double(weight.tile.bytes()) / double(weight.tile.elements()) / link;
    double product =
        4 * stage + figure("product_cycles") + rows * columns * (loop + std::ceil(double(tile) / figure("macs")));
    double ways = 4 * stage + sourceRows * loop + rows * loop + sourceRows * (sourceColumns + columns) * wordsOfElement;
    cycles += double(plan.launches[weight.kernel]) * (double(times * grid) * product + double(side) * ways);
  }
  return cycles;
}

/// Returns the grids that may be the fastest for prompts: that of one row, and those with the lowest estimates, of
/// which no two are close to each other.
std::vector<int64_t> GridChooser::promisingGrids(const GridPlan &plan, int64_t side) const {
  if (mesh.rowsGrid)
    return {*mesh.rowsGrid};
  std::vector<int64_t> grids{plan.grid};
  std::vector<Weight> weights = weightsOf(plan);
  if (weights.empty() || !mesh.wafer.defects.empty() || mesh.reachOf(plan.grid, plan.regions) > mesh.largestGrid())
    return grids;
  std::vector<std::pair<double, int64_t>> estimates;
  for (int64_t grid = smallestGrid; grid <= side; ++grid)
    estimates.push_back({estimate(plan, weights, grid), grid});
  std::sort(estimates.begin(), estimates.end());
  for (auto [cycles, grid] : estimates)
    if (grids.size() <= mostGridsTried &&
        none_of(grids, [grid = grid](int64_t other) { return std::abs(other - grid) * 16 <= other; }))
      grids.push_back(grid);
  return grids;
}

/// Returns true if each kernel with weights that is launched more than once has a program for several rows. A head is
/// launched once, for one row.
bool GridChooser::isWhole(const GridPlan &plan, const RowsPrograms &rows) const {
  return all_of(weightsOf(plan), [&](const Weight &weight) {
    return plan.launches[weight.kernel] == 1 || !rows.programs[weight.kernel].empty();
  });
}

/// Returns a plan with programs for several rows, on the grid on which a prompt takes the fewest cycles. Layers are on
/// more regions than programs for one row need where only that leaves room for weights on their way.
Expected<GridPlan> GridChooser::withRows(GridPlan plan, int64_t side) {
  bool isQuantized = any_of(plan.kernels, [](const WaferKernel &kernel) {
    return any_of(kernel.programs.front().inputs, [](const MatrixView &view) { return view.isQuantized(); });
  });
  int64_t regions = plan.regions, grid = plan.grid;
  // Where quantized values move, scales are stored so often that no tile of either grid begins within their groups.
  auto planFor = [&](int64_t rowsGrid, bool verifies) {
    FunctionSizes sizes{1, grid, context};
    sizes.otherGrid = rowsGrid;
    return planOn(sizes, verifies, regions);
  };
  int64_t most = mesh.grid ? regions : std::min(regions + mostMoreRegions, mesh.mostRegions(grid));
  for (;; ++regions) {
    if (regions > plan.regions) {
      Expected<GridPlan> wider = planFor(grid, false);
      if (!wider)
        return wider.takeError();
      plan = std::move(*wider);
    }
    Expected<RowsPrograms> rows = rowsOn(plan, grid, tileFor(promptRows(), grid));
    if (!rows)
      return rows.takeError();
    if (isWhole(plan, *rows) || regions == most)
      break;
  }
  int64_t chosen = grid;
  if (std::vector<int64_t> grids = promisingGrids(plan, side); grids.size() == 1) {
    chosen = grids.front();
  } else {
    double fewest = std::numeric_limits<double>::infinity();
    for (int64_t tried : grids) {
      Expected<GridPlan> there = isQuantized && tried != grid ? planFor(tried, false) : Expected<GridPlan>(plan);
      if (!there)
        return there.takeError();
      if (there->bytes > memory())
        continue;
      Expected<RowsPrograms> rows = rowsOn(*there, tried, tileFor(promptRows(), tried));
      if (!rows)
        return rows.takeError();
      if (double cycles = promptCycles(*there, *rows); cycles < fewest)
        fewest = cycles, chosen = tried;
    }
  }
  if (isCompiled || isQuantized) { // the others were only timed
    Expected<GridPlan> verified = planFor(chosen, isCompiled);
    if (!verified)
      return verified.takeError();
    plan = std::move(*verified);
  }
  plan.rowsGrid = chosen;
  Expected<RowsPrograms> rows = rowsOn(plan, chosen, rowsOfTile);
  if (!rows)
    return rows.takeError();
  if (mesh.rowsGrid.value_or(grid) != grid && !isWhole(plan, *rows))
    return createStringError(
        formatv("target 'wafer:{0}': a product for prompts does not fit on a grid of {1} by {1} beside the {2} of {3} "
                "bytes of each core that weights and caches keep on one of {4} by {4}; take another +prefill or more "
                "regions, or leave it out",
                variant, chosen, plan.resident + mesh.figure("reserved_bytes"), memory(), grid));
  addRows(plan, std::move(*rows));
  return std::move(plan);
}

void GridChooser::addRows(GridPlan &plan, RowsPrograms rows) const {
  plan.bytes = rows.bytes;
  if (all_of(rows.programs, [](const auto &programs) { return programs.empty(); }))
    return;
  plan.rows = promptRows();
  for (auto [kernel, count, programs, relayouts, moved] :
       zip_equal(plan.kernels, plan.launches, rows.programs, rows.relayouts, rows.movedBytes)) {
    kernel.programs.insert(kernel.programs.begin(), std::make_move_iterator(programs.begin()),
                           std::make_move_iterator(programs.end()));
    kernel.relayouts = std::move(relayouts);
    plan.rowsCycles += kernel.cyclesFor(plan.rows) * double(count);
    if (!kernel.relayouts.empty() && kernel.stepsFor(plan.rows).front().program->rows > 1) {
      plan.relayoutCycles += kernel.relayoutCycles() * double(count);
      plan.relayoutBytes += moved * count;
    }
  }
}

} // namespace intarsia::wafer
