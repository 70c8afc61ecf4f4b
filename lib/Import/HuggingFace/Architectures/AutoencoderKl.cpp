//===- AutoencoderKl.cpp - The autoencoder of latent diffusion ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The variational autoencoder of latent diffusion models, arXiv 2112.10752, as diffusers has it: the function `decode`
// makes images of latents, `encode` makes mean and logarithm of the variance of latents of images. Latents are those of
// the network: pipelines divide them by `scaling_factor` before, and multiply by it after.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/DiffusionBlocks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

class AutoencoderKl : public Architecture {
public:
  explicit AutoencoderKl(const Config &config) : blocks(config) {
    inputs = config.extent("in_channels", 3);
    outputs = config.extent("out_channels", 3);
    latents = config.extent("latent_channels", 4);
    layers = config.extent("layers_per_block", 1);
    hasQuantConv = config.flag("use_quant_conv", true);
    hasPostQuantConv = config.flag("use_post_quant_conv", true);
    hasAttention = config.flag("mid_block_add_attention", true);
    refuseOtherBlocks(config, "down_block_types", blocks.stages(), "DownEncoderBlock2D", {"DownEncoderBlock2D"});
    refuseOtherBlocks(config, "up_block_types", blocks.stages(), "UpDecoderBlock2D", {"UpDecoderBlock2D"});
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"AutoencoderKL", Head::Base}};
    return table;
  }
  llvm::StringRef prefix() const override { return ""; }
  llvm::SmallVector<llvm::StringRef> prefixes() const override { return {}; }
  llvm::StringRef anchor() const override { return "decoder.conv_in.weight"; }
  llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> sizeLimits() const override { return {}; }

  void build(GraphBuilder &graph, const ModelClass &, llvm::StringRef, Metadata metadata) override {
    begin(graph, "decode", "z", latents);
    output(graph, decode(graph, graph.channelsLast(graph.location("z"), graph.input("z"))), "sample");
    graph.endFunction(sizeLimits(), metadata(graph.getBuilder()));
    // Weights of a decoder alone are enough to decode.
    if (graph.sink().any() || !graph.hasWeight("encoder.conv_in.weight"))
      return;
    begin(graph, "encode", "x", inputs);
    encode(graph, graph.channelsLast(graph.location("x"), graph.input("x")));
    graph.endFunction(sizeLimits(), metadata(graph.getBuilder()));
  }

private:
  static constexpr double kEpsilon = 1e-6;

  static void begin(GraphBuilder &graph, llvm::StringRef function, llvm::StringRef name, Extent channels) {
    graph.beginFunction(function,
                        Input{name, graph.getActivationType(), {"batch", channels.size, "height", "width"}, {}, {}});
  }

  static void output(GraphBuilder &graph, Value images, llvm::StringRef name) {
    Location at = graph.location(name);
    images = graph.channelsFirst(at, images);
    graph.output(images, name, graph.shapeOf(at, images));
  }

  Value middle(GraphBuilder &graph, Value images, Extent size) const {
    GraphBuilder::Scope scope(graph, "mid_block");
    images = blocks.residual(graph, images, "resnets.0", size, size, kEpsilon);
    if (hasAttention)
      images = blocks.attention(graph, images, "attentions.0", size, kEpsilon);
    return blocks.residual(graph, images, "resnets.1", size, size, kEpsilon);
  }

  Value residuals(GraphBuilder &graph, Value images, Extent count, Extent size, Extent before) const {
    return graph.layers(images, "resnets.", count, [&](Value input) {
      Value result = blocks.residual(graph, input, "", size, before, kEpsilon);
      before = size;
      return result;
    });
  }

  Value finish(GraphBuilder &graph, Value images, Extent outputs, Extent size) const {
    images = blocks.groupNorm(graph, images, "conv_norm_out", size, kEpsilon);
    images = graph.activation(images, "conv_act", Activation::Silu);
    return blocks.convolution(graph, images, "conv_out", outputs, size);
  }

  Value decode(GraphBuilder &graph, Value images) const {
    if (hasPostQuantConv)
      images = graph.conv(images, "post_quant_conv", latents, latents, Windows::square(1));
    GraphBuilder::Scope scope(graph, "decoder");
    size_t stage = blocks.stages() - 1;
    Extent size = blocks.sizeOf(stage);
    images = middle(graph, blocks.convolution(graph, images, "conv_in", size, latents), size);
    images = graph.layers(images, "up_blocks.", Extent(blocks.stages(), "block_out_channels"), [&](Value input) {
      Extent before = size;
      size = blocks.sizeOf(stage);
      Value result = residuals(graph, input, Extent(layers.size + 1, layers.setting), size, before);
      return stage-- == 0 ? result : blocks.upsample(graph, result, size);
    });
    return finish(graph, images, outputs, size);
  }

  void encode(GraphBuilder &graph, Value images) const {
    Extent moments(2 * latents.size, latents.setting);
    {
      GraphBuilder::Scope scope(graph, "encoder");
      Extent size = blocks.sizeOf(0);
      size_t stage = 0;
      images = blocks.convolution(graph, images, "conv_in", size, inputs);
      images = graph.layers(images, "down_blocks.", Extent(blocks.stages(), "block_out_channels"), [&](Value input) {
        Extent before = size;
        size = blocks.sizeOf(stage);
        Value result = residuals(graph, input, layers, size, before);
        return ++stage == blocks.stages() ? result : blocks.downsample(graph, result, size, /*pad=*/0);
      });
      images = finish(graph, middle(graph, images, size), moments, size);
    }
    if (hasQuantConv)
      images = graph.conv(images, "quant_conv", moments, moments, Windows::square(1));
    Location at = graph.location("latent_dist");
    Shape shape = graph.shapeOf(at, images);
    shape.back() = latents.size;
    auto half = [&](int64_t first) { return graph.part(at, images, {0, 0, 0, first}, shape, shape); };
    output(graph, half(0), "mean");
    // The range is that of DiagonalGaussianDistribution.
    Value clamped = graph.elementOf(at, half(latents.size), [](OpBuilder &b, Location loc, ValueRange values) -> Value {
      Type type = values[0].getType();
      Value most = arith::MinimumFOp::create(b, loc, values[0], floatConstant(b, loc, type, 20));
      return arith::MaximumFOp::create(b, loc, most, floatConstant(b, loc, type, -30));
    });
    output(graph, clamped, "logvar");
  }

  DiffusionBlocks blocks;
  Extent inputs = 3, outputs = 3, latents = 4, layers = 1;
  bool hasQuantConv = true, hasPostQuantConv = true, hasAttention = true;
};

} // namespace

std::unique_ptr<Architecture> makeAutoencoderKl(const Config &config, const ImportOptions &) {
  return std::make_unique<AutoencoderKl>(config);
}

} // namespace intarsia::importer
