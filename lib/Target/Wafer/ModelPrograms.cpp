//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The kernels that the compiler makes of a decoder, from its shape alone: those of Llama, by far the most common form.
// test/EndToEnd/test_wafer_plan.py holds their cycles and bytes to those of compiled models. What a shape does not say
// (biases, norms of heads, windows) is not there; it takes little time.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/ModelPrograms.h"

#include "dialects/Wafer/Wafer.h"
#include "intarsia/Cost/ModelShape.h"
#include "lib/Target/Wafer/GridChoice.h"
#include "lib/Target/Wafer/Programs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <cmath>
#include <map>
#include <numeric>

using namespace mlir;

namespace intarsia::wafer {
namespace {

/// Features that share a scale of quantized weights: those of `int8` and `int4`.
constexpr int64_t groupOfScales = 32;

/// Which rows of a call a kernel computes.
enum class RowsOf { Tokens, LastToken };

/// A kernel of the model, for one size.
struct ModelKernel {
  const char *name;
  int64_t launches;
  RowsOf rows = RowsOf::Tokens;
  bool isAttention = false;
};

/// Writes the functions of a model's kernels.
class ModelWriter {
public:
  ModelWriter(const WaferDecoderRequest &request, const FunctionSizes &sizes, ModuleOp module,
              std::vector<KernelFunction> &functions)
      : shape(*request.shape), attention(shape.attention.front()), request(request), sizes(sizes),
        ofCaches(sizes.ofCaches()), module(module), functions(functions), builder(module.getContext()) {
    heads = placeHeads(attention.keyHeads, attention.heads, attention.keyDim, ofCaches.grid);
  }

  /// Returns the kernels in the order of their functions.
  static std::vector<ModelKernel> kernels(const ModelShape &shape) {
    int64_t layers = shape.layers;
    return {{"norm", 1},
            {"query_key_value", layers},
            {"append_values", layers, RowsOf::Tokens, true},
            {"append_keys", layers, RowsOf::Tokens, true},
            {"attention", layers, RowsOf::Tokens, true},
            {"output", layers},
            {"gate_up", layers},
            {"down", layers - 1}, // with the first norm of the next layer
            {"last_down", 1},
            {"last_norm", 1, RowsOf::LastToken},
            {"head", 1, RowsOf::LastToken}};
  }

  /// Returns the launches of a call in their order, by the numbers of these kernels.
  static std::vector<int> calls(const ModelShape &shape) {
    std::vector<int> calls{0};
    for (int layer = 1; layer <= shape.layers; ++layer)
      calls.insert(calls.end(), {1, 2, 3, 4, 5, 6, layer == shape.layers ? 8 : 7});
    calls.insert(calls.end(), {9, 10});
    return calls;
  }

  void write() {
    int64_t hidden = shape.hidden, keys = int64_t(attention.keyHeads) * attention.keyDim,
            queries = int64_t(attention.heads) * attention.keyDim, inner = shape.denseWidth;
    begin("norm");
    finish({norm(activation(hidden, f32()), hidden)});
    begin("query_key_value");
    Value x = activation(hidden, f16());
    finish({product(x, hidden, queries), product(x, hidden, keys), product(x, hidden, keys)});
    append("append_values", /*rotated=*/false);
    append("append_keys", /*rotated=*/true);
    writeAttention();
    begin("output");
    residual(queries);
    begin("gate_up");
    x = activation(hidden, f16());
    Value gate = product(x, hidden, inner), up = product(x, hidden, inner);
    finish({map(Arithmetic::Multiply, {map(Arithmetic::Silu, {gate}), up})});
    begin("down");
    residual(inner);
    begin("last_down");
    residual(inner, /*isNormed=*/false);
    begin("last_norm");
    finish({norm(activation(hidden, f32()), hidden)});
    begin("head");
    finish({product(activation(hidden, f16()), hidden, shape.vocabulary, /*isHead=*/true)});
  }

private:
  const ModelShape &shape;
  const AttentionLayers &attention;
  const WaferDecoderRequest &request;
  FunctionSizes sizes, ofCaches;
  ModuleOp module;
  std::vector<KernelFunction> &functions;
  OpBuilder builder;
  PackedHeads heads;
  KernelFunction made;
  Location loc() { return module.getLoc(); }
  Type f32() { return builder.getF32Type(); }
  Type f16() { return builder.getF16Type(); }

  void begin(StringRef name, std::optional<int64_t> rows = std::nullopt) {
    made = KernelFunction();
    made.count = rows.value_or(sizes.rows);
    builder.setInsertionPointToEnd(module.getBody());
    made.function = func::FuncOp::create(builder, loc(), name, builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(made.function.addEntryBlock());
  }

  Value input(int64_t rows, int64_t columns, Type type, bool hasRows, ViewKind kind = ViewKind::Strided) {
    MatrixView &view = made.inputs.emplace_back();
    view.hasRows = hasRows;
    view.kind = kind;
    return made.function.getBody().addArgument(RankedTensorType::get({rows, columns}, type), loc());
  }
  Value activation(int64_t size, Type type) { return input(made.count, size, type, /*hasRows=*/true); }

  Value weight(int64_t depth, int64_t count, int bits) {
    if (bits == 16)
      return input(depth, count, f16(), /*hasRows=*/false);
    int64_t shared = sizes.sharedFeatures(depth, groupOfScales);
    Value codes = input(depth, count, builder.getIntegerType(unsigned(bits)), /*hasRows=*/false, ViewKind::Codes),
          scales = input(llvm::divideCeil(depth, shared), count, f16(), /*hasRows=*/false, ViewKind::Scales);
    return DistDecodeOp::create(builder, loc(), RankedTensorType::get({depth, count}, f16()), codes, scales,
                                sizes.grid);
  }

  /// A head of quantized weights has 8 bits.
  Value product(Value x, int64_t depth, int64_t count, bool isHead = false) {
    Value w = weight(depth, count, isHead && request.weightBits < 16 ? 8 : request.weightBits);
    made.smallest = std::min({made.smallest, depth, count});
    auto type = RankedTensorType::get({made.count, count}, f32());
    if (made.count == 1)
      return DistGemvOp::create(builder, loc(), type, Reduction::Tree, x, w, sizes.grid, IntegerAttr());
    return DistGemmOp::create(builder, loc(), type, GemmAlgorithm::Mesh, x, w, sizes.grid, false);
  }

  Value map(Arithmetic function, ValueRange inputs) {
    return DistMapOp::create(builder, loc(), inputs.front().getType(), function, inputs, sizes.grid);
  }

  Value norm(Value x, int64_t size) {
    made.smallest = std::min(made.smallest, size);
    Value scale = input(made.count, size, f32(), /*hasRows=*/false);
    return DistNormOp::create(builder, loc(), cast<RankedTensorType>(x.getType()), Norm::Rms, ValueRange{x, scale},
                              uint64_t(sizes.grid), llvm::APFloat(1e-5f));
  }

  /// A product, what came before it added, and the norm of both.
  void residual(int64_t depth, bool isNormed = true) {
    Value y = product(activation(depth, f16()), depth, shape.hidden);
    Value sum = map(Arithmetic::Add, {y, activation(shape.hidden, f32())});
    isNormed ? finish({sum, norm(sum, shape.hidden)}) : finish({sum});
  }

  Value cache() {
    return input(llvm::divideCeil(ofCaches.context, ofCaches.grid) * ofCaches.grid, ofCaches.grid * heads.tile,
                 request.cacheBits == 16 ? f16() : f32(), /*hasRows=*/false, ViewKind::Cache);
  }
  Value frequencies() {
    return input(1, ofCaches.grid * heads.tile / 2, f32(), /*hasRows=*/false, ViewKind::Frequencies);
  }

  void append(StringRef name, bool rotated) {
    begin(name, 1);
    made.cache.emplace().appends = true;
    Value positions, turns;
    if (rotated) {
      positions = input(1, 1, f32(), /*hasRows=*/true, ViewKind::Positions);
      turns = frequencies();
    }
    SmallVector<Value> results;
    for (int64_t part = 0; part < heads.parts; ++part) {
      Value before = cache();
      Value row = input(1, ofCaches.grid * heads.tile, f32(), /*hasRows=*/true, ViewKind::Heads);
      results.push_back(DistAppendOp::create(builder, loc(), before.getType(), before, row, positions, turns,
                                             uint64_t(ofCaches.grid), llvm::APFloat(1.0f)));
    }
    finish(results);
  }

  void writeAttention() {
    begin("attention", llvm::divideCeil(ofCaches.rows, ofCaches.grid));
    made.cache.emplace();
    int64_t rows = made.count * heads.group;
    Value positions = input(rows, 1, f32(), /*hasRows=*/true, ViewKind::Positions), turns = frequencies();
    SmallVector<Value> results;
    for (int64_t part = 0; part < heads.parts; ++part) {
      Value query = input(rows, ofCaches.grid * heads.tile, f32(), /*hasRows=*/true, ViewKind::Heads);
      Value keys = cache(), values = cache();
      results.push_back(DistAttentionOp::create(builder, loc(), query.getType(), query, keys, values, positions, turns,
                                                builder.getI64IntegerAttr(ofCaches.grid),
                                                builder.getI64IntegerAttr(llvm::divideCeil(heads.heads, heads.parts)),
                                                builder.getI64IntegerAttr(heads.columns),
                                                builder.getF32FloatAttr(0.125f), IntegerAttr(), FloatAttr()));
    }
    finish(results);
  }

  void finish(ArrayRef<Value> results) {
    func::ReturnOp::create(builder, loc(), results);
    made.function.setFunctionType(
        builder.getFunctionType(made.function.getBody().getArgumentTypes(), ValueRange(results).getTypes()));
    functions.push_back(std::move(made));
  }
};

/// Returns why a wafer does not compute a model, or "".
std::string refusalOf(const ModelShape &shape) {
  if (shape.attention.size() != 1 || shape.attention.front().kind != AttentionLayers::Kind::Grouped)
    return "its layers do not all have attention of grouped heads";
  const AttentionLayers &attention = shape.attention.front();
  if (attention.selectedTokens || attention.outputGate || attention.valuesAreKeys)
    return "its attention has an indexer, a gate or values that are keys";
  if (attention.keyDim != attention.valueDim || attention.keyDim % 2 != 0)
    return "its heads have no pairs of features, or values of another size than keys";
  if (shape.expertLayers > 0)
    return "it has experts";
  if (shape.feedForwardMatrices != 3 || shape.hasBiasedLayers)
    return "its feed-forward layers have no gate, or it adds biases to scores";
  return "";
}

class Decoder final : public WaferDecoder {
public:
  Decoder(GridPlan plan, std::vector<ModelKernel> kernels, double clockGHz)
      : plan(std::move(plan)), kernels(std::move(kernels)), clockGHz(clockGHz) {}

  double promptMs(double tokens) const override { return milliseconds(tokens, false); }
  double promptAttentionMs(double tokens) const override { return milliseconds(tokens, true); }

private:
  GridPlan plan;
  std::vector<ModelKernel> kernels;
  double clockGHz;

  double milliseconds(double tokens, bool attentionAlone) const {
    double cycles = 0;
    for (auto [kernel, of] : llvm::zip_equal(plan.kernels, kernels))
      if (!attentionAlone || of.isAttention)
        cycles += double(of.launches) *
                  kernel.cyclesFor(of.rows == RowsOf::Tokens ? int64_t(std::ceil(std::max(tokens, 1.0))) : 1);
    return cycles / clockGHz * 1e-6;
  }
};

class ProgramTimes final : public WaferTimes {
public:
  llvm::Expected<const WaferDecoder *> decoder(const WaferDecoderRequest &request) override {
    const ModelShape &shape = *request.shape;
    const AttentionLayers &attention = shape.attention.front();
    auto whole = [](double value) { return int64_t(std::ceil(std::max(value, 1.0))); };
    int64_t context = llvm::alignTo(uint64_t(whole(request.context)), contextStepOfWafers);
    std::string key =
        llvm::formatv("{0} {1} {2} {3} {4} {5} {6} {7} {8} {9} {10} {11} {12}", request.wafer, shape.name, shape.hidden,
                      shape.layers, shape.vocabulary, shape.denseWidth, attention.heads, attention.keyHeads,
                      attention.keyDim, request.weightBits, request.cacheBits, context, request.wafers);
    auto [found, isNew] = known.try_emplace(key);
    if (isNew)
      found->second = make(request, context);
    if (!found->second.decoder)
      return llvm::createStringError(found->second.refusal);
    return found->second.decoder.get();
  }

private:
  struct Made {
    std::unique_ptr<Decoder> decoder;
    std::string refusal;
  };
  std::map<std::string, Made> known;

  static Made make(const WaferDecoderRequest &request, int64_t context) {
    const ModelShape &shape = *request.shape;
    if (std::string why = refusalOf(shape); !why.empty())
      return {nullptr, why + ", which programs of wafers do not compute"};
    llvm::Expected<Mesh> mesh = meshOf(request.wafer);
    if (!mesh)
      return {nullptr, llvm::toString(mesh.takeError())};
    if (request.wafers > 1)
      mesh->wafers = request.wafers;
    DialectRegistry registry;
    registry.insert<WaferDialect, func::FuncDialect, memref::MemRefDialect>();
    MLIRContext mlir(registry, MLIRContext::Threading::DISABLED);
    mlir.loadAllAvailableDialects();
    std::vector<ModelKernel> kernels = ModelWriter::kernels(shape);
    GridChooser chooser(UnknownLoc::get(&mlir), *mesh, mesh->wafer.name, context, kernels.size(),
                        ModelWriter::calls(shape),
                        [&](const FunctionSizes &sizes, ModuleOp module, std::vector<KernelFunction> &functions) {
                          ModelWriter(request, sizes, module, functions).write();
                          return true;
                        });
    chooser.isCompiled = false;
    llvm::Expected<GridPlan> plan = chooser.choose();
    if (!plan)
      return {nullptr, llvm::toString(plan.takeError())};
    double clockGHz = mesh->wafer.figures.at("clock_ghz").value;
    GridPlan &chosen = *plan;
    int64_t grid = chosen.grid, rowsGrid = chosen.rowsGrid, bytes = chosen.bytes, regions = chosen.regions;
    double cycles = chosen.cycles;
    auto decoder = std::make_unique<Decoder>(std::move(chosen), std::move(kernels), clockGHz);
    decoder->grid = grid;
    decoder->rowsGrid = rowsGrid;
    decoder->regions = regions;
    decoder->context = context;
    decoder->bytes = bytes;
    decoder->bytesOfAll = mesh->figure("sram_bytes");
    decoder->stepMs = cycles / clockGHz * 1e-6;
    return {std::move(decoder), ""};
  }
};

} // namespace

std::unique_ptr<WaferTimes> programTimes() { return std::make_unique<ProgramTimes>(); }

} // namespace intarsia::wafer
