//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/GridChoice.h"

#include "lib/Runtime/Wafer/Timing.h"
#include "lib/Target/Wafer/ProgramBuilder.h"
#include "lib/Target/Wafer/Programs.h"
#include "mlir/Pass/PassManager.h"

using namespace llvm;

namespace intarsia::wafer {
namespace {

int64_t bytesOfCore(const MatrixView &, mlir::Type matrix, int64_t grid) {
  auto type = cast<mlir::RankedTensorType>(matrix);
  int64_t rows = type.getDimSize(0);
  return alignTo((rows == 1 ? 1 : divideCeil(rows, grid)) * divideCeil(type.getDimSize(1), grid) *
                     type.getElementTypeBitWidth() / 8,
                 4);
}

/// Returns the bytes of a core for what is the same in each execution of a function, and so stays there, once for
/// each launch of the kernel in a call: weights, and caches.
int64_t residentBytes(KernelFunction &function, int64_t grid) {
  int64_t bytes = 0;
  for (auto [view, type] : zip_equal(function.inputs, function.function.getArgumentTypes()))
    if (!view.hasRows)
      bytes += bytesOfCore(view, type, grid);
  return bytes;
}

/// Returns the bytes of what a function leaves for a row, as cores compute it. What an append leaves stays where it is.
double rowBytes(KernelFunction &function) {
  double bytes = 0;
  if (!function.cache || !function.cache->appends)
    for (mlir::Type type : function.function.getResultTypes())
      bytes += double(cast<mlir::RankedTensorType>(type).getNumElements()) / double(function.count) *
               double(cast<mlir::RankedTensorType>(type).getElementTypeBitWidth()) / 8;
  return bytes;
}

} // namespace

RowsProgram timedProgram(KernelFunction &function, Program program) {
  RowsProgram timed;
  timed.rows = function.count;
  timed.program = std::move(program);
  timed.cycles = time(timed.program).cycles;
  timed.inputs = std::move(function.inputs);
  timed.outputs = std::move(function.outputs);
  return timed;
}

GridChooser::GridChooser(mlir::Location location, const Mesh &mesh, std::string variant, int64_t context,
                         size_t kernels, std::vector<int> calls, BuildFunctions build)
    : location(location), mesh(mesh), variant(std::move(variant)), context(context), calls(std::move(calls)),
      launches(kernels), build(std::move(build)) {
  for (int kernel : this->calls)
    ++launches[size_t(kernel)];
}

mlir::OwningOpRef<mlir::ModuleOp> GridChooser::lower(const GridPlan &plan) {
  mlir::OwningOpRef<mlir::ModuleOp> programs(mlir::ModuleOp::create(location));
  std::vector<KernelFunction> functions;
  FunctionSizes sizes{1, plan.grid, context};
  sizes.otherGrid = plan.rowsGrid;
  if (!build(sizes, *programs, functions))
    return nullptr;
  mlir::PassManager manager(location.getContext());
  buildWaferPipeline(manager, mesh.source, /*verifies=*/isCompiled);
  if (failed(manager.run(*programs)))
    return nullptr;
  return programs;
}

/// Returns the functions of all kernels on a grid.
Expected<GridChooser::Functions> GridChooser::functionsOn(const FunctionSizes &sizes) {
  Functions made;
  made.module = mlir::ModuleOp::create(location);
  if (!build(sizes, *made.module, made.functions))
    return createStringError("kernels could not be lowered for the wafer");
  int64_t bytes = 0;
  for (KernelFunction &function : made.functions) {
    made.residents.push_back(residentBytes(function, sizes.grid));
    made.rowBytes.push_back(rowBytes(function));
    bytes = std::max(bytes, made.residents.back());
  }
  int64_t most = mesh.grid ? *mesh.regions : mesh.mostRegions(sizes.grid);
  made.bytes = std::max(bytes, splitOverRegions(calls, made.functions, made.residents, most).bytes) +
               mesh.figure("reserved_bytes");
  return std::move(made);
}

/// Returns the grids on which weights and caches fit. Programs on two of them take about the same time if the kernels
/// that are launched most often have tiles of the same sizes, and trees the same groups.
Expected<std::vector<GridCandidate>> GridChooser::candidates(int64_t side) {
  std::vector<GridCandidate> result;
  int64_t often = *std::max_element(launches.begin(), launches.end()) / 4;
  for (int64_t grid = smallestGrid; grid <= side; ++grid) {
    Expected<Functions> made = functionsOn({1, grid, context});
    if (!made)
      return made.takeError();
    if (made->bytes > memory())
      continue;
    GridCandidate candidate{grid, {groupsOfTree(grid)}};
    for (auto [count, function] : zip_equal(launches, made->functions)) {
      if (count < often)
        continue;
      for (mlir::Operation &op : function.function.getBody().front()) {
        for (mlir::Type type : concat<mlir::Type>(to_vector(op.getOperandTypes()), to_vector(op.getResultTypes())))
          for (int64_t size : cast<mlir::RankedTensorType>(type).getShape())
            candidate.tiles.push_back(divideCeil(size, grid));
        for (mlir::NamedAttribute attribute : op.getAttrs())
          if (auto number = dyn_cast<mlir::IntegerAttr>(attribute.getValue()); number && attribute.getName() != "grid")
            candidate.tiles.push_back(number.getInt());
      }
    }
    result.push_back(std::move(candidate));
  }
  return std::move(result);
}

/// Returns the fastest programs for one row that fit on the cores with all weights and caches.
Expected<GridPlan> GridChooser::choose() {
  if (mesh.wafers > 1 && !(mesh.wafer.figures.count("system_gbps") && mesh.wafer.figures.count("system_us")))
    return createStringError("target 'wafer:" + variant + "': " + mesh.wafer.name +
                             " says nothing of the network between wafers; add system_gbps and system_us to its file");
  // On any grid the same ops are refused, and matrices have the same sizes.
  mlir::OwningOpRef<mlir::ModuleOp> functions(mlir::ModuleOp::create(location));
  std::vector<KernelFunction> wanted;
  if (!build({1, 1, context}, *functions, wanted))
    return createStringError("kernels could not be lowered for the wafer");
  int64_t side = mesh.largestGrid();
  for (const KernelFunction &function : wanted)
    side = std::min(side, function.smallest);
  for (const std::optional<int64_t> &grid : {mesh.grid, mesh.rowsGrid})
    if (grid && *grid > side)
      return createStringError("target 'wafer:" + variant + "': a linear has a side of " + Twine(side) +
                               ", less than the " + Twine(*grid) +
                               " cores along a side of the grid; take a smaller grid, or leave it to the compiler");
  std::optional<GridPlan> best;
  int64_t grid = 0, needed = 0;
  double cycles = 0;
  auto attempt = [&](int64_t tried) -> Error {
    FunctionSizes sizes{1, tried, context};
    sizes.otherGrid = mesh.rowsGrid.value_or(0);
    Expected<GridPlan> plan = planOn(sizes);
    if (!plan)
      return plan.takeError();
    grid = tried, needed = plan->bytes, cycles = plan->cycles;
    if (needed <= memory() && (!best || plan->cycles < best->cycles))
      best = std::move(*plan);
    return Error::success();
  };
  if (mesh.grid) {
    if (Error error = attempt(*mesh.grid))
      return std::move(error);
  } else {
    Expected<std::vector<GridCandidate>> fitting = candidates(std::max<int64_t>(side, 1));
    if (!fitting)
      return fitting.takeError();
    Error error = searchGrids(*fitting, [&](int64_t tried) -> Expected<double> {
      if (Error failed = attempt(tried))
        return std::move(failed);
      return needed <= memory() ? cycles : std::numeric_limits<double>::infinity();
    });
    if (!error && !best) // for the message
      error = attempt(side);
    if (error)
      return std::move(error);
  }
  if (!best)
    return createStringError(refusal(grid, needed));
  return withRows(std::move(*best), side);
}

/// Returns why the kernels do not fit, and what would.
std::string GridChooser::refusal(int64_t grid, int64_t needed) {
  std::string advice = !isCompiled ? "" : mesh.grid ? "; take a larger grid" : "; put fewer layers on it with --place";
  if (isCompiled && mesh.grid && *mesh.regions < mesh.mostRegions(grid))
    advice += formatv(", or share layers by +regions=N, at most {0}", mesh.mostRegions(grid));
  if (int64_t wafers = wafersThatHold(grid); wafers > mesh.wafers)
    advice +=
        formatv(isCompiled ? ", or share layers of {0} wafers by +wafers={0}" : "; {0} wafers would hold it", wafers)
            .str();
  if (int64_t longest = longestContext(grid)) {
    std::string fits = formatv("; a context of {0} tokens is the longest that fits", longest);
    advice =
        isCompiled
            ? formatv("{0}: compile with --context={1}, or{2}", fits, longest, StringRef(advice).drop_front()).str()
            : fits + advice;
  }
  std::string on = mesh.wafers > 1 ? formatv(" on {0} wafers", mesh.wafers).str() : std::string();
  return formatv(
      "target 'wafer:{0}': its layers need {1} bytes of each core on a grid of {2} by {2}{3}, {4} has {5}{6}", variant,
      needed, grid, on, mesh.wafer.name, memory(), advice);
}

/// Returns the fewest wafers whose regions hold the kernels; 0 if a launch is too large for a region. The largest grid
/// that may be taken, and seven smaller ones, stand for all.
int64_t GridChooser::wafersThatHold(int64_t largest) {
  if (!mesh.wafer.figures.count("system_gbps"))
    return 0;
  std::optional<std::pair<int64_t, int64_t>> fewest; // wafers, and the grid
  for (int64_t eighths = 8; eighths >= 1; --eighths) {
    int64_t grid = mesh.grid ? *mesh.grid : largest * eighths / 8;
    if (grid < smallestGrid || (mesh.grid && eighths < 8))
      break;
    Expected<Functions> made = functionsOn({1, grid, context});
    if (!made) {
      consumeError(made.takeError());
      return 0;
    }
    int64_t ofWafer = mesh.regionsOfWafer(grid), wafers = 1;
    auto bytesOn = [&](int64_t count) {
      return splitOverRegions(calls, made->functions, made->residents, count * ofWafer).bytes;
    };
    while (wafers <= mostWafers && bytesOn(wafers) + mesh.figure("reserved_bytes") > memory())
      ++wafers;
    if (wafers <= mostWafers && (!fewest || wafers < fewest->first))
      fewest = {wafers, grid};
  }
  if (!fewest)
    return 0;
  // Working memory may need one more.
  Mesh more = mesh;
  more.grid = more.regions = more.rowsGrid = std::nullopt;
  GridChooser chooser(location, more, variant, context, launches.size(), calls, build);
  chooser.isCompiled = isCompiled;
  for (more.wafers = fewest->first; more.wafers <= std::min(fewest->first + 2, mostWafers); ++more.wafers) {
    Expected<GridPlan> plan = chooser.planOn({1, fewest->second, context});
    if (!plan)
      consumeError(plan.takeError());
    else if (plan->bytes <= memory())
      return more.wafers;
  }
  return 0;
}

/// Returns the longest context with which all fits on a grid, in whole slots of its rows of cores; 0 if there is none
/// or the kernels have no caches.
int64_t GridChooser::longestContext(int64_t grid) {
  int64_t fits = 0, tooMany = divideCeil(context, grid);
  while (fits + 1 < tooMany) {
    int64_t slots = (fits + tooMany) / 2;
    Expected<GridPlan> plan = planOn({1, grid, slots * grid});
    if (!plan) {
      consumeError(plan.takeError());
      return 0;
    }
    (plan->bytes <= memory() ? fits : tooMany) = slots;
  }
  return fits * grid;
}

/// Returns the programs for one row on a grid, on as few regions as hold all unless `regions` says how many. If the
/// weights alone do not fit, it has only their bytes.
Expected<GridPlan> GridChooser::planOn(const FunctionSizes &sizes, bool verifies, std::optional<int64_t> regions) {
  GridPlan plan;
  plan.grid = sizes.grid;
  Expected<Functions> made = functionsOn(sizes);
  if (!made)
    return made.takeError();
  auto &[programs, functions, residents, rowBytes, bytes] = *made;
  plan.launches = launches;
  plan.bytes = bytes;
  if (plan.bytes > memory())
    return std::move(plan);
  bool isTooLarge = false;
  {
    // A verifier refuses programs that do not fit; the caller says so better, for all kernels.
    mlir::ScopedDiagnosticHandler ignore(location.getContext(), [&](mlir::Diagnostic &diagnostic) {
      isTooLarge |= StringRef(diagnostic.str()).contains("bytes of each core");
      return mlir::success(isTooLarge);
    });
    mlir::PassManager manager(location.getContext());
    buildWaferPipeline(manager, mesh.source, verifies);
    if (failed(manager.run(*programs))) {
      if (!isTooLarge)
        return createStringError("kernels could not be lowered for the wafer");
      plan.bytes = std::max(plan.bytes, memory() + 1);
      return std::move(plan);
    }
  }
  int64_t working = 0;
  for (auto [count, function, op, resident] :
       zip_equal(launches, functions, programs->getOps<ProgramOp>(), residents)) {
    WaferKernel &kernel = plan.kernels.emplace_back();
    kernel.rows = function.rows;
    kernel.cache = function.cache;
    const RowsProgram &one = kernel.programs.emplace_back(timedProgram(function, extractProgram(op)));
    working = std::max(working, one.program.bytesPerCore() - resident);
  }
  // As few regions as hold all.
  auto bytesWith = [&](int64_t regions) {
    return splitOverRegions(calls, functions, residents, regions).bytes + working;
  };
  if (!regions && mesh.grid)
    regions = mesh.regions;
  int64_t most = regions.value_or(mesh.mostRegions(sizes.grid)), least = regions.value_or(1);
  for (int64_t enough = most; least < enough;) {
    int64_t middle = (least + enough) / 2;
    if (bytesWith(middle) <= memory())
      enough = middle;
    else
      least = middle + 1;
  }
  RegionSplit split = splitOverRegions(calls, functions, residents, least);
  plan.regions = least;
  plan.resident = split.bytes;
  plan.bytes = plan.resident + working;
  plan.rowBytes = rowBytes;
  std::vector<double> handOvers =
      handOverCycles(mesh, split, calls, rowBytes, sizes.grid, /*rows=*/1, /*onlyBetweenWafers=*/false);
  plan.split = std::move(split);
  for (auto [count, kernel, handOver] : zip_equal(launches, plan.kernels, handOvers)) {
    kernel.programs.front().cycles += handOver;
    plan.cycles += kernel.programs.front().cycles * double(count);
    plan.handOverCycles += handOver * double(count);
  }
  return std::move(plan);
}

} // namespace intarsia::wafer
