//===- UNet2DCondition.cpp - The network that removes noise from latents -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The U-Net of latent diffusion models, arXiv 2112.10752, as diffusers has it: residual blocks that are told the time
// step, and attention to the states of a text. It is compiled for latents of `sample_size`.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/DiffusionBlocks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;

namespace intarsia::importer {
namespace {

class UNet2DCondition : public Architecture {
public:
  explicit UNet2DCondition(const Config &config) : blocks(config) {
    std::tie(height, width) = config.integerPair("sample_size", 32);
    inputs = config.extent("in_channels", 4);
    outputs = config.extent("out_channels", 4);
    textSize = config.extent("cross_attention_dim", 1280);
    layers = config.extent("layers_per_block", 2);
    transformerLayers = config.extent("transformer_layers_per_block", 1);
    epsilon = config.number("norm_eps", 1e-5, 0, 1);
    pad = config.integer("downsample_padding", 1, 0, 1);
    cosineFirst = config.flag("flip_sin_to_cos", true);
    frequencyShift = config.integer("freq_shift", 0, 0, 1);
    hasLinears = config.flag("use_linear_projection", false);
    readBlocks(config);
    readHeads(config);
    refuseOthers(config);
    int64_t step = int64_t(1) << (blocks.stages() - 1);
    if (height % step != 0 || width % step != 0)
      config.report("sample_size " + llvm::Twine(height) + " x " + llvm::Twine(width) + " is not a multiple of the " +
                    llvm::Twine(step) + " that the stages reduce it by");
    if (blocks.sizeOf(0).size % 2 != 0)
      config.report("block_out_channels begins with " + llvm::Twine(blocks.sizeOf(0).size) +
                    ", which is not a multiple of 2: a time step is embedded as as many sines as cosines");
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"UNet2DConditionModel", Head::Base}};
    return table;
  }
  llvm::StringRef prefix() const override { return ""; }
  llvm::SmallVector<llvm::StringRef> prefixes() const override { return {}; }
  llvm::StringRef anchor() const override { return "conv_in.weight"; }
  llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> sizeLimits() const override { return {}; }

  void build(GraphBuilder &graph, const ModelClass &, llvm::StringRef, Metadata metadata) override {
    // 16 bits do not hold all time steps, so that they stay floats of 32, as in diffusers.
    Type type = graph.getActivationType(), f32 = graph.getBuilder().getF32Type();
    llvm::SmallVector<Input> arguments = {{"sample", type, {"batch", inputs.size, height, width}, {}, {}},
                                          {"timestep", f32, {"batch"}, {}, {}},
                                          {"encoder_hidden_states", type, {"batch", "tokens", textSize.size}, {}, {}}};
    graph.beginFunction("main", arguments);
    text = graph.input("encoder_hidden_states");
    time = embedTime(graph, graph.input("timestep"));
    Value images = graph.channelsLast(graph.location("sample"), graph.input("sample"));
    images = blocks.convolution(graph, images, "conv_in", blocks.sizeOf(0), inputs);
    images = expand(graph, middle(graph, reduce(graph, images)));
    images = blocks.groupNorm(graph, images, "conv_norm_out", blocks.sizeOf(0), epsilon);
    images = blocks.activate(graph, images, "conv_act");
    images = blocks.convolution(graph, images, "conv_out", outputs, blocks.sizeOf(0));
    graph.output(graph.channelsFirst(graph.location("sample"), images), "sample",
                 {"batch", outputs.size, height, width});
    graph.endFunction(sizeLimits(), metadata(graph.getBuilder()));
  }

private:
  void readBlocks(const Config &config) {
    constexpr llvm::StringLiteral down = "CrossAttnDownBlock2D", up = "CrossAttnUpBlock2D";
    refuseOtherBlocks(config, "down_block_types", blocks.stages(), down, {down, "DownBlock2D"});
    refuseOtherBlocks(config, "up_block_types", blocks.stages(), up, {up, "UpBlock2D"});
    for (llvm::StringRef setting : {"down_block_types", "up_block_types"})
      if (!config.has(setting))
        config.report(setting + " is missing: it says which stages have attention");
    for (const std::string &kind : config.strings("down_block_types"))
      downAttends.push_back(kind == down);
    for (const std::string &kind : config.strings("up_block_types"))
      upAttends.push_back(kind == up);
    downAttends.resize(blocks.stages());
    upAttends.resize(blocks.stages());
    if (std::string kind = config.string("mid_block_type", "UNetMidBlock2DCrossAttn");
        kind != "UNetMidBlock2DCrossAttn")
      config.refuse("mid_block_type", kind, {"UNetMidBlock2DCrossAttn"});
  }

  /// Reads how many heads each stage has, which published files call attention_head_dim.
  void readHeads(const Config &config) {
    llvm::StringRef setting = config.has("num_attention_heads") ? "num_attention_heads" : "attention_head_dim";
    const llvm::json::Value *value = config.find(setting);
    if (value && value->getAsArray())
      heads = config.integers(setting, {8});
    else
      heads.assign(blocks.stages(), config.integer(setting, 8));
    if (heads.size() != blocks.stages()) {
      config.report(setting + " has " + llvm::Twine(heads.size()) + " entries, block_out_channels has " +
                    llvm::Twine(blocks.stages()) + ": both have one for each stage");
      heads.resize(blocks.stages(), 1);
    }
    for (size_t stage = 0; stage < blocks.stages(); ++stage)
      if (blocks.sizeOf(stage).size % heads[stage] != 0)
        config.report("block_out_channels has " + llvm::Twine(blocks.sizeOf(stage).size) +
                      ", which is not a multiple of its " + setting + " " + llvm::Twine(heads[stage]));
  }

  static void refuseOthers(const Config &config) {
    static constexpr llvm::StringLiteral kinds[] = {"class_embed_type",
                                                    "addition_embed_type",
                                                    "num_class_embeds",
                                                    "encoder_hid_dim_type",
                                                    "encoder_hid_dim",
                                                    "time_cond_proj_dim",
                                                    "time_embedding_dim",
                                                    "time_embedding_act_fn",
                                                    "timestep_post_act",
                                                    "only_cross_attention",
                                                    "dual_cross_attention",
                                                    "mid_block_only_cross_attention",
                                                    "cross_attention_norm",
                                                    "center_input_sample",
                                                    "resnet_skip_time_act",
                                                    "class_embeddings_concat",
                                                    "reverse_transformer_layers_per_block"};
    for (llvm::StringRef setting : kinds)
      config.refuseIfSet(setting, "U-Nets are imported that are told the time step and a text, as those of Stable "
                                  "Diffusion 1 and 2");
    static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> names[] = {
        {"resnet_time_scale_shift", "default"}, {"time_embedding_type", "positional"}, {"attention_type", "default"}};
    for (const auto &[setting, supported] : names)
      if (std::string value = config.string(setting, supported); value != supported)
        config.refuse(setting, value, {supported});
    for (llvm::StringRef setting : {"mid_block_scale_factor", "resnet_out_scale_factor"})
      if (config.number(setting, 1, -1e6, 1e6) != 1)
        config.report(setting + " is not supported other than 1");
    for (llvm::StringRef setting : {"conv_in_kernel", "conv_out_kernel"})
      if (config.integer(setting, 3) != 3)
        config.report(setting + " is not supported other than 3");
  }

  /// Embeds time steps [batch] by sines and cosines of their products with falling frequencies, and two linears.
  TimeEmbedding embedTime(GraphBuilder &graph, Value steps) const {
    Extent size = blocks.sizeOf(0), inner(4 * size.size, size.setting);
    Location at = graph.location("time_proj");
    Type element = graph.getActivationType(), f32 = graph.getBuilder().getF32Type();
    int64_t half = size.size / 2;
    if (half <= frequencyShift)
      graph.sink().report("block_out_channels has " + llvm::Twine(size.size) +
                          " at first, which leaves no frequencies with freq_shift " + llvm::Twine(frequencyShift));
    llvm::SmallVector<float> frequencies;
    for (int64_t i = 0; i < half; ++i)
      frequencies.push_back(std::exp(float(-std::log(10000.0)) * float(i) / float(half - frequencyShift)));
    auto type = RankedTensorType::get({half}, f32);
    Value table = arith::ConstantOp::create(graph.getBuilder(), at,
                                            DenseElementsAttr::get(type, llvm::ArrayRef<float>(frequencies)));
    auto wave = [&](bool isCosine) {
      return graph.elementwise("time_proj", element, {"batch", half}, {{steps, {0}}, {table, {1}}},
                               [&](OpBuilder &b, Location loc, ValueRange values) -> Value {
                                 Value angle =
                                     arith::MulFOp::create(b, loc, widened(b, loc, values[0], f32), values[1]);
                                 Value result = isCosine ? math::CosOp::create(b, loc, angle).getResult()
                                                         : math::SinOp::create(b, loc, angle).getResult();
                                 return element == f32 ? result : arith::TruncFOp::create(b, loc, element, result);
                               });
    };
    Value state = graph.concat({wave(cosineFirst), wave(!cosineFirst)}, "time_proj", 1);
    state = blocks.activate(graph, graph.linear(state, "time_embedding.linear_1", inner, size), "time_embedding");
    state = graph.linear(state, "time_embedding.linear_2", inner, inner);
    // Each residual block begins with this activation.
    return {blocks.activate(graph, state, "time_embedding"), inner};
  }

  Value attention(GraphBuilder &graph, Value rows, Value source, llvm::StringRef module, Extent size, Extent sourceSize,
                  int64_t heads) const {
    GraphBuilder::Scope scope(graph, module);
    Location at = graph.location("");
    Value query = graph.linear(rows, "to_q", size, size, /*bias=*/false);
    Value key = graph.linear(source, "to_k", size, sourceSize, /*bias=*/false);
    Value value = graph.linear(source, "to_v", size, sourceSize, /*bias=*/false);
    auto leading = [&](Value tensor) { return Shape{graph.sizeOf(at, tensor, 0), graph.sizeOf(at, tensor, 1)}; };
    Value context = graph.ModuleBuilder::attention(at, query, key, value, Value(), leading(query), leading(key), heads,
                                                   size.size / heads);
    return graph.linear(context, "to_out.0", size, size);
  }

  /// Builds a BasicTransformerBlock: attention to the image, to the text, and a gated feed-forward network.
  Value transformerBlock(GraphBuilder &graph, Value input, Extent size, int64_t heads) const {
    constexpr double normEpsilon = 1e-5;
    Extent inner(4 * size.size, size.setting), both(8 * size.size, size.setting);
    Value rows = graph.layerNorm(input, "norm1", size, normEpsilon);
    input = graph.add(attention(graph, rows, rows, "attn1", size, size, heads), input, "attn1");
    rows = graph.layerNorm(input, "norm2", size, normEpsilon);
    input = graph.add(attention(graph, rows, text, "attn2", size, textSize, heads), input, "attn2");
    rows = graph.layerNorm(input, "norm3", size, normEpsilon);
    rows = graph.linear(rows, "ff.net.0.proj", both, size);
    Location at = graph.location("ff.net.0");
    Shape half{graph.sizeOf(at, rows, 0), graph.sizeOf(at, rows, 1), inner.size};
    Value gate = graph.part(at, rows, {0, 0, inner.size}, half, half);
    gate = graph.activation(gate, "ff.net.0", Activation::GeluErf);
    rows = graph.multiply(graph.part(at, rows, {0, 0, 0}, half, half), gate, "ff.net.0");
    return graph.add(graph.linear(rows, "ff.net.2", size, inner), input, "ff");
  }

  Value transformer(GraphBuilder &graph, Value input, const llvm::Twine &module, Extent size, int64_t heads) const {
    GraphBuilder::Scope scope(graph, module);
    constexpr double normEpsilon = 1e-6;
    Value rows = blocks.groupNorm(graph, input, "norm", size, normEpsilon);
    rows = graph.collapseShape(rows, "", {{0}, {1, 2}, {3}});
    auto project = [&](Value value, llvm::StringRef name) {
      return hasLinears ? graph.linear(value, name, size, size) : graph.pointLinear(value, name, size, size);
    };
    rows = graph.layers(project(rows, "proj_in"), "transformer_blocks.", transformerLayers,
                        [&](Value state) { return transformerBlock(graph, state, size, heads); });
    rows = project(rows, "proj_out");
    Value images = graph.expandShape(rows, "", graph.shapeOf(graph.location(""), input), {{0}, {1, 2}, {3}});
    return graph.add(images, input, "");
  }

  /// Builds the stages that reduce images, and keeps what those that expand them again read.
  Value reduce(GraphBuilder &graph, Value images) {
    Extent before = blocks.sizeOf(0);
    kept.push_back({images, before});
    for (size_t stage = 0; stage < blocks.stages() && !graph.sink().any(); ++stage) {
      GraphBuilder::Scope scope(graph, "down_blocks." + llvm::Twine(stage));
      Extent size = blocks.sizeOf(stage);
      for (int64_t layer = 0; layer < layers.size; ++layer) {
        images = blocks.residual(graph, images, "resnets." + llvm::Twine(layer), size, before, epsilon, time);
        if (downAttends[stage])
          images = transformer(graph, images, "attentions." + llvm::Twine(layer), size, heads[stage]);
        kept.push_back({images, size});
        before = size;
      }
      if (stage + 1 == blocks.stages())
        break;
      images = blocks.downsample(graph, images, size, pad);
      kept.push_back({images, size});
    }
    return images;
  }

  Value middle(GraphBuilder &graph, Value images) const {
    GraphBuilder::Scope scope(graph, "mid_block");
    Extent size = blocks.sizeOf(blocks.stages() - 1);
    images = blocks.residual(graph, images, "resnets.0", size, size, epsilon, time);
    images = transformer(graph, images, "attentions.0", size, heads.back());
    return blocks.residual(graph, images, "resnets.1", size, size, epsilon, time);
  }

  Value expand(GraphBuilder &graph, Value images) {
    Extent before = blocks.sizeOf(blocks.stages() - 1);
    for (size_t number = 0; number < blocks.stages() && !graph.sink().any(); ++number) {
      GraphBuilder::Scope scope(graph, "up_blocks." + llvm::Twine(number));
      size_t stage = blocks.stages() - 1 - number;
      Extent size = blocks.sizeOf(stage);
      for (int64_t layer = 0; layer < layers.size + 1; ++layer) {
        auto [skipped, skippedSize] = kept.pop_back_val();
        std::string module = "resnets." + std::to_string(layer);
        images = graph.concat({images, skipped}, module, 3);
        Extent both(before.size + skippedSize.size, size.setting);
        images = blocks.residual(graph, images, module, size, both, epsilon, time);
        if (upAttends[number])
          images = transformer(graph, images, "attentions." + llvm::Twine(layer), size, heads[stage]);
        before = size;
      }
      if (stage > 0)
        images = blocks.upsample(graph, images, size);
    }
    return images;
  }

  DiffusionBlocks blocks;
  int64_t height = 32, width = 32, pad = 1, frequencyShift = 0;
  Extent inputs = 4, outputs = 4, textSize = 1, layers = 1, transformerLayers = 1;
  double epsilon = 1e-5;
  bool cosineFirst = true, hasLinears = false;
  std::vector<bool> downAttends, upAttends;
  std::vector<int64_t> heads;
  // The function that is being built.
  Value text;
  TimeEmbedding time;
  llvm::SmallVector<std::pair<Value, Extent>> kept;
};

} // namespace

std::unique_ptr<Architecture> makeUNet2DCondition(const Config &config, const ImportOptions &) {
  return std::make_unique<UNet2DCondition>(config);
}

} // namespace intarsia::importer
