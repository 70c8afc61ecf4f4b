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

constexpr StringRef defaultWafer = "wse-2";
/// Rows that a core multiplies at once: of 8, which take 7 cycles by the model of times, 3 are the start of the loop.
constexpr int64_t mostRowsOfTile = 8;

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

RowsProgram programOf(KernelFunction &function, ProgramOp op) {
  RowsProgram program;
  program.rows = function.count;
  program.program = extractProgram(op);
  program.cycles = time(program.program).cycles;
  program.inputs = std::move(function.inputs);
  program.outputs = std::move(function.outputs);
  return program;
}

/// Returns the cycles, and the bytes of a core, in which the weights of a program for several rows come from where
/// that for one row has them. Its tiles follow the interleaved ring, skewed along y: a tile goes around the ring of
/// its row, then around that of its column, and each core keeps the one that it needs when it passes.
std::pair<double, int64_t> relayout(const Program &program) {
  double cycles = 0;
  int64_t bytes = 0;
  for (const Binding &input : program.inputs) {
    if (input.tiles.skew != TileSkew::Rows)
      continue;
    CoreBuffer tile = program.buffers[size_t(input.slot)];
    bytes += tile.bytes();
    Program moves = program;
    moves.buffers = {tile, tile, tile}; // what passes, what comes, and what stays
    moves.slots = 3;
    moves.inputs.clear(), moves.outputs.clear(), moves.ops.clear();
    for (auto [index, route] : enumerate(program.routes)) {
      if (route.name != "interleaved_x" && route.name != "interleaved_y")
        continue;
      Op &around = moves.ops.emplace_back();
      around.kind = OpKind::Repeat;
      around.count = program.columns - 1;
      around.slots = {0, 1};
      around.arguments = {moves.slots, moves.slots + 1};
      around.yields = {moves.slots + 1, moves.slots};
      moves.slots += 2;
      Op send, receive, await;
      send.kind = OpKind::Send, receive.kind = OpKind::Receive;
      send.route = receive.route = int(index);
      send.slots = {around.arguments[0]}, receive.slots = {around.arguments[1]};
      around.body = {send, receive, await};
      Op &keep = moves.ops.emplace_back();
      keep.kind = OpKind::Compute;
      keep.compute = ComputeKind::Copy;
      keep.slots = {2, 0};
    }
    cycles += time(moves).cycles;
  }
  return {cycles, bytes};
}

} // namespace

Expected<Mesh> meshOf(StringRef variant) {
  auto [name, options] = variant.split('+');
  std::string source = name.empty() ? defaultWafer.str() : name.str();
  Expected<CatalogueWafer> wafer = waferNamed(source);
  if (!wafer)
    return wafer.takeError();
  Mesh mesh{std::move(*wafer), source, std::nullopt, std::nullopt};
  if (options.empty())
    return mesh;
  auto refuse = [&](const Twine &why) { return createStringError("target 'wafer:" + variant + "': " + why); };
  auto [first, second] = options.split('+');
  int64_t grid = 0, regions = 1;
  if (!first.consume_front("grid=") || first.getAsInteger(10, grid) || grid < 1)
    return refuse("what is behind the + is not grid=N, with N cores along each side");
  if (!second.empty() && (!second.consume_front("regions=") || second.getAsInteger(10, regions) || regions < 1))
    return refuse("what is behind the second + is not regions=N, with N grids that share the layers");
  if (grid < smallestGrid)
    return refuse("a grid has at least " + Twine(smallestGrid) + " cores along each side");
  if (grid > mesh.largestGrid())
    return refuse("a grid of " + Twine(grid) + " by " + Twine(grid) + " is larger than " + mesh.wafer.name +
                  ", which has " + Twine(mesh.figure("columns")) + " by " + Twine(mesh.figure("rows")) + " cores" +
                  (mesh.wafer.defects.empty()
                       ? ""
                       : ", and at most " + Twine(mesh.largestGrid()) + " by " + Twine(mesh.largestGrid()) +
                             " on columns and rows without one that does not work"));
  if (regions > mesh.mostRegions(grid))
    return refuse("there are " + Twine(mesh.mostRegions(grid)) + " regions of " + Twine(grid) + " by " + Twine(grid) +
                  " cores on " + mesh.wafer.name);
  mesh.grid = grid;
  mesh.regions = regions;
  return mesh;
}

GridChooser::GridChooser(mlir::Location location, const Mesh &mesh, std::string variant, int64_t context,
                         size_t kernels, std::vector<int> calls, BuildFunctions build)
    : location(location), mesh(mesh), variant(std::move(variant)), context(context), calls(std::move(calls)),
      launches(kernels), build(std::move(build)) {
  for (int kernel : this->calls)
    ++launches[size_t(kernel)];
}

/// Returns the bytes of weights and caches in a core of the region that has most, where each of `regions` regions has
/// some launches of a call, one after another. An append is where attention reads its cache.
int64_t GridChooser::fullestRegion(const std::vector<KernelFunction> &functions, const std::vector<int64_t> &residents,
                                   int64_t regions) const {
  std::vector<int64_t> pieces; // launches that are not parted
  int64_t sum = 0, largest = 0;
  for (int kernel : calls) {
    const std::optional<CacheOperands> &cache = functions[size_t(kernel)].cache;
    if (cache && cache->appends) // an append has the memory of the cache that attention reads
      continue;
    pieces.push_back(residents[size_t(kernel)]);
    sum += pieces.back();
    largest = std::max(largest, pieces.back());
  }
  auto neededRegions = [&](int64_t bytes) {
    int64_t needed = 1, used = 0;
    for (int64_t piece : pieces) {
      if (used + piece > bytes)
        ++needed, used = 0;
      used += piece;
    }
    return needed;
  };
  for (int64_t least = largest; least < sum;) { // the smallest that regions suffice for
    int64_t middle = (least + sum) / 2;
    if (neededRegions(middle) <= regions)
      sum = middle;
    else
      least = middle + 1;
  }
  return sum;
}

mlir::OwningOpRef<mlir::ModuleOp> GridChooser::lower(const FunctionSizes &sizes,
                                                     std::vector<KernelFunction> &functions) {
  mlir::OwningOpRef<mlir::ModuleOp> programs(mlir::ModuleOp::create(location));
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
    bytes = std::max(bytes, made.residents.back());
  }
  int64_t most = mesh.grid ? *mesh.regions : mesh.mostRegions(sizes.grid);
  made.bytes = std::max(bytes, fullestRegion(made.functions, made.residents, most)) + mesh.figure("reserved_bytes");
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
    if (made->bytes > mesh.figure("sram_bytes"))
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
  // On any grid the same ops are refused, and matrices have the same sizes.
  mlir::OwningOpRef<mlir::ModuleOp> functions(mlir::ModuleOp::create(location));
  std::vector<KernelFunction> wanted;
  if (!build({1, 1, context}, *functions, wanted))
    return createStringError("kernels could not be lowered for the wafer");
  int64_t side = mesh.largestGrid();
  for (const KernelFunction &function : wanted)
    side = std::min(side, function.smallest);
  if (mesh.grid && *mesh.grid > side)
    return createStringError("target 'wafer:" + variant + "': a linear has a side of " + Twine(side) +
                             ", less than the " + Twine(*mesh.grid) +
                             " cores along a side of the grid; take a smaller grid, or leave it to the compiler");
  std::optional<GridPlan> best;
  int64_t grid = 0, needed = 0;
  double cycles = 0;
  auto attempt = [&](int64_t tried) -> Error {
    Expected<GridPlan> plan = planOn({1, tried, context});
    if (!plan)
      return plan.takeError();
    grid = tried, needed = plan->bytes, cycles = plan->cycles;
    if (needed <= mesh.figure("sram_bytes") && (!best || plan->cycles < best->cycles))
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
      return needed <= mesh.figure("sram_bytes") ? cycles : std::numeric_limits<double>::infinity();
    });
    if (!error && !best) // for the message
      error = attempt(side);
    if (error)
      return std::move(error);
  }
  if (best && isCompiled) { // the others were only timed
    Expected<GridPlan> verified = planOn({1, best->grid, context}, /*verifies=*/true);
    if (!verified)
      return verified.takeError();
    best = std::move(*verified);
  }
  if (best) {
    addPrograms(*best);
    return std::move(*best);
  }
  std::string advice = !isCompiled ? "" : mesh.grid ? "; take a larger grid" : "; put fewer layers on it with --place";
  if (isCompiled && mesh.grid && *mesh.regions < mesh.mostRegions(grid))
    advice += formatv(", or share layers by +regions=N, at most {0}", mesh.mostRegions(grid));
  if (int64_t longest = longestContext(grid)) {
    std::string fits = formatv("; a context of {0} tokens is the longest that fits", longest);
    advice =
        isCompiled
            ? formatv("{0}: compile with --context={1}, or{2}", fits, longest, StringRef(advice).drop_front()).str()
            : fits;
  }
  return createStringError("target 'wafer:" + variant + "': its layers need " + Twine(needed) +
                           " bytes of each core on a grid of " + Twine(grid) + " by " + Twine(grid) + ", " +
                           mesh.wafer.name + " has " + Twine(mesh.figure("sram_bytes")) + advice);
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
    (plan->bytes <= mesh.figure("sram_bytes") ? fits : tooMany) = slots;
  }
  return fits * grid;
}

/// Returns the programs for one row on a grid. If the weights alone do not fit, it has only their bytes.
Expected<GridPlan> GridChooser::planOn(const FunctionSizes &sizes, bool verifies) {
  GridPlan plan;
  plan.grid = sizes.grid;
  Expected<Functions> made = functionsOn(sizes);
  if (!made)
    return made.takeError();
  auto &[programs, functions, residents, bytes] = *made;
  plan.launches = launches;
  plan.bytes = bytes;
  if (plan.bytes > mesh.figure("sram_bytes"))
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
      plan.bytes = std::max(plan.bytes, mesh.figure("sram_bytes") + 1);
      return std::move(plan);
    }
  }
  int64_t working = 0;
  for (auto [count, function, op, resident] :
       zip_equal(launches, functions, programs->getOps<ProgramOp>(), residents)) {
    WaferKernel &kernel = plan.kernels.emplace_back();
    kernel.rows = function.rows;
    kernel.cache = function.cache;
    const RowsProgram &one = kernel.programs.emplace_back(programOf(function, op));
    working = std::max(working, one.program.bytesPerCore() - resident);
    plan.cycles += one.cycles * double(count);
  }
  // As few regions as hold all.
  auto bytesWith = [&](int64_t regions) { return fullestRegion(functions, residents, regions) + working; };
  int64_t most = mesh.grid ? *mesh.regions : mesh.mostRegions(sizes.grid), least = mesh.grid ? most : 1;
  for (int64_t enough = most; least < enough;) {
    int64_t middle = (least + enough) / 2;
    if (bytesWith(middle) <= mesh.figure("sram_bytes"))
      enough = middle;
    else
      least = middle + 1;
  }
  plan.regions = least;
  plan.resident = fullestRegion(functions, residents, least);
  plan.bytes = plan.resident + working;
  return std::move(plan);
}

/// Adds programs for several rows, as many as fit on the cores beside all weights. These lie differently for products
/// of matrices, so that a program has those of its kernel a second time; caches lie as for one token.
void GridChooser::addPrograms(GridPlan &plan) {
  for (int64_t tile = mostRowsOfTile; tile >= 1; tile /= 2) {
    // A verifier refuses programs that do not fit; fewer rows are tried then, and the user need not know.
    mlir::ScopedDiagnosticHandler ignore(location.getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
    std::vector<KernelFunction> functions;
    int64_t rows = tile * plan.grid, bytes = plan.bytes;
    mlir::OwningOpRef<mlir::ModuleOp> programs = lower({rows, plan.grid, context}, functions);
    if (!programs)
      continue;
    std::vector<RowsProgram> made;
    for (auto [function, op] : zip_equal(functions, programs->getOps<ProgramOp>())) {
      const RowsProgram &several = made.emplace_back(programOf(function, op));
      int64_t inPlace = 0;
      for (const Binding &input : several.program.inputs)
        if (several.inputs[size_t(input.argument)].kind == ViewKind::Cache)
          inPlace += several.program.buffers[size_t(input.slot)].bytes();
      bytes = std::max(bytes, plan.resident + several.program.bytesPerCore() - inPlace);
    }
    if (bytes > mesh.figure("sram_bytes"))
      continue;
    plan.bytes = bytes;
    plan.rows = rows;
    for (auto [kernel, program, count] : zip_equal(plan.kernels, made, plan.launches)) {
      auto [cycles, moved] = relayout(program.program);
      program.relayoutCycles = cycles;
      plan.relayoutCycles += cycles * double(count);
      plan.relayoutBytes += moved * count;
      plan.rowsCycles += (program.cycles * double(divideCeil(rows, program.rows)) + cycles) * double(count);
      if (program.rows > 1)
        kernel.programs.insert(kernel.programs.begin(), std::move(program));
    }
    return;
  }
}

} // namespace intarsia::wafer
