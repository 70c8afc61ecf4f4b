//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/WaferTarget.h"

#include "dialects/Rt/BlockPanels.h"
#include "lib/Runtime/Wafer/Timing.h"
#include "lib/Runtime/Wafer/WaferObject.h"
#include "lib/Target/Wafer/KernelPrograms.h"
#include "lib/Target/Wafer/Programs.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Pass/PassManager.h"
#include <map>
#include <numeric>

using namespace llvm;

namespace intarsia::wafer {
namespace {

constexpr StringRef defaultWafer = "wse-2";
/// Rows that a core multiplies at once: of 8, which take 7 cycles by the model of times, 3 are the start of the loop.
constexpr int64_t mostRowsOfTile = 8;

/// A wafer, and the side of the square grid that is asked for; none if the compiler chooses it.
struct Mesh {
  CatalogueWafer wafer;
  std::string source; ///< its name in the catalogue, or the user's file
  std::optional<int64_t> grid;

  int64_t figure(const char *name) const { return int64_t(wafer.figures.at(name).value); }
  int64_t largestGrid() const {
    int64_t side = std::min(figure("columns"), figure("rows"));
    return wafer.defects.empty() ? side : freeSquare(figure("columns"), figure("rows"), wafer.defects, side).side;
  }
};

Expected<Mesh> meshOf(StringRef variant) {
  auto [name, option] = variant.split('+');
  std::string source = name.empty() ? defaultWafer.str() : name.str();
  Expected<CatalogueWafer> wafer = waferNamed(source);
  if (!wafer)
    return wafer.takeError();
  Mesh mesh{std::move(*wafer), source, std::nullopt};
  if (option.empty())
    return mesh;
  int64_t grid = 0;
  if (!option.consume_front("grid=") || option.getAsInteger(10, grid) || grid < 1)
    return createStringError("target 'wafer:" + variant +
                             "': what is behind the + is not grid=N, with N cores along "
                             "each side");
  if (grid > mesh.largestGrid())
    return createStringError("target 'wafer:" + variant + "': a grid of " + Twine(grid) + " by " + Twine(grid) +
                             " is larger than " + mesh.wafer.name + ", which has " + Twine(mesh.figure("columns")) +
                             " by " + Twine(mesh.figure("rows")) + " cores" +
                             (mesh.wafer.defects.empty()
                                  ? ""
                                  : ", and at most " + Twine(mesh.largestGrid()) + " by " + Twine(mesh.largestGrid()) +
                                        " without one that does not work"));
  mesh.grid = grid;
  return mesh;
}

/// The programs of all kernels on one grid.
struct Plan {
  int64_t grid = 0;
  int64_t resident = 0, bytes = 0; ///< bytes of a core: of all weights, and of everything
  double cycles = 0;               ///< of all launches, for one row each
  int64_t rows = 1;                ///< of the programs for several rows
  double rowsCycles = 0;           ///< of all launches, for these rows
  /// Of these the cycles, and the bytes of a core, in which weights move to where programs for several rows have them.
  double relayoutCycles = 0;
  int64_t relayoutBytes = 0;
  std::vector<WaferKernel> kernels;
  std::vector<int64_t> launches; ///< of each kernel in a call
};

class WaferCompiler : public target::KernelCompiler {
public:
  WaferCompiler(std::string variant, Mesh mesh) : variant(std::move(variant)), mesh(std::move(mesh)) {}

  std::string triple() const override { return ""; }
  std::vector<target::Variant> variants() const override { return {{variant, "", {}}}; }

  Error compileKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels, StringRef,
                       std::vector<target::CompiledObject> &objects) override {
    Expected<Plan> plan = choose(module, kernels);
    if (!plan)
      return plan.takeError();
    int64_t count = std::accumulate(plan->launches.begin(), plan->launches.end(), int64_t(0));
    std::string of = formatv("{0:F0} cycles ({1:F1} us) for one row", plan->cycles, microseconds(plan->cycles));
    if (plan->rows > 1)
      of += formatv(", {0:F0} ({1:F1} us) for {2}, of which {3:F0} move {4} bytes of weights of each core to where "
                    "programs for many rows have them",
                    plan->rowsCycles, microseconds(plan->rowsCycles), plan->rows, plan->relayoutCycles,
                    plan->relayoutBytes);
    module.emitRemark() << count << " launches on " << plan->grid << " by " << plan->grid << " cores of "
                        << mesh.wafer.name << ": " << plan->bytes << " of " << mesh.figure("sram_bytes")
                        << " bytes of a core, " << of;
    std::string text = writeObject(plan->kernels);
    objects.push_back({"wafer." + variant, {text.begin(), text.end()}});
    return Error::success();
  }

  mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module,
                                                ArrayRef<target::NumberedKernel> kernels) override {
    Expected<Plan> plan = choose(module, kernels);
    if (!plan) {
      module.emitError() << toString(plan.takeError());
      return nullptr;
    }
    std::vector<KernelFunction> functions;
    return lower(module, kernels, {1, plan->grid, contextOf(module)}, functions);
  }

private:
  std::string variant;
  Mesh mesh;

  double microseconds(double cycles) const { return cycles / mesh.wafer.figures.at("clock_ghz").value * 1e-3; }

  /// Returns the tokens that a sequence of the model may have; 0 if it is no language model.
  static int64_t contextOf(mlir::ModuleOp module) {
    int64_t context = 0;
    module.walk([&](mlir::FunctionOpInterface function) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        auto name = function.getArgAttrOfType<mlir::StringAttr>(i, "nn.name");
        auto range = function.getArgAttrOfType<mlir::DenseI64ArrayAttr>(i, "nn.range");
        if (name && range && name.getValue() == "positions" && range.size() == 2)
          context = std::max(context, range[1]);
      }
    });
    return context;
  }

  /// Appends the functions of kernels to a module; returns false after an error, which was emitted.
  static bool buildFunctions(ArrayRef<target::NumberedKernel> kernels, const FunctionSizes &sizes,
                             mlir::ModuleOp module, std::vector<KernelFunction> &functions) {
    for (auto [index, kernel] : kernels) {
      auto function = buildKernelFunction(kernel, (kernel.getSymName() + "_" + Twine(index)).str(), sizes, module);
      if (failed(function))
        return false;
      functions.push_back(std::move(*function));
    }
    return true;
  }

  /// Returns programs of kernels; null after an error, which was emitted.
  mlir::OwningOpRef<mlir::ModuleOp> lower(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels,
                                          const FunctionSizes &sizes, std::vector<KernelFunction> &functions) {
    mlir::OwningOpRef<mlir::ModuleOp> programs(mlir::ModuleOp::create(module.getLoc()));
    if (!buildFunctions(kernels, sizes, *programs, functions))
      return nullptr;
    mlir::PassManager manager(module.getContext());
    buildWaferPipeline(manager, mesh.source);
    if (failed(manager.run(*programs)))
      return nullptr;
    return programs;
  }

  /// Returns the grids that are tried: the one that is asked for, or sizes about a third apart.
  std::vector<int64_t> grids(int64_t smallest) const {
    if (mesh.grid)
      return {*mesh.grid};
    std::vector<int64_t> result;
    for (int64_t grid = 4; grid <= std::min(smallest, mesh.largestGrid()); grid += std::max<int64_t>(grid / 3, 1))
      result.push_back(grid);
    if (result.empty())
      result.push_back(std::max<int64_t>(std::min(smallest, mesh.largestGrid()), 1));
    return result;
  }

  using Launches = std::map<StringRef, int64_t>;
  static int64_t launchesOf(const Launches &launches, rt::KernelOp kernel) {
    auto found = launches.find(kernel.getSymName());
    return found == launches.end() ? 1 : found->second;
  }

  /// Returns the fastest programs for one row that fit on the cores with all weights and caches.
  Expected<Plan> choose(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels) {
    Launches launches;
    module.walk([&](rt::DispatchOp op) { ++launches[op.getKernel()]; });
    int64_t context = contextOf(module);
    // On any grid the same ops are refused, and matrices have the same sizes.
    mlir::OwningOpRef<mlir::ModuleOp> functions(mlir::ModuleOp::create(module.getLoc()));
    std::vector<KernelFunction> wanted;
    if (!buildFunctions(kernels, {1, 1, context}, *functions, wanted))
      return createStringError("kernels could not be lowered for the wafer");
    int64_t side = mesh.largestGrid();
    for (const KernelFunction &function : wanted)
      side = std::min(side, function.smallest);
    if (mesh.grid && *mesh.grid > side)
      return createStringError("target 'wafer:" + variant + "': a linear has a side of " + Twine(side) +
                               ", less than the " + Twine(*mesh.grid) +
                               " cores along a side of the grid; take a smaller grid, or leave it to the compiler");
    std::optional<Plan> best;
    int64_t grid = 0, needed = 0;
    for (int64_t tried : grids(side)) {
      Expected<Plan> plan = planOn({1, tried, context}, module, kernels, launches);
      if (!plan)
        return plan.takeError();
      grid = tried, needed = plan->bytes;
      if (needed <= mesh.figure("sram_bytes") && (!best || plan->cycles < best->cycles))
        best = std::move(*plan);
    }
    if (best) {
      addPrograms(*best, context, module, kernels);
      return std::move(*best);
    }
    std::string advice = mesh.grid ? "; take a larger grid" : "; put fewer layers on it with --place";
    if (int64_t longest = longestContext(grid, context, module, kernels, launches))
      advice = formatv("; a context of {0} tokens is the longest that fits: compile with --context={0}, or{1}", longest,
                       StringRef(advice).drop_front());
    return createStringError("target 'wafer:" + variant + "': its layers need " + Twine(needed) +
                             " bytes of each core on a grid of " + Twine(grid) + " by " + Twine(grid) + ", " +
                             mesh.wafer.name + " has " + Twine(mesh.figure("sram_bytes")) + advice);
  }

  /// Returns the longest context with which all fits on a grid, in whole slots of its rows of cores; 0 if there is none
  /// or the kernels have no caches.
  int64_t longestContext(int64_t grid, int64_t context, mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels,
                         const Launches &launches) {
    int64_t fits = 0, tooMany = divideCeil(context, grid);
    while (fits + 1 < tooMany) {
      int64_t slots = (fits + tooMany) / 2;
      Expected<Plan> plan = planOn({1, grid, slots * grid}, module, kernels, launches);
      if (!plan) {
        consumeError(plan.takeError());
        return 0;
      }
      (plan->bytes <= mesh.figure("sram_bytes") ? fits : tooMany) = slots;
    }
    return fits * grid;
  }

  static int64_t bytesOfCore(const MatrixView &, mlir::Type matrix, int64_t grid) {
    auto type = cast<mlir::RankedTensorType>(matrix);
    int64_t rows = type.getDimSize(0);
    return alignTo((rows == 1 ? 1 : divideCeil(rows, grid)) * divideCeil(type.getDimSize(1), grid) *
                       type.getElementTypeBitWidth() / 8,
                   4);
  }

  /// Returns the bytes of a core for what is the same in each execution of a function, and so stays there, once for
  /// each launch of the kernel in a call: weights, and caches.
  static int64_t residentBytes(KernelFunction &function, int64_t grid) {
    int64_t bytes = 0;
    for (auto [view, type] : zip_equal(function.inputs, function.function.getArgumentTypes()))
      if (!view.hasRows)
        bytes += bytesOfCore(view, type, grid);
    return bytes;
  }

  /// Returns the programs for one row on a grid. If the weights alone do not fit, it has only their bytes.
  Expected<Plan> planOn(const FunctionSizes &sizes, mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels,
                        const Launches &launches) {
    Plan plan;
    plan.grid = sizes.grid;
    mlir::OwningOpRef<mlir::ModuleOp> programs(mlir::ModuleOp::create(module.getLoc()));
    std::vector<KernelFunction> functions;
    if (!buildFunctions(kernels, sizes, *programs, functions))
      return createStringError("kernels could not be lowered for the wafer");
    std::vector<int64_t> residents;
    for (auto [numbered, function] : zip_equal(kernels, functions)) {
      plan.launches.push_back(launchesOf(launches, numbered.kernel));
      residents.push_back(residentBytes(function, sizes.grid));
      // An append has the memory of the cache that attention reads.
      if (!(function.cache && function.cache->appends))
        plan.resident += residents.back() * plan.launches.back();
      plan.bytes = std::max(plan.bytes, residents.back());
    }
    plan.bytes = std::max(plan.bytes, plan.resident) + mesh.figure("reserved_bytes");
    if (plan.bytes > mesh.figure("sram_bytes"))
      return std::move(plan);
    bool isTooLarge = false;
    {
      // A verifier refuses programs that do not fit; the caller says so better, for all kernels.
      mlir::ScopedDiagnosticHandler ignore(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
        isTooLarge |= StringRef(diagnostic.str()).contains("bytes of each core");
        return mlir::success(isTooLarge);
      });
      mlir::PassManager manager(module.getContext());
      buildWaferPipeline(manager, mesh.source);
      if (failed(manager.run(*programs))) {
        if (!isTooLarge)
          return createStringError("kernels could not be lowered for the wafer");
        plan.bytes = std::max(plan.bytes, mesh.figure("sram_bytes") + 1);
        return std::move(plan);
      }
    }
    int64_t working = 0;
    for (auto [numbered, function, op, resident] :
         zip_equal(kernels, functions, programs->getOps<ProgramOp>(), residents)) {
      WaferKernel &kernel = plan.kernels.emplace_back();
      rt::KernelOp source = numbered.kernel;
      kernel.index = numbered.index;
      kernel.operands = int64_t(source.getNumArguments() + source.getResultTypes().size());
      kernel.rows = function.rows;
      kernel.cache = function.cache;
      const RowsProgram &one = kernel.programs.emplace_back(programOf(function, op));
      working = std::max(working, one.program.bytesPerCore() - resident);
      plan.cycles += one.cycles * double(launchesOf(launches, source));
    }
    plan.bytes = plan.resident + working;
    return std::move(plan);
  }

  static RowsProgram programOf(KernelFunction &function, ProgramOp op) {
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
  static std::pair<double, int64_t> relayout(const Program &program) {
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

  /// Adds programs for several rows, as many as fit on the cores beside all weights. These lie differently for products
  /// of matrices, so that a program has those of its kernel a second time; caches lie as for one token.
  void addPrograms(Plan &plan, int64_t context, mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels) {
    for (int64_t tile = mostRowsOfTile; tile >= 1; tile /= 2) {
      // A verifier refuses programs that do not fit; fewer rows are tried then, and the user need not know.
      mlir::ScopedDiagnosticHandler ignore(module.getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
      std::vector<KernelFunction> functions;
      int64_t rows = tile * plan.grid, bytes = plan.bytes;
      mlir::OwningOpRef<mlir::ModuleOp> programs = lower(module, kernels, {rows, plan.grid, context}, functions);
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
};

class WaferTarget : public target::Target {
public:
  StringRef kind() const override { return "wafer"; }
  std::vector<target::NamedVariant> listVariants() const override {
    std::string grid = "; +grid=N takes N by N cores";
    return {{"", "a WSE-2, simulated: linear layers and norms, the rest on other devices by --place" + grid},
            {"wse-2", sizeOf("wse-2")},
            {"wse-3", sizeOf("wse-3")},
            {"tensix", sizeOf("tensix") + ", not measured"}};
  }
  static std::string sizeOf(StringRef name) {
    Mesh mesh = cantFail(meshOf(name)); // of the catalogue, which is part of the program
    return formatv("{0} by {1} cores with {2} KB each", mesh.figure("columns"), mesh.figure("rows"),
                   mesh.figure("sram_bytes") / 1024);
  }
  bool usesHostMemory() const override { return false; }
  bool runsHostCode() const override { return false; }
  void addDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<WaferDialect, mlir::func::FuncDialect, mlir::memref::MemRefDialect>();
  }

  Expected<std::vector<std::unique_ptr<target::KernelCompiler>>>
  compilers(ArrayRef<StringRef> variants) const override {
    if (variants.size() > 1)
      return createStringError("an artifact is for one wafer: give one variant of target 'wafer'");
    Expected<Mesh> mesh = meshOf(variants.front());
    if (!mesh)
      return mesh.takeError();
    std::vector<std::unique_ptr<target::KernelCompiler>> result;
    // An artifact does not say where a file lies.
    std::string name = mesh->wafer.name + (mesh->grid ? "+grid=" + std::to_string(*mesh->grid) : "");
    result.push_back(std::make_unique<WaferCompiler>(std::move(name), std::move(*mesh)));
    return result;
  }
  Expected<target::FittedModel> model(StringRef variant) const override {
    Expected<Mesh> mesh = meshOf(variant);
    if (!mesh)
      return mesh.takeError();
    if (const DeviceModel *model = DeviceModel::find(kind(), mesh->wafer.name))
      return target::FittedModel{model, ""};
    if (const DeviceModel *model = DeviceModel::find(kind(), defaultWafer))
      return target::FittedModel{model, ("kernels are chosen by costs of " + defaultWafer +
                                         ": the catalogue has none of '" + mesh->wafer.name + "'")
                                            .str()};
    return createStringError("the catalogue has no figures for '" + mesh->wafer.name +
                             "'; they are in catalogue/efficiency/wafer.yaml, from which the compiler is built");
  }

  bool holdsNorm(const target::KernelCandidate &, std::string &) const override { return true; }
  unsigned largestResultCount() const override { return std::numeric_limits<uint16_t>::max(); }
  bool splitsAt(int64_t) const override { return true; }
  bool storesQuantized(BlockFormatAttrInterface format, int64_t elements) const override {
    return BlockPanels::of(format, elements).has_value();
  }
  bool multipliesIn(mlir::Type precision) const override { return precision.isF16(); }
  bool findsCandidates() const override { return false; }
  unsigned activationBits() const override { return 16; }
  rt::LayoutAttrInterface layout(mlir::MLIRContext *context, StoredOperand use, BlockFormatAttrInterface format,
                                 int64_t) const override {
    // Quantized matrices lie as they do for processors, so that an artifact stores them once.
    if (format && (use == StoredOperand::Matrix || use == StoredOperand::Table))
      return rt::PanelsAttr::get(context, BlockPanels::rows, /*slices=*/1, format);
    return rt::RowMajorAttr::get(context);
  }
  Expected<target::CacheLayout> cacheLayout(nn::CacheFormatAttr, int64_t page) const override {
    return target::CacheLayout{page == 0 ? 16 : page, /*transposed=*/false};
  }
};

} // namespace

const target::Target &waferTarget() {
  static const WaferTarget target;
  return target;
}

} // namespace intarsia::wafer
