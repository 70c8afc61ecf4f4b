//===- Dpt.cpp - Dense Prediction Transformer ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DPT, arXiv 2103.13413: hidden states of a Vision Transformer become images of several sizes, which are fused from the
// smallest to the largest.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ViT.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

class Dpt : public ViT {
public:
  explicit Dpt(const Config &config) : ViT(config, /*imageSize=*/384) {
    for (llvm::StringRef setting : {"is_hybrid", "backbone", "backbone_config"})
      config.refuseIfSet(setting, "models with a Vision Transformer of their own are imported");
    kept = config.integers("backbone_out_indices", {2, 5, 8, 11}, 0);
    llvm::sort(kept);
    readout = config.string("readout_type", "project");
    if (!llvm::is_contained({"ignore", "add", "project"}, llvm::StringRef(readout)))
      config.refuse("readout_type", readout, {"ignore", "add", "project"});
    factors = config.has("reassemble_factors") ? config.numbers("reassemble_factors", 1.0 / 64, 64)
                                               : std::vector<double>{4, 2, 1, 0.5};
    neckSizes = config.integers("neck_hidden_sizes", {96, 192, 384, 768});
    fusionSize = config.extent("fusion_hidden_size", 256, 2);
    headIndex = config.integer("head_in_index", -1, -int64_t(neckSizes.size()), int64_t(neckSizes.size()) - 1);
    hasNorms = config.flag("use_batch_norm_in_fusion_residual", false);
    hasBias = config.flag("use_bias_in_fusion_residual", !hasNorms);
    hasProjection = config.flag("add_projection", false);
    if (kept.size() != neckSizes.size() || factors.size() < neckSizes.size() || kept.back() >= layers.size)
      config.report("backbone_out_indices, neck_hidden_sizes and reassemble_factors have to have one entry for each "
                    "hidden state that is used, all of them of the " +
                    llvm::Twine(layers.size) + " layers");
    if (imageHeight / patchHeight != imageWidth / patchWidth)
      config.report("image_size has to have as many patches in a row as in a column");
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"DPTModel", Head::Base},
                                       {"DPTForDepthEstimation", Head::DepthEstimation},
                                       {"DPTForSemanticSegmentation", Head::SemanticSegmentation}};
    return table;
  }
  llvm::StringRef prefix() const override { return "dpt"; }

  void headOutputs(GraphBuilder &graph, Value, Head head, llvm::StringRef) override {
    Value images = neck(graph);
    GraphBuilder::Scope scope(graph, "head");
    if (head == Head::SemanticSegmentation) {
      images = graph.conv(images, "head.0", fusionSize, fusionSize, Windows::square(3, 1, 1), /*bias=*/false);
      images = graph.activation(graph.batchNorm(images, "head.1", fusionSize, 1e-5), "head.2", Activation::Relu);
      Extent labels(readLabels(config).size(), "id2label");
      images = doubled(graph, graph.conv(images, "head.4", labels, fusionSize, Windows::square(1)), "head.5");
      Location at = graph.location("head.5");
      images = graph.channelsFirst(at, images);
      graph.output(images, "logits", graph.shapeOf(at, images));
      return;
    }
    if (hasProjection) {
      images = graph.conv(images, "projection", 256, 256, Windows::square(3, 1, 1));
      images = graph.activation(images, "projection", Activation::Relu);
    }
    Extent half(fusionSize.size / 2, "fusion_hidden_size"), inner(32);
    images = doubled(graph, graph.conv(images, "head.0", half, fusionSize, Windows::square(3, 1, 1)), "head.1");
    images = graph.conv(images, "head.2", inner, half, Windows::square(3, 1, 1));
    images = graph.activation(images, "head.3", Activation::Relu);
    images = graph.conv(images, "head.4", 1, inner, Windows::square(1));
    images = graph.collapseShape(graph.activation(images, "head.5", Activation::Relu), "head.5", {{0}, {1}, {2, 3}});
    graph.output(images, "predicted_depth", graph.shapeOf(graph.location("head.5"), images));
  }

private:
  void keep(Value state) override {
    if (llvm::is_contained(kept, layer++))
      states.push_back(state);
  }

  /// Returns images of twice the size, whose corners are those of the images.
  static Value doubled(GraphBuilder &graph, Value images, llvm::StringRef module) {
    Location at = graph.location(module);
    Size height = graph.compute(at, SizeOp::Multiply, graph.sizeOf(at, images, 1), 2);
    Size width = graph.compute(at, SizeOp::Multiply, graph.sizeOf(at, images, 2), 2);
    return graph.resizeBilinear(images, module, height, width, /*alignsCorners=*/true);
  }

  /// Returns a hidden state as an image, without its first token, which is added or concatenated to the others.
  Value reassembled(GraphBuilder &graph, Value state, size_t number) const {
    std::string index = std::to_string(number), module = "layers." + index;
    Value first = graph.firstToken(state, module, "batch", hidden.size);
    Shape shape{"batch", patches(), hidden.size};
    Value rows = graph.part(graph.location(module), state, {0, 1, 0}, shape, shape);
    if (readout == "add") {
      auto sum = [](OpBuilder &builder, Location at, ValueRange values) -> Value {
        return arith::AddFOp::create(builder, at, values[0], values[1]);
      };
      rows = graph.elementwise(module, graph.getActivationType(), shape, {{rows, {0, 1, 2}}, {first, {0, 2}}}, sum);
    } else if (readout == "project") {
      auto same = [](OpBuilder &, Location, ValueRange values) { return values[0]; };
      Value copies = graph.elementwise(module, graph.getActivationType(), shape, {{first, {0, 2}}}, same);
      std::string project = "readout_projects." + index;
      rows = graph.linear(graph.concat({rows, copies}, module, 2), project + ".0", hidden,
                          Extent(2 * hidden.size, "hidden_size"));
      rows = graph.activation(rows, project + ".1", activation);
    }
    Value images = graph.expandShape(
        rows, module, {"batch", imageHeight / patchHeight, imageWidth / patchWidth, hidden.size}, {{0}, {1, 2}, {3}});
    Extent size(neckSizes[number], "neck_hidden_sizes");
    images = graph.conv(images, module + ".projection", size, hidden, Windows::square(1));
    double factor = factors[number];
    if (factor > 1) {
      Windows windows = Windows::square(int64_t(factor), int64_t(factor));
      windows.isTransposed = true;
      return graph.conv(images, module + ".resize", size, size, windows, /*bias=*/true, "reassemble_factors");
    }
    if (factor < 1)
      return graph.conv(images, module + ".resize", size, size, Windows::square(3, int64_t(1 / factor), 1));
    return images;
  }

  /// Builds two convolutions behind activations, and adds their input.
  Value residualUnit(GraphBuilder &graph, Value input, llvm::StringRef module) const {
    GraphBuilder::Scope scope(graph, module);
    Value images = input;
    for (llvm::StringRef number : {"1", "2"}) {
      images = graph.activation(images, ("activation" + number).str(), Activation::Relu);
      images =
          graph.conv(images, ("convolution" + number).str(), fusionSize, fusionSize, Windows::square(3, 1, 1), hasBias);
      if (hasNorms)
        images = graph.batchNorm(images, ("batch_norm" + number).str(), fusionSize, 1e-5);
    }
    return graph.add(images, input, "");
  }

  Value neck(GraphBuilder &graph) const {
    GraphBuilder::Scope scope(graph, "neck");
    llvm::SmallVector<Value> parts;
    for (auto [number, state] : llvm::enumerate(states)) {
      Value images;
      {
        GraphBuilder::Scope stage(graph, "reassemble_stage");
        images = reassembled(graph, state, number);
      }
      Extent size(neckSizes[number], "neck_hidden_sizes");
      std::string module = "convs." + std::to_string(number);
      parts.push_back(graph.conv(images, module, fusionSize, size, Windows::square(3, 1, 1), /*bias=*/false));
    }
    Value fused;
    llvm::SmallVector<Value> results;
    for (auto [number, part] : llvm::enumerate(llvm::reverse(parts))) {
      GraphBuilder::Scope stage(graph, "fusion_stage.layers." + llvm::Twine(number));
      Location at = graph.location("");
      if (fused) {
        Size height = graph.sizeOf(at, fused, 1), width = graph.sizeOf(at, fused, 2);
        if (graph.sizeOf(at, part, 1).value != height.value || graph.sizeOf(at, part, 2).value != width.value)
          part = graph.resizeBilinear(part, "", height, width);
        fused = graph.add(residualUnit(graph, part, "residual_layer1"), fused, "");
      } else {
        fused = part;
      }
      fused = doubled(graph, residualUnit(graph, fused, "residual_layer2"), "projection");
      fused = graph.conv(fused, "projection", fusionSize, fusionSize, Windows::square(1));
      results.push_back(fused);
    }
    return results[headIndex < 0 ? int64_t(results.size()) + headIndex : headIndex];
  }

  std::vector<int64_t> kept, neckSizes;
  std::vector<double> factors;
  std::string readout;
  Extent fusionSize = 2;
  int64_t headIndex = -1, layer = 0;
  bool hasNorms = false, hasBias = true, hasProjection = false;
  llvm::SmallVector<Value> states;
};

} // namespace

std::unique_ptr<Architecture> makeDpt(const Config &config, const ImportOptions &) {
  return std::make_unique<Dpt>(config);
}

} // namespace intarsia::importer
