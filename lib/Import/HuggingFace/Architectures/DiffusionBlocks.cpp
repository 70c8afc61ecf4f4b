//===- DiffusionBlocks.cpp - What networks of diffusers are made of ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// diffusers/models/resnet.py, upsampling.py, downsampling.py and attention_processor.py.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/DiffusionBlocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::importer {

/// The most stages of a network: images of 2^16 positions a side have no more.
static constexpr size_t kMostStages = 16;

DiffusionBlocks::DiffusionBlocks(const Config &config) {
  channels = config.integers("block_out_channels", {64}, 1, 1 << 16);
  if (channels.size() > kMostStages) {
    config.report("block_out_channels has " + llvm::Twine(channels.size()) + " entries, at most " +
                  llvm::Twine(kMostStages) + " are supported: each stage halves the image");
    channels.resize(kMostStages);
  }
  groups = config.integer("norm_num_groups", 32);
  activation = readActivation(config, "act_fn", "silu");
  for (int64_t size : channels)
    if (size % groups != 0)
      config.report("block_out_channels has " + llvm::Twine(size) + ", which is not a multiple of norm_num_groups " +
                    llvm::Twine(groups));
}

Value DiffusionBlocks::convolution(GraphBuilder &graph, Value images, llvm::StringRef module, Extent outputs,
                                   Extent inputs) const {
  return graph.conv(images, module, outputs, inputs, Windows::square(3, 1, 1));
}

Value DiffusionBlocks::groupNorm(GraphBuilder &graph, Value images, llvm::StringRef module, Extent size,
                                 double epsilon) const {
  Location at = graph.location(module);
  Value scale = graph.weight((module + ".weight").str(), {size}),
        shift = graph.weight((module + ".bias").str(), {size});
  return graph.imageNorm(at, images, graph.shapeOf(at, images), scale, shift, groups, epsilon);
}

Value DiffusionBlocks::residual(GraphBuilder &graph, Value input, const llvm::Twine &module, Extent outputs,
                                Extent inputs, double epsilon, const TimeEmbedding &time) const {
  GraphBuilder::Scope scope(graph, module);
  Value images = activate(graph, groupNorm(graph, input, "norm1", inputs, epsilon), "nonlinearity");
  images = convolution(graph, images, "conv1", outputs, inputs);
  if (time.state) {
    Value shift = graph.linear(time.state, "time_emb_proj", outputs, time.size);
    images = graph.elementwise("time_emb_proj", graph.getActivationType(), graph.shapeOf(graph.location(""), images),
                               {{images, {0, 1, 2, 3}}, {shift, {0, 3}}},
                               [](OpBuilder &builder, Location at, ValueRange values) -> Value {
                                 return arith::AddFOp::create(builder, at, values[0], values[1]);
                               });
  }
  images = activate(graph, groupNorm(graph, images, "norm2", outputs, epsilon), "nonlinearity");
  images = convolution(graph, images, "conv2", outputs, outputs);
  if (inputs.size != outputs.size)
    input = graph.conv(input, "conv_shortcut", outputs, inputs, Windows::square(1));
  return graph.add(images, input, "");
}

Value DiffusionBlocks::attention(GraphBuilder &graph, Value input, const llvm::Twine &module, Extent size,
                                 double epsilon) const {
  GraphBuilder::Scope scope(graph, module);
  Location at = graph.location("");
  Value images = groupNorm(graph, input, "group_norm", size, epsilon);
  Value rows = graph.collapseShape(images, "", {{0}, {1, 2}, {3}});
  // Older checkpoints have other names, which diffusers still reads.
  auto linear = [&](Value value, llvm::StringRef now, llvm::StringRef before) {
    return graph.linear(value, graph.spelling({now, before}, ".weight"), size, size);
  };
  Value query = linear(rows, "to_q", "query"), key = linear(rows, "to_k", "key"), value = linear(rows, "to_v", "value");
  Shape leading{graph.sizeOf(at, rows, 0), graph.sizeOf(at, rows, 1)};
  Value context = graph.attention(query, key, value, Value(), "", leading, /*heads=*/1, size.size);
  context = linear(context, "to_out.0", "proj_attn");
  return graph.add(graph.expandShape(context, "", graph.shapeOf(at, input), {{0}, {1, 2}, {3}}), input, "");
}

Value DiffusionBlocks::upsample(GraphBuilder &graph, Value images, Extent size) const {
  GraphBuilder::Scope scope(graph, "upsamplers.0.conv");
  Location at = graph.location("");
  Size batch = graph.sizeOf(at, images, 0), height = graph.sizeOf(at, images, 1), width = graph.sizeOf(at, images, 2);
  Value weight = graph.weight("weight", {size, size, 3, 3}), bias = graph.weight("bias", {size});
  // Repeating the rows of an image makes pairs of equal rows, so the three weights w0, w1, w2 of a column of the window
  // meet two rows of the image. An even row of the result gets w0 from the row before, and w1 + w2 from its own; an odd
  // one w0 + w1 from its own, and w2 from the next. Columns are alike: four 2 x 2 convolutions replace one of 3 x 3
  // over four times the positions.
  auto at3 = [&](int64_t row, int64_t column) {
    return graph.part(at, weight, {0, 0, row, column}, {size.size, size.size, 1, 1}, {size.size, size.size});
  };
  auto taps = [](int64_t phase, int64_t tap) -> llvm::SmallVector<int64_t, 2> {
    if (phase == 0)
      return tap == 0 ? llvm::SmallVector<int64_t, 2>{0} : llvm::SmallVector<int64_t, 2>{1, 2};
    return tap == 0 ? llvm::SmallVector<int64_t, 2>{0, 1} : llvm::SmallVector<int64_t, 2>{2};
  };
  llvm::SmallVector<Value> rows;
  for (int64_t y : {0, 1}) {
    llvm::SmallVector<Value> columns;
    for (int64_t x : {0, 1}) {
      llvm::SmallVector<Value> parts;
      for (int64_t i : {0, 1})
        for (int64_t j : {0, 1}) {
          Value sum;
          for (int64_t row : taps(y, i))
            for (int64_t column : taps(x, j))
              sum = sum ? graph.add(sum, at3(row, column), "") : at3(row, column);
          parts.push_back(sum);
        }
      Windows windows{{2, 2}, {1, 1}, {1, 1}, {1 - y, 1 - x}, {y, x}};
      Value image = graph.ModuleBuilder::conv(at, images, graph.concat(parts, "", 1), bias, windows);
      columns.push_back(
          graph.expandShape(image, "", {batch, height, 1, width, 1, size.size}, {{0}, {1, 2}, {3, 4}, {5}}));
    }
    rows.push_back(graph.concat(columns, "", 4));
  }
  return graph.collapseShape(graph.concat(rows, "", 2), "", {{0}, {1, 2}, {3, 4}, {5}});
}

Value DiffusionBlocks::downsample(GraphBuilder &graph, Value images, Extent size, int64_t pad) const {
  Windows windows = Windows::square(3, 2, pad);
  if (pad == 0)
    windows.padsHigh = {1, 1};
  return graph.conv(images, "downsamplers.0.conv", size, size, windows);
}

void refuseOtherBlocks(const Config &config, llvm::StringRef setting, size_t stages, llvm::StringRef byDefault,
                       llvm::ArrayRef<llvm::StringRef> supported) {
  llvm::SmallVector<std::string> kinds = config.strings(setting);
  if (kinds.empty())
    kinds.push_back(byDefault.str());
  for (const std::string &kind : kinds)
    if (!llvm::is_contained(supported, kind))
      return config.refuse(setting, kind, supported);
  if (kinds.size() != stages)
    config.report(setting + " has " + llvm::Twine(kinds.size()) + " entries, block_out_channels has " +
                  llvm::Twine(stages) + ": both have one for each stage");
}

} // namespace intarsia::importer
