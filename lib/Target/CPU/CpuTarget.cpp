//===- CpuTarget.cpp - Variants of processors ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/CpuTarget.h"

#include "dialects/Nn/Prepacking.h"
#include "dialects/Rt/BlockPanels.h"
#include "lib/Support/CpuFeatures.h"
#include "lib/Target/CPU/ByteRowEmitter.h"
#include "lib/Target/CPU/Codegen.h"
#include "lib/Target/Host.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/TargetParser/AArch64TargetParser.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace llvm;

namespace intarsia::cpu {

namespace {
/// Features that change the code of kernels. Others of a processor are left off: an artifact then asks for no more
/// than it uses.
constexpr StringRef x86Features[] = {
#define X86_FEATURE(name, ...) name,
#include "lib/Support/CpuFeatures.def"
};
constexpr StringRef aarch64Features[] = {
#define AARCH64_FEATURE(name, ...) name,
#include "lib/Support/CpuFeatures.def"
};

class CpuCompiler : public target::KernelCompiler {
public:
  explicit CpuCompiler(std::vector<CpuVariant> variants) : list(std::move(variants)) {}

  std::string triple() const override { return list.front().triple; }
  std::vector<target::Variant> variants() const override { return {list.begin(), list.end()}; }
  Error compileKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels, StringRef,
                       std::vector<target::CompiledObject> &objects) override {
    return cpu::compileKernels(module, kernels, list, objects);
  }
  mlir::LogicalResult chooseShapes(ArrayRef<target::NumberedKernel> kernels) override {
    return mlir::success(
        all_of(list, [&](const CpuVariant &variant) { return succeeded(cpu::chooseShapes(kernels, variant)); }));
  }
  mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels,
                                                target::EmitStep step) override {
    mlir::OwningOpRef<mlir::ModuleOp> result(mlir::ModuleOp::create(module.getLoc()));
    bool isLowered = step == target::EmitStep::Llvm;
    if (failed(cpu::emitKernels(kernels, list.front(), *result)) ||
        (isLowered && failed(lowerToLlvm(*result, list.front()))))
      return nullptr;
    return result;
  }

private:
  std::vector<CpuVariant> list;
};
} // namespace

std::unique_ptr<TargetMachine> CpuVariant::machine() const {
  std::string list;
  for (const std::string &feature : features)
    list += (list.empty() ? "+" : ",+") + feature;
  return target::makeHostMachine(triple, list, llvm::FPOpFusion::Fast);
}

Expected<CpuVariant> parseVariant(StringRef spec) {
  SmallVector<StringRef> parts;
  spec.split(parts, '+');
  StringRef name = parts.front();
  bool host = name.empty();
  bool hostIsAArch64 = Triple(sys::getProcessTriple()).isAArch64();
  StringRef processor = !host ? name : hostProcessorName().empty() ? "generic" : StringRef(hostProcessorName());

  CpuVariant variant;
  variant.spec = spec.str();
  llvm::StringSet<> features;
  bool aarch64 = false;
  // Lists of levels leave out what other features imply: avx512bw without avx512f.
  auto insertX86 = [&](StringRef feature) {
    StringMap<bool> implied;
    X86::updateImpliedFeatures(feature, true, implied);
    for (const auto &entry : implied)
      features.insert(entry.getKey());
    features.insert(feature);
  };
  if (host) {
    aarch64 = hostIsAArch64;
    for (const std::string &feature : hostFeatures())
      features.insert(feature);
  } else if (name == "aarch64") {
    aarch64 = true;
    features.insert("neon");
    processor = "generic";
  } else if (X86::parseArchX86(name, /*Only64Bit=*/true) != X86::CK_None) {
    SmallVector<StringRef> list;
    X86::getFeaturesForCPU(name, list);
    for (StringRef feature : list)
      insertX86(feature);
  } else if (std::optional<AArch64::CpuInfo> info = AArch64::parseCpu(name)) {
    aarch64 = true;
    std::vector<StringRef> list;
    AArch64::getExtensionFeatures(info->getImpliedExtensions(), list);
    for (StringRef feature : list) {
      feature.consume_front("+");
      features.insert(feature);
    }
  } else {
    return createStringError("unknown processor '" + name +
                             "': give a level (x86-64-v2, x86-64-v3, x86-64-v4, aarch64) or a processor that LLVM "
                             "knows (sapphirerapids, znver5, neoverse-v2, …)");
  }
  ArrayRef<StringRef> known = aarch64 ? ArrayRef(aarch64Features) : ArrayRef(x86Features);
  for (StringRef extra : ArrayRef(parts).drop_front()) {
    if (!is_contained(known, extra))
      return createStringError("unknown feature '" + extra + "' in target 'cpu:" + spec + "': the features are " +
                               join(known, ", "));
    if (aarch64)
      features.insert(extra);
    else
      insertX86(extra);
  }
  for (StringRef feature : known)
    if (features.contains(feature))
      variant.features.push_back(feature.str());
  variant.triple = target::hostTriple(aarch64).str();
  variant.cpu = variant.tune = processor.str();
  variant.name = host ? processor.str() : spec.str();
  variant.tiles = chooseTiles(Triple(variant.triple), processor, variant.features);
  variant.fusedMultiplyAdd = aarch64 || features.contains("fma");
  return variant;
}

/// Returns true if a weight is stored in integers of 8 bits with one scale for each row.
static bool isWeightOfBytes(BlockFormatAttrInterface format) {
  auto known = dyn_cast_if_present<nn::BlockFormatAttr>(format);
  return known && known.getElement() == nn::BlockElement::I8 && known.getBlock() == 0;
}

/// Returns the linear or convolution of a group that adds up products of bytes (TokenLinearKernel.cpp,
/// ByteConvKernel.cpp); null if it has none.
static ContractionOpInterface productOfBytes(nn::GroupOp group) {
  ContractionOpInterface product;
  for (mlir::Operation &op : group.getBodyBlock())
    if (isa<nn::LinearOp, nn::ConvOp>(op)) {
      if (product)
        return nullptr;
      product = cast<ContractionOpInterface>(op);
    }
  auto weight = product ? dyn_cast<mlir::BlockArgument>(product.getRight()) : nullptr;
  auto input = product ? product.getLeft().getDefiningOp<nn::DequantizeOp>() : nullptr;
  if (!weight || !input)
    return nullptr;
  bool isKnown = isWeightOfBytes(nn::quantizedFormatOf(group.getInputs()[weight.getArgNumber()])) &&
                 isByteFormat(dyn_cast<nn::BlockFormatAttr>(input.getFormat()));
  return isKnown ? product : nullptr;
}

/// True if ByteConvKernel.cpp has loops for a convolution whose input is quantized.
static bool multipliesBytes(nn::ConvOp conv) {
  auto input = conv.getInput().getDefiningOp<nn::DequantizeOp>();
  bool isOfBytes = isByteFormat(dyn_cast<nn::BlockFormatAttr>(input.getFormat())) &&
                   isWeightOfBytes(nn::quantizedFormatOf(conv.getWeight()));
  return isOfBytes && !conv.getTransposed() && conv.getGroups() == 1 && conv.getInputChannels() % 4 == 0;
}

/// True if the kernel of a group can quantize a result that is computed of its product's.
static bool quantizesResultOf(nn::GroupOp group, nn::QuantizeOp quantize) {
  nn::BlockFormatAttr format = quantize.getFormat();
  ContractionOpInterface product = productOfBytes(group);
  if (!product || llvm::any_of(product->getUsers(), IsaPred<mlir::tensor::ExtractSliceOp>))
    return false;
  auto type = cast<mlir::RankedTensorType>(product->getResult(0).getType());
  bool isKnown = format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
                 format.getAxis() == type.getRank() - 1;
  // Known scales need no others of their block. Others are found where a tile has all features that share one; the
  // kernels of convolutions have no such tiles.
  if (!isKnown || quantize.getUnitScale())
    return isKnown && format.getBlock() == 0 && type.getShape().back() % BlockPanels::stepDepth == 0;
  return format.getBlock() == BlockPanels::superBlock && type.getShape().back() % BlockPanels::superBlock == 0 &&
         isa<nn::LinearOp>(*product);
}

namespace {
class CpuTarget : public target::Target {
public:
  StringRef kind() const override { return "cpu"; }
  std::vector<target::NamedVariant> listVariants() const override;
  bool usesHostMemory() const override { return true; }
  bool runsHostCode() const override { return true; }
  void addDialects(mlir::DialectRegistry &registry) const override { addKernelDialects(registry); }
  Expected<std::vector<std::unique_ptr<target::KernelCompiler>>> compilers(ArrayRef<StringRef> specs) const override;
  Expected<target::FittedModel> model(StringRef spec) const override;
  bool hasKernel(mlir::Operation *op) const override;
  bool holdsNorm(const target::KernelCandidate &kernel, std::string &whyNot) const override;
  /// An epilogue writes a tile of each result while the root's tile is in registers.
  unsigned largestResultCount() const override { return 2; }
  bool splitsAt(int64_t feature) const override { return feature % kPanelWidth == 0; }
  bool storesQuantized(BlockFormatAttrInterface format, int64_t elements) const override {
    return BlockPanels::of(format, elements, kPanelWidth).has_value();
  }
  bool passesQuantized(nn::GroupOp from, nn::GroupOp to, nn::QuantizeOp quantize) const override {
    return quantizesResultOf(from, quantize) && productOfBytes(to);
  }
  rt::LayoutAttrInterface layout(mlir::MLIRContext *context, StoredOperand use, BlockFormatAttrInterface format,
                                 int64_t slices) const override;
  std::optional<target::PreferredLayout> preferredLayout(mlir::OpResult result) const override;
  Expected<target::CacheLayout> cacheLayout(nn::CacheFormatAttr format, int64_t page) const override;
};

Expected<std::vector<std::unique_ptr<target::KernelCompiler>>> CpuTarget::compilers(ArrayRef<StringRef> specs) const {
  MapVector<StringRef, std::vector<CpuVariant>> variantsOfTriple;
  for (StringRef spec : specs) {
    Expected<CpuVariant> variant = parseVariant(spec);
    if (!variant)
      return variant.takeError();
    std::vector<CpuVariant> &variants = variantsOfTriple[target::hostTriple(Triple(variant->triple).isAArch64())];
    for (const CpuVariant &other : variants)
      if (other.name == variant->name)
        return createStringError("two targets are named '" + other.name + "': leave one of them out");
    variants.push_back(std::move(*variant));
  }
  std::vector<std::unique_ptr<target::KernelCompiler>> result;
  for (auto &[triple, variants] : variantsOfTriple) {
    llvm::stable_sort(variants,
                      [](const CpuVariant &a, const CpuVariant &b) { return a.features.size() > b.features.size(); });
    result.push_back(std::make_unique<CpuCompiler>(std::move(variants)));
  }
  return result;
}

Expected<target::FittedModel> CpuTarget::model(StringRef spec) const {
  Expected<CpuVariant> variant = parseVariant(spec);
  if (!variant)
    return variant.takeError();
  for (StringRef name : {spec.split('+').first, StringRef(variant->cpu)})
    if (const DeviceModel *model = DeviceModel::find(kind(), name))
      return target::FittedModel{model, ""};
  bool isWide = is_contained(variant->features, "avx512f");
  const DeviceModel *level = DeviceModel::find(kind(), isWide ? "cpu-x86-64-v4" : "cpu-x86-64-v3");
  if (!level)
    return createStringError("the catalogue has no figures for 'cpu:" + spec + "', nor for its instruction set");
  return target::FittedModel{level, "kernels were not measured on '" + variant->name +
                                        "': costs, which decide what is fused, are estimated by the figures of " +
                                        level->name};
}

/// Channels last (bench/nests.py, windows of 3 x 3 over 64 channels of 56 x 56 positions, AVX-512): a dense window
/// takes 3.1 times as long in channels-first order, one for each channel 2.1 times with stride 1 and 1.3 with stride 2,
/// the largest of a window 2.2 and 1.1 times, one of 7 x 7 over 3 channels 1.2 times. Lanes along positions read each
/// element at as many offsets as windows have columns, and rows end with the image's.
std::optional<target::PreferredLayout> CpuTarget::preferredLayout(mlir::OpResult result) const {
  constexpr double slowdown = 1.5;
  constexpr int64_t leastChannels = 8; // a vector of AVX2
  auto op = mlir::dyn_cast<mlir::linalg::LinalgOp>(result.getOwner());
  auto type = mlir::dyn_cast<mlir::RankedTensorType>(result.getType());
  if (!op || !type)
    return std::nullopt;
  // Loops over positions: windows count them together with loops that are reduced.
  SmallVector<mlir::utils::IteratorType> kinds = op.getIteratorTypesArray();
  auto isReduced = [&](unsigned loop) { return kinds[loop] == mlir::utils::IteratorType::reduction; };
  SmallBitVector positions(op.getNumLoops());
  for (mlir::AffineMap map : op.getIndexingMapsArray())
    for (mlir::AffineExpr at : map.getResults()) {
      SmallVector<unsigned> loops;
      for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
        if (at.isFunctionOfDim(loop))
          loops.push_back(loop);
      if (loops.size() > 1 && any_of(loops, isReduced))
        for (unsigned loop : loops)
          if (!isReduced(loop))
            positions.set(loop);
    }
  std::optional<int64_t> channels;
  mlir::AffineMap written = op.getIndexingMapMatchingResult(result);
  bool hasPositions = false;
  for (auto [dimension, at] : enumerate(written.getResults())) {
    auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(at);
    if (!loop)
      return std::nullopt;
    if (positions.test(loop.getPosition()))
      hasPositions = true;
    else
      channels = int64_t(dimension);
  }
  if (!hasPositions || !channels || type.isDynamicDim(*channels) || type.getDimSize(*channels) < leastChannels)
    return std::nullopt;
  target::PreferredLayout layout{{}, slowdown};
  for (int64_t dimension = 0; dimension < type.getRank(); ++dimension)
    if (dimension != *channels)
      layout.permutation.push_back(dimension);
  layout.permutation.push_back(*channels);
  return layout;
}

/// A page of transposed keys is the packed right operand of a matmul.
Expected<target::CacheLayout> CpuTarget::cacheLayout(nn::CacheFormatAttr format, int64_t page) const {
  if (page != 0 && page != kPanelWidth)
    return createStringError("kernels of processors read pages of " + Twine(kPanelWidth) + " tokens, not of " +
                             Twine(page));
  return target::CacheLayout{kPanelWidth, format.getKind() == nn::CacheKind::Keys};
}

std::vector<target::NamedVariant> CpuTarget::listVariants() const {
  StringRef host = hostProcessorName();
  std::vector<target::NamedVariant> list = {
      {"", "this machine (" + (host.empty() ? StringRef(hostDescription()) : host).str() + ")"},
      {"x86-64-v2", "SSE4.2"},
      {"x86-64-v3", "AVX2, FMA, F16C"},
      {"x86-64-v4", "AVX-512"},
      {"aarch64", "Armv8-A with NEON"}};
  for (const DeviceModel &model : DeviceModel::all())
    for (StringRef name : model.variants)
      if (model.kind == kind() && !name.starts_with("x86-64"))
        list.push_back({name.str(), "costs as measured for " + model.name});
  list.push_back({"PROCESSOR", "any other processor that LLVM knows (neoverse-v2, …), costs estimated"});
  list.push_back({"NAME+FEATURE", "with more features: " + join(ArrayRef(x86Features), ", ") + "; " +
                                      join(ArrayRef(aarch64Features), ", ")});
  return list;
}

bool CpuTarget::hasKernel(mlir::Operation *op) const {
  if (auto conv = mlir::dyn_cast<nn::ConvOp>(op)) {
    if (conv.getInput().getDefiningOp<nn::DequantizeOp>())
      return multipliesBytes(conv);
    return !conv.getTransposed() || all_of(conv.getDilations().value_or(mlir::ArrayRef<int64_t>()),
                                           [](int64_t dilation) { return dilation == 1; });
  }
  return mlir::isa<nn::RecurrentOp>(op) || Target::hasKernel(op);
}

bool CpuTarget::holdsNorm(const target::KernelCandidate &kernel, std::string &whyNot) const {
  if (kernel.hasParts)
    whyNot = "a norm needs whole rows, which parts of a linear's result are not";
  else if (kernel.quantizesInput)
    whyNot = "a linear that quantizes its input has tiles of its own for that, and none for a norm";
  else if (kernel.kind != KernelRoot::Linear)
    whyNot = "a norm needs whole rows, which a matmul's tiles are not";
  return whyNot.empty();
}

rt::LayoutAttrInterface CpuTarget::layout(mlir::MLIRContext *context, StoredOperand use,
                                          BlockFormatAttrInterface format, int64_t slices) const {
  // A quantized table is stored as matrices are, so that a head that shares it reads it too.
  if (use == StoredOperand::Matrix || (use == StoredOperand::Table && format))
    return rt::PanelsAttr::get(context, kPanelWidth, slices, format);
  return rt::RowMajorAttr::get(context);
}
} // namespace

const target::Target &cpuTarget() {
  static const CpuTarget target;
  return target;
}

} // namespace intarsia::cpu
