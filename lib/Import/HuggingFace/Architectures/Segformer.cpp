//===- Segformer.cpp - SegFormer ---------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SegFormer, arXiv 2105.15203: attention to an image that a convolution has reduced, and linears between convolutions
// of single channels. Checkpoints have the names of modules up to transformers 4, which it still writes.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

class Segformer : public ImageModel {
public:
  explicit Segformer(const Config &config) : ImageModel(config) {
    // Published files have an image_size of 224 from older versions of transformers, whatever the size of their images.
    height = "height";
    width = "width";
    stages = config.extent(config.spelling("num_encoder_blocks", "num_hidden_layers"), 4);
    depths = perStage("depths", {2, 2, 2, 2});
    reductions = perStage("sr_ratios", {8, 4, 2, 1});
    hiddenSizes = perStage("hidden_sizes", {32, 64, 160, 256});
    patchSizes = perStage("patch_sizes", {7, 3, 3, 3});
    strides = perStage("strides", {4, 2, 2, 2});
    heads = perStage("num_attention_heads", {1, 2, 5, 8});
    ratios = perStage("mlp_ratios", {4, 4, 4, 4});
    activation = readActivation(config, "hidden_act", "gelu");
    decoderSize = config.extent("decoder_hidden_size", 256);
    if (!config.flag("reshape_last_stage", true))
      config.refuse("reshape_last_stage", "false", {"true"});
    for (auto [size, count] : llvm::zip(hiddenSizes, heads))
      if (size % count != 0)
        config.report("hidden_sizes has " + llvm::Twine(size) +
                      ", which is not a multiple of its num_attention_heads " + llvm::Twine(count));
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"SegformerModel", Head::Base},
                                       {"SegformerForImageClassification", Head::ImageClassification},
                                       {"SegformerForSemanticSegmentation", Head::SemanticSegmentation}};
    return table;
  }
  llvm::StringRef prefix() const override { return "segformer"; }
  llvm::StringRef anchor() const override { return "encoder.patch_embeddings.0.proj.weight"; }

  Value encode(GraphBuilder &graph, Value images) override {
    Extent inputs = channels;
    for (int64_t stage = 0; stage < stages.size && !graph.sink().any(); ++stage) {
      Extent size = sizeOf(stage);
      std::string number = std::to_string(stage);
      {
        GraphBuilder::Scope scope(graph, "encoder.patch_embeddings." + number);
        int64_t patch = patchSizes[stage];
        images = graph.conv(images, "proj", size, inputs, Windows::square(patch, strides[stage], patch / 2),
                            /*bias=*/true, "patch_sizes");
        images = graph.layerNorm(images, "layer_norm", size, kEpsilon);
      }
      images = graph.layers(images, "encoder.block." + number + ".", Extent(depths[stage], "depths"),
                            [&](Value input) { return layer(graph, input, stage); });
      images = graph.layerNorm(images, "encoder.layer_norm." + number, size, kEpsilon);
      stageFeatures.push_back(images);
      inputs = size;
    }
    return images;
  }

private:
  /// Of all norms: `layer_norm_eps` has no effect in transformers.
  static constexpr double kEpsilon = 1e-5;

  std::vector<int64_t> perStage(llvm::StringRef setting, llvm::ArrayRef<int64_t> byDefault) {
    std::vector<int64_t> list = config.integers(setting, byDefault);
    if (int64_t(list.size()) != stages.size) {
      config.report(setting + " has " + llvm::Twine(list.size()) + " entries, num_encoder_blocks is " +
                    llvm::Twine(stages.size) + ": it has one for each stage");
      list.resize(stages.size, 1);
    }
    return list;
  }

  Extent sizeOf(int64_t stage) const { return Extent(hiddenSizes[stage], "hidden_sizes"); }
  Extent features() const override { return sizeOf(stages.size - 1); }

  /// Returns the positions of images one after another: [batch, positions, channels].
  static Value sequenceOf(GraphBuilder &graph, Value images, llvm::StringRef module) {
    return graph.collapseShape(images, module, {{0}, {1, 2}, {3}});
  }

  Value attention(GraphBuilder &graph, Value images, int64_t stage) const {
    GraphBuilder::Scope scope(graph, "attention");
    Extent size = sizeOf(stage);
    Value query = graph.linear(images, "self.query", size, size), reduced = images;
    if (int64_t reduction = reductions[stage]; reduction > 1) {
      reduced =
          graph.conv(images, "self.sr", size, size, Windows::square(reduction, reduction), /*bias=*/true, "sr_ratios");
      reduced = graph.layerNorm(reduced, "self.layer_norm", size, kEpsilon);
    }
    query = sequenceOf(graph, query, "self");
    Value key = sequenceOf(graph, graph.linear(reduced, "self.key", size, size), "self");
    Value value = sequenceOf(graph, graph.linear(reduced, "self.value", size, size), "self");
    Location at = graph.location("self");
    auto rowsOf = [&](Value rows) { return Shape{graph.sizeOf(at, rows, 0), graph.sizeOf(at, rows, 1)}; };
    Value context = graph.ModuleBuilder::attention(at, query, key, value, Value(), rowsOf(query), rowsOf(key),
                                                   heads[stage], size.size / heads[stage]);
    context = graph.expandShape(context, "self", graph.shapeOf(at, images), {{0}, {1, 2}, {3}});
    return graph.linear(context, "output.dense", size, size);
  }

  Value layer(GraphBuilder &graph, Value input, int64_t stage) const {
    Extent size = sizeOf(stage), inner(size.size * ratios[stage], "mlp_ratios");
    Value images = graph.layerNorm(input, "layer_norm_1", size, kEpsilon);
    Value attended = graph.add(attention(graph, images, stage), input, "attention");
    images = graph.layerNorm(attended, "layer_norm_2", size, kEpsilon);
    images = graph.linear(images, "mlp.dense1", inner, size);
    Windows windows = Windows::square(3, 1, 1);
    windows.groups = inner.size;
    images = graph.conv(images, "mlp.dwconv.dwconv", inner, inner, windows);
    images = graph.activation(images, "mlp.intermediate_act_fn", activation);
    return graph.add(graph.linear(images, "mlp.dense2", size, inner), attended, "mlp");
  }

  void baseOutputs(GraphBuilder &graph, Value images) override { outputFeatures(graph, images, "last_hidden_state"); }

  void headOutputs(GraphBuilder &graph, Value images, Head head, llvm::StringRef base) override {
    if (head != Head::SemanticSegmentation)
      return ImageModel::headOutputs(graph, images, head, base);
    GraphBuilder::Scope scope(graph, "decode_head");
    Location at = graph.location("");
    Size height = graph.sizeOf(at, stageFeatures[0], 1), width = graph.sizeOf(at, stageFeatures[0], 2);
    llvm::SmallVector<Value> projected;
    for (int64_t stage = 0; stage < stages.size; ++stage) {
      std::string module = "linear_c." + std::to_string(stage);
      Value one = graph.linear(stageFeatures[stage], module + ".proj", decoderSize, sizeOf(stage));
      projected.push_back(stage == 0 ? one : graph.resizeBilinear(one, module, height, width));
    }
    std::reverse(projected.begin(), projected.end());
    images = graph.concat(projected, "", 3);
    Extent all(decoderSize.size * stages.size, "decoder_hidden_size");
    images = graph.conv(images, "linear_fuse", decoderSize, all, Windows::square(1), /*bias=*/false);
    images = graph.activation(graph.batchNorm(images, "batch_norm", decoderSize, 1e-5), "activation", Activation::Relu);
    Extent labels(readLabels(config).size(), "id2label");
    outputFeatures(graph, graph.conv(images, "classifier", labels, decoderSize, Windows::square(1)), "logits");
  }

  Extent stages = 1, decoderSize = 1;
  std::vector<int64_t> depths, reductions, hiddenSizes, patchSizes, strides, heads, ratios;
  Activation activation = Activation::GeluErf;
  std::vector<Value> stageFeatures;
};

} // namespace

std::unique_ptr<Architecture> makeSegformer(const Config &config, const ImportOptions &) {
  return std::make_unique<Segformer>(config);
}

} // namespace intarsia::importer
