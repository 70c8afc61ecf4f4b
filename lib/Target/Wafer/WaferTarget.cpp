//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/WaferTarget.h"

#include "dialects/Rt/BlockPanels.h"
#include "lib/Target/Wafer/GridChoice.h"
#include "lib/Target/Wafer/Programs.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <map>
#include <numeric>

using namespace llvm;

namespace intarsia::wafer {
namespace {

constexpr StringRef defaultWafer = "wse-2";

class WaferCompiler : public target::KernelCompiler {
public:
  WaferCompiler(std::string variant, Mesh mesh) : variant(std::move(variant)), mesh(std::move(mesh)) {}

  std::string triple() const override { return ""; }
  std::vector<target::Variant> variants() const override { return {{variant, "", {}}}; }

  Error compileKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels, StringRef,
                       std::vector<target::CompiledObject> &objects) override {
    Expected<GridPlan> plan = chooser(module, kernels).choose();
    if (!plan)
      return plan.takeError();
    for (auto [numbered, kernel] : zip_equal(kernels, plan->kernels)) {
      rt::KernelOp source = numbered.kernel;
      kernel.index = numbered.index;
      kernel.operands = int64_t(source.getNumArguments() + source.getResultTypes().size());
    }
    int64_t count = std::accumulate(plan->launches.begin(), plan->launches.end(), int64_t(0));
    std::string of = formatv("{0:F0} cycles ({1:F1} us) for one row", plan->cycles, microseconds(plan->cycles));
    if (plan->handOverCycles > 0)
      of += formatv(", of which {0:F0} go to the next {1}", plan->handOverCycles,
                    mesh.wafers > 1 ? "region or wafer" : "region");
    if (plan->rows > 1)
      of += formatv(", {0:F0} ({1:F1} us) for {2}{3}", plan->rowsCycles, microseconds(plan->rowsCycles), plan->rows,
                    plan->rowsGrid == plan->grid ? std::string()
                                                 : formatv(" with products on {0} by {0} cores", plan->rowsGrid).str());
    if (plan->relayoutCycles > 0)
      of +=
          formatv(", of which {0:F0} move {1} bytes of weights of each core to where programs for many rows have them",
                  plan->relayoutCycles, plan->relayoutBytes);
    std::string regions = plan->regions > 1 ? std::to_string(plan->regions) + " regions of " : "";
    int64_t wafers = divideCeil(plan->regions, mesh.regionsOfWafer(plan->grid));
    module.emitRemark() << count << " launches on " << regions << plan->grid << " by " << plan->grid << " cores of "
                        << (wafers > 1 ? std::to_string(wafers) + " wafers " : std::string()) << mesh.wafer.name << ": "
                        << plan->bytes << " of " << mesh.figure("sram_bytes") << " bytes of a core, " << of;
    std::string text = writeObject(plan->kernels);
    objects.push_back({"wafer." + variant, {text.begin(), text.end()}});
    return Error::success();
  }

  mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels,
                                                target::EmitStep step) override {
    if (step == target::EmitStep::Llvm) {
      module.emitError()
          << "kernels of the wafer become text for its vendor's compiler, not LLVM: the last step that is "
             "printed is loops";
      return nullptr;
    }
    GridChooser grids = chooser(module, kernels);
    Expected<GridPlan> plan = grids.choose();
    if (!plan) {
      module.emitError() << toString(plan.takeError());
      return nullptr;
    }
    return grids.lower(*plan);
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

  /// Returns the choice of a grid for the kernels of a module, which must outlive it.
  GridChooser chooser(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels) {
    std::map<StringRef, int> numbers;
    for (auto [number, kernel] : enumerate(kernels))
      numbers[rt::KernelOp(kernel.kernel).getSymName()] = int(number);
    std::vector<int> calls;
    module.walk([&](rt::DispatchOp op) {
      if (auto found = numbers.find(op.getKernel()); found != numbers.end())
        calls.push_back(found->second);
    });
    for (auto [name, number] : numbers)
      if (!is_contained(calls, number)) // one that nothing launches
        calls.push_back(number);
    return GridChooser(
        module.getLoc(), mesh, variant, contextOf(module), kernels.size(), std::move(calls),
        [kernels](const FunctionSizes &sizes, mlir::ModuleOp functions, std::vector<KernelFunction> &made) {
          return buildFunctions(kernels, sizes, functions, made);
        });
  }
};

class WaferTarget : public target::Target {
public:
  StringRef kind() const override { return "wafer"; }
  std::vector<target::NamedVariant> listVariants() const override {
    std::string grid = "; +grid=N takes N by N cores, +regions=M after it M such grids that share the layers, "
                       "+prefill=P products for prompts "
                       "on P by P cores; +wafers=W lets W wafers share the layers";
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
    std::string name = mesh->wafer.name + mesh->options();
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
