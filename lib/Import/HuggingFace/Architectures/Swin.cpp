//===- Swin.cpp - Swin Transformer -------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Swin Transformer, arXiv 2103.14030: attention inside of windows of an image, which every second layer shifts by half
// of their size. Checkpoints have the names of modules up to transformers 4, which it still writes.
//
// The state is [batch, positions, channels]. Positions come into the order of windows and back as rows of a table are
// looked up, so that each way is one kernel with the norm or the residual beside it.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

/// The windows of an image of height x width positions, padded behind to whole windows.
struct Partition {
  Partition(int64_t height, int64_t width, int64_t window, int64_t shift)
      : height(height), width(width), window(window), shift(shift), rows(llvm::divideCeil(height, window)),
        columns(llvm::divideCeil(width, window)) {}

  int64_t count() const { return rows * columns; }
  int64_t area() const { return window * window; }
  int64_t paddedHeight() const { return rows * window; }
  int64_t paddedWidth() const { return columns * window; }
  bool isPadded() const { return paddedHeight() != height || paddedWidth() != width; }

  /// Returns the row and column in the padded image, after it was shifted, of a position of a window.
  std::pair<int64_t, int64_t> shiftedPlace(int64_t number, int64_t position) const {
    return {number / columns * window + position / window, number % columns * window + position % window};
  }
  /// Returns the number of the padded image's position that stands there.
  int64_t source(int64_t number, int64_t position) const {
    auto [y, x] = shiftedPlace(number, position);
    return (y + shift) % paddedHeight() * paddedWidth() + (x + shift) % paddedWidth();
  }
  /// Returns which part of the image, of those that the shift brought together, a position is from.
  int64_t region(int64_t number, int64_t position) const {
    auto part = [&](int64_t place, int64_t size) { return (place >= size - window) + (place >= size - shift); };
    auto [y, x] = shiftedPlace(number, position);
    return part(y, paddedHeight()) * 3 + part(x, paddedWidth());
  }

  int64_t height, width, window, shift, rows, columns;
};

class Swin : public ImageModel {
public:
  explicit Swin(const Config &config) : ImageModel(config) {
    readImageSize(224);
    std::tie(patchHeight, patchWidth) = config.integerPair("patch_size", 4);
    embedding = config.extent("embed_dim", 96);
    depths = config.integers("depths", {2, 2, 6, 2});
    heads = config.integers(config.spelling("num_heads", "num_attention_heads"), {3, 6, 12, 24});
    window = config.integer("window_size", 7, 1, 64);
    ratio = config.number("mlp_ratio", 4.0, 1e-6, 1e3);
    hasBias = config.flag("qkv_bias", true);
    activation = readActivation(config, "hidden_act", "gelu");
    hasPositions = config.flag("use_absolute_embeddings", false);
    epsilon = config.number("layer_norm_eps", 1e-5, 0, 1);
    constexpr size_t mostStages = 16;
    if (heads.size() != depths.size() || depths.size() > mostStages) {
      config.report("num_heads has " + llvm::Twine(heads.size()) + " entries, depths has " +
                    llvm::Twine(depths.size()) + ": both have one for each stage, of which there are up to " +
                    llvm::Twine(mostStages));
      depths.resize(1);
      heads.resize(1);
    }
    for (auto [stage, count] : llvm::enumerate(heads))
      if (sizeOf(stage).size % count != 0)
        config.report("embed_dim implies " + llvm::Twine(sizeOf(stage).size) + " channels in stage " +
                      llvm::Twine(stage) + ", which is not a multiple of its num_heads " + llvm::Twine(count));
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"SwinModel", Head::Base},
                                       {"SwinForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "swin"; }
  llvm::StringRef anchor() const override { return "embeddings.patch_embeddings.projection.weight"; }

  Value encode(GraphBuilder &graph, Value images) override {
    int64_t rows = llvm::divideCeil(height.value, patchHeight), columns = llvm::divideCeil(width.value, patchWidth);
    Value state = embed(graph, images, rows, columns);
    size_t stage = 0;
    state = graph.layers(state, "encoder.layers.", Extent(depths.size(), "depths"), [&](Value input) {
      Extent size = sizeOf(stage);
      bool isShifted = false;
      if (std::min(rows, columns) < window)
        config.report("window_size is " + llvm::Twine(window) + ", larger than the " + llvm::Twine(rows) + " x " +
                      llvm::Twine(columns) + " positions of stage " + llvm::Twine(stage));
      Value output = graph.layers(input, "blocks.", Extent(depths[stage], "depths"), [&](Value before) {
        // A window as large as the image is not shifted.
        bool hasShift = isShifted && std::min(rows, columns) > window;
        isShifted = !isShifted;
        return layer(graph, before, Partition(rows, columns, window, hasShift ? window / 2 : 0), size, heads[stage]);
      });
      if (++stage == depths.size())
        return output;
      output = merge(graph, output, rows, columns, size);
      rows = llvm::divideCeil(rows, 2);
      columns = llvm::divideCeil(columns, 2);
      return output;
    });
    return graph.layerNorm(state, "layernorm", features(), epsilon);
  }

private:
  /// Of the norms of embeddings and of merged patches, in all models.
  static constexpr double kFixedEpsilon = 1e-5;

  Extent sizeOf(size_t stage) const { return Extent(embedding.size << stage, "embed_dim"); }
  Extent features() const override { return sizeOf(depths.size() - 1); }

  Value embed(GraphBuilder &graph, Value images, int64_t rows, int64_t columns) const {
    GraphBuilder::Scope scope(graph, "embeddings");
    Windows patches{{patchHeight, patchWidth}, {patchHeight, patchWidth}, {}, {}, {}};
    patches.padsLow = {0, 0};
    patches.padsHigh = {rows * patchHeight - height.value, columns * patchWidth - width.value};
    images =
        graph.conv(images, "patch_embeddings.projection", embedding, channels, patches, /*bias=*/true, "patch_size");
    Value state = graph.collapseShape(images, "patch_embeddings", {{0}, {1, 2}, {3}});
    state = graph.layerNorm(state, "norm", embedding, kFixedEpsilon);
    if (!hasPositions)
      return state;
    Extent positions(rows * columns, "image_size, patch_size");
    Value table = graph.weight("position_embeddings", {1, positions, embedding});
    table = graph.collapseShape(table, "position_embeddings", {{0, 1}, {2}});
    Type type = graph.getActivationType();
    return graph.elementwise("position_embeddings", type, graph.shapeOf(graph.location(""), state),
                             {{state, {0, 1, 2}}, {table, {1, 2}}},
                             [&](OpBuilder &builder, Location at, ValueRange values) -> Value {
                               Value position = widened(builder, at, values[1], type);
                               return arith::AddFOp::create(builder, at, values[0], position);
                             });
  }

  /// Returns the indices [batch, `shape`…] of rows that lie `step` apart from one image to the next; `first` has those
  /// of the first image.
  static Value rowIndices(GraphBuilder &graph, Size batch, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> first,
                          int64_t step) {
    Location at = graph.location("");
    OpBuilder &builder = graph.getBuilder();
    auto type = RankedTensorType::get(shape, builder.getI64Type());
    Value ofImage = arith::ConstantOp::create(builder, at, DenseElementsAttr::get(type, first));
    Shape all{batch};
    llvm::append_range(all, shape);
    llvm::SmallVector<unsigned, 4> inner(llvm::to_vector(llvm::seq<unsigned>(1, all.size())));
    return graph.elementwise("", builder.getI64Type(), all, {{ofImage, inner}},
                             [&](OpBuilder &b, Location where, ValueRange values) -> Value {
                               Value number = linalg::IndexOp::create(b, where, 0);
                               number = arith::IndexCastOp::create(b, where, b.getI64Type(), number);
                               Value between = arith::ConstantOp::create(b, where, b.getI64IntegerAttr(step));
                               return arith::AddIOp::create(b, where, arith::MulIOp::create(b, where, number, between),
                                                            values[0]);
                             });
  }

  /// Returns images [batch, positions, channels] with zeros behind them, up to whole windows.
  static Value padded(GraphBuilder &graph, Value state, const Partition &windows, Extent size) {
    Location at = graph.location("");
    Type type = graph.getActivationType();
    Size batch = graph.sizeOf(at, state, 0);
    auto zeros = [&](int64_t rows, int64_t columns) -> Value {
      Value zero = floatConstant(graph.getBuilder(), at, type, 0);
      Value empty = graph.empty(at, {batch, rows, columns, size.size}, type);
      return linalg::FillOp::create(graph.getBuilder(), at, zero, empty).getResult(0);
    };
    Value images = graph.expandShape(state, "", {batch, windows.height, windows.width, size.size}, {{0}, {1, 2}, {3}});
    if (int64_t below = windows.paddedHeight() - windows.height)
      images = graph.concat({images, zeros(below, windows.width)}, "", 1);
    if (int64_t behind = windows.paddedWidth() - windows.width)
      images = graph.concat({images, zeros(windows.paddedHeight(), behind)}, "", 2);
    return graph.collapseShape(images, "", {{0}, {1, 2}, {3}});
  }

  /// Returns what is added to scores: a number for each distance of two positions, and in shifted windows much less
  /// for positions that are no neighbours in the image. [1, heads, area, area]; in shifted windows there are heads of
  /// each window.
  Value bias(GraphBuilder &graph, const Partition &windows, int64_t heads) const {
    GraphBuilder::Scope scope(graph, "attention.self");
    constexpr llvm::StringLiteral name = "relative_position_bias_table";
    OpBuilder &builder = graph.getBuilder();
    Location at = graph.location(name);
    int64_t distances = 2 * window - 1, area = windows.area();
    Value table = graph.weight(name, {Extent(distances * distances, "window_size"), Extent(heads, "num_heads")});
    llvm::SmallVector<int64_t> numbers;
    for (int64_t query = 0; query < area; ++query)
      for (int64_t key = 0; key < area; ++key)
        numbers.push_back((query / window - key / window + window - 1) * distances + query % window - key % window +
                          window - 1);
    auto type = RankedTensorType::get({area, area}, builder.getI64Type());
    Value indices = arith::ConstantOp::create(builder, at, DenseElementsAttr::get(type, llvm::ArrayRef(numbers)));
    Type element = graph.getActivationType();
    Value ofPairs = graph.ModuleBuilder::embedding(at, table, indices, element);
    if (windows.shift == 0)
      return graph.transpose(graph.expandShape(ofPairs, name, {1, area, area, heads}, {{0, 1}, {2}, {3}}), name,
                             {1, heads, area, area}, {0, 3, 1, 2});
    llvm::SmallVector<int64_t> regions;
    for (int64_t number = 0; number < windows.count(); ++number)
      for (int64_t position = 0; position < area; ++position)
        regions.push_back(windows.region(number, position));
    type = RankedTensorType::get({windows.count(), area}, builder.getI64Type());
    Value regionOf = arith::ConstantOp::create(builder, at, DenseElementsAttr::get(type, llvm::ArrayRef(regions)));
    Value masked = graph.elementwise(
        name, element, {1, windows.count(), heads, area, area},
        {{ofPairs, {3, 4, 2}}, {regionOf, {1, 3}}, {regionOf, {1, 4}}},
        [&](OpBuilder &b, Location where, ValueRange values) -> Value {
          Value apart = arith::CmpIOp::create(b, where, arith::CmpIPredicate::ne, values[1], values[2]);
          Value hidden = arith::AddFOp::create(b, where, values[0], floatConstant(b, where, element, -100));
          return arith::SelectOp::create(b, where, apart, hidden, values[0]);
        });
    return graph.collapseShape(masked, name, {{0}, {1, 2}, {3}, {4}});
  }

  Value attention(GraphBuilder &graph, Value state, const Partition &windows, Extent size, int64_t heads) const {
    Location at = graph.location("attention");
    int64_t count = windows.count(), area = windows.area(), positions = count * area;
    Size batch = graph.sizeOf(at, state, 0);
    if (windows.isPadded())
      state = padded(graph, graph.layerNorm(state, "layernorm_before", size, epsilon), windows, size);
    // Windows are entries of the batch. Shifted ones are heads instead, since each has a mask of its own.
    bool areHeads = windows.shift > 0;
    if (count > 1) {
      llvm::SmallVector<int64_t> sources;
      for (int64_t outer = 0; outer < (areHeads ? area : count); ++outer)
        for (int64_t inner = 0; inner < (areHeads ? count : area); ++inner)
          sources.push_back(areHeads ? windows.source(inner, outer) : windows.source(outer, inner));
      Value rows = graph.collapseShape(state, "", {{0, 1}, {2}});
      Value indices = areHeads ? rowIndices(graph, batch, {area, count}, sources, positions)
                               : rowIndices(graph, batch, {count, area}, sources, positions);
      if (!areHeads)
        indices = graph.collapseShape(indices, "", {{0, 1}, {2}});
      state = graph.rowsAt(rows, indices, "attention");
    }
    if (!windows.isPadded())
      state = graph.layerNorm(state, "layernorm_before", size, epsilon);

    auto projected = [&](llvm::StringRef module) {
      Value rows = graph.linear(state, module, size, size, hasBias);
      return areHeads ? graph.collapseShape(rows, module, {{0}, {1}, {2, 3}}) : rows;
    };
    Value query = projected("attention.self.query"), key = projected("attention.self.key");
    Value value = projected("attention.self.value");
    Shape leading{areHeads ? batch : graph.compute(at, SizeOp::Multiply, batch, count), area};
    Value context = graph.attention(query, key, value, bias(graph, windows, heads), "attention.self", leading,
                                    areHeads ? count * heads : heads, size.size / heads);
    if (areHeads)
      context = graph.expandShape(context, "attention", {batch, area, count, size.size}, {{0}, {1}, {2, 3}});
    context = graph.linear(context, "attention.output.dense", size, size);
    if (count == 1 && !windows.isPadded())
      return context;

    llvm::SmallVector<int64_t> places(windows.height * windows.width);
    for (int64_t number = 0; number < count; ++number)
      for (int64_t position = 0; position < area; ++position) {
        int64_t source = windows.source(number, position);
        int64_t y = source / windows.paddedWidth(), x = source % windows.paddedWidth();
        if (y < windows.height && x < windows.width)
          places[y * windows.width + x] = areHeads ? position * count + number : number * area + position;
      }
    Value rows =
        areHeads ? graph.collapseShape(context, "", {{0, 1, 2}, {3}}) : graph.collapseShape(context, "", {{0, 1}, {2}});
    return graph.rowsAt(rows, rowIndices(graph, batch, {int64_t(places.size())}, places, positions), "attention");
  }

  Value layer(GraphBuilder &graph, Value input, const Partition &windows, Extent size, int64_t heads) const {
    Extent inner(int64_t(ratio * size.size), "mlp_ratio");
    Value attended = graph.add(input, attention(graph, input, windows, size, heads), "attention");
    Value state = graph.layerNorm(attended, "layernorm_after", size, epsilon);
    state = graph.activation(graph.linear(state, "intermediate.dense", inner, size), "intermediate", activation);
    return graph.add(graph.linear(state, "output.dense", size, inner), attended, "output");
  }

  /// Makes one position of each two by two.
  static Value merge(GraphBuilder &graph, Value state, int64_t rows, int64_t columns, Extent size) {
    GraphBuilder::Scope scope(graph, "downsample");
    Size batch = graph.sizeOf(graph.location(""), state, 0);
    Partition pairs(rows, columns, 2, 0);
    if (pairs.isPadded())
      state = padded(graph, state, pairs, size);
    Value images =
        graph.expandShape(state, "", {batch, pairs.rows, 2, pairs.columns, 2, size.size}, {{0}, {1, 2, 3, 4}, {5}});
    images = graph.transpose(images, "", {batch, pairs.rows, pairs.columns, 2, 2, size.size}, {0, 1, 3, 4, 2, 5});
    Extent four(4 * size.size, size.setting), two(2 * size.size, size.setting);
    state = graph.collapseShape(images, "", {{0}, {1, 2}, {3, 4, 5}});
    state = graph.layerNorm(state, "norm", four, kFixedEpsilon);
    return graph.linear(state, "reduction", two, four, /*bias=*/false);
  }

  void baseOutputs(GraphBuilder &graph, Value state) override {
    graph.output(state, "last_hidden_state", graph.shapeOf(graph.location("layernorm"), state));
    graph.output(pool(graph, state), "pooler_output", {"batch", features().size});
  }

  int64_t patchHeight = 4, patchWidth = 4, window = 7;
  Extent embedding = 96;
  std::vector<int64_t> depths, heads;
  double ratio = 4, epsilon = 1e-5;
  bool hasBias = true, hasPositions = false;
  Activation activation = Activation::GeluErf;
};

} // namespace

std::unique_ptr<Architecture> makeSwin(const Config &config, const ImportOptions &) {
  return std::make_unique<Swin>(config);
}

} // namespace intarsia::importer
