//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The two counts of a decoder's work against each other: ModelShape, from its config.json alone, and CostOpInterface,
// summed over the ops of the function that the importer makes of the same folder. Equal are, exactly:
//
//   matmuls with weights, the head and the experts: flops, and bytes of the weights
//   scores and mixing of attention: flops, but for 5 a score (scale and softmax), which the shape leaves out
//   elements of all matrices; bytes a token adds to the cache
//
// The shape leaves out what grows with neither: biases (gpt-oss has some beside each expert's matrices), scales of
// norms, and the ops of `uncounted`. The interface
// counts all slots of a sequence's pages as seen: causality and windows are in the data.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Cost/Cost.h"
#include "intarsia/Cost/ModelShape.h"
#include "intarsia/Import/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "test/unit/Checked.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace intarsia;

namespace {

constexpr int64_t tokens = 3, outputs = 2, pagesOfASequence = 5, tokensOfAPage = 32;

struct Counts {
  double headFlops = 0, linearFlops = 0, expertFlops = 0, attentionFlops = 0, scores = 0;
  double headBytes = 0, linearBytes = 0, expertBytes = 0;
  double matrixElements = 0, vectorElements = 0;
  double bytesOfNumber = 0; ///< as stored
  double cacheBytesPerToken = 0, context = 0;
  int attentions = 0;
  std::set<std::string> uncounted;
};

class DecoderWork : public testing::TestWithParam<const char *> {
protected:
  std::string folder() const { return std::string(INTARSIA_SOURCE_DIR "/test/EndToEnd/decoders/") + GetParam(); }

  ModelShape shape() const {
    auto file = llvm::MemoryBuffer::getFile(folder() + "/config.json");
    EXPECT_TRUE(bool(file)) << folder();
    llvm::Expected<ModelShape> shape = ModelShape::parse((*file)->getBuffer(), GetParam());
    if (!shape) {
      ADD_FAILURE() << llvm::toString(shape.takeError());
      return {};
    }
    return *shape;
  }

  Counts counted(const ModelShape &shape) {
    Counts counts;
    MLIRContext context;
    importer::ImportOptions options;
    llvm::SourceMgr sources;
    std::string path = folder();
    llvm::Expected<const importer::Importer *> importer = importer::findImporter(path);
    EXPECT_TRUE(bool(importer)) << path;
    OwningOpRef<ModuleOp> module = checked((*importer)->import({path, options, &context, sources}));
    if (!module)
      return counts;
    auto function = module->lookupSymbol<func::FuncOp>("step");
    Builder builder(&context);
    auto size = [&](StringRef name, int64_t value) {
      return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
    };
    function->setAttr("nn.expected_sizes",
                      builder.getDictionaryAttr({size("outputs", outputs), size("pages", 7), size("sequences", 1),
                                                 size("pages_of_a_sequence", pagesOfASequence), size("tokens", tokens),
                                                 size("tokens_of_a_page", tokensOfAPage)}));
    WorkModel model(function);
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), "nn.state")) {
        auto type = cast<RankedTensorType>(argument.getType()); // [pages, heads, tokens of a page, features]
        addCache(counts, type);
      }
    llvm::StringSet<> known;
    function.walk([&](Operation *op) { add(op, model, shape, known, counts); });
    return counts;
  }

private:
  static void addCache(Counts &counts, RankedTensorType type) {
    counts.cacheBytesPerToken += double(type.getDimSize(1) * type.getDimSize(3)) * type.getElementTypeBitWidth() / 8;
    counts.context = double(pagesOfASequence * tokensOfAPage);
  }

  static void add(Operation *op, const WorkModel &model, const ModelShape &shape, llvm::StringSet<> &known,
                  Counts &counts) {
    if (auto weight = dyn_cast<nn::WeightOp>(op)) {
      if (known.insert(weight.getKey()).second)
        (weight.getType().getRank() > 1 ? counts.matrixElements : counts.vectorElements) +=
            double(weight.getType().getNumElements());
      return;
    }
    KernelWork work = model.work(KernelRoot::Generic, {op});
    if (auto linear = dyn_cast<nn::LinearOp>(op)) {
      counts.bytesOfNumber = cast<RankedTensorType>(linear.getWeight().getType()).getElementTypeBitWidth() / 8;
      bool isHead = linear.getType().getShape().back() == shape.vocabulary;
      double bias = linear.getBias() ? double(model.elements(linear.getResult())) : 0;
      (isHead ? counts.headFlops : counts.linearFlops) += work.flops - bias;
      (isHead ? counts.headBytes : counts.linearBytes) +=
          work.weightBytes - (linear.getBias() ? model.bytes(linear.getBias()) : 0);
    } else if (auto experts = dyn_cast<nn::ExpertsOp>(op)) {
      counts.expertFlops += work.flops;
      counts.expertBytes += work.weightBytes;
      for (Value bias : {experts.getGateUpBias(), experts.getDownBias()})
        if (bias) {
          counts.expertBytes -= model.bytes(bias);
          counts.matrixElements -= double(model.elements(bias)); // [experts, features]
          counts.vectorElements += double(model.elements(bias));
        }
    } else if (isa<nn::CachedAttentionOp>(op)) {
      counts.attentionFlops += work.flops;
      counts.scores += work.transcendentals; // an exponential function a score
      ++counts.attentions;
    } else if (work.flops > 0 || work.transcendentals > 0) {
      counts.uncounted.insert(op->getName().getStringRef().str());
    }
  }
};

/// Flops of attention of `tokens` tokens that see `context` each, without windows.
double scoreFlops(const ModelShape &shape, double context, double &scores) {
  double flops = 0;
  for (AttentionLayers layers : shape.attention) {
    layers.window = 0;
    flops += double(layers.layers) * tokens * layers.scoreFlops(layers.visible(context), false);
    scores += double(layers.layers) * tokens * layers.heads * context;
  }
  return flops;
}

TEST_P(DecoderWork, IsCountedEqually) {
  ModelShape shape = this->shape();
  Counts counts = counted(shape);
  ASSERT_EQ(counts.attentions, shape.layers);
  EXPECT_GT(counts.linearFlops, 0);
  EXPECT_TRUE(counts.bytesOfNumber == 2 || counts.bytesOfNumber == 4);
  double experts = shape.expertParameters() * shape.expertsPerToken * shape.expertLayers;
  EXPECT_EQ(counts.linearFlops, 2 * (shape.multipliedParameters() - experts) * tokens);
  EXPECT_EQ(counts.expertFlops, 2 * experts * tokens);
  EXPECT_EQ(counts.headFlops, 2 * shape.headParameters() * outputs);
  EXPECT_EQ(counts.linearBytes, (shape.attentionParameters() + shape.denseParameters()) * counts.bytesOfNumber);
  EXPECT_EQ(counts.expertBytes, shape.allExpertParameters() * counts.bytesOfNumber);
  EXPECT_EQ(counts.headBytes, shape.headParameters() * counts.bytesOfNumber);
  EXPECT_EQ(counts.matrixElements, shape.parameters());
  if (StringRef(GetParam()) == "llama") // two norms a layer, one at the end
    EXPECT_EQ(counts.vectorElements, (2 * shape.layers + 1) * shape.hidden);
  EXPECT_EQ(counts.cacheBytesPerToken, shape.cacheBytesPerToken(4)); // importers keep full precision
  double scores = 0, flops = scoreFlops(shape, counts.context, scores);
  EXPECT_EQ(counts.scores, scores);
  EXPECT_EQ(counts.attentionFlops, flops + 5 * scores);
  for (const std::string &name : counts.uncounted)
    EXPECT_TRUE(
        llvm::is_contained({"nn.rms_norm", "nn.layer_norm", "nn.rope", "nn.silu", "nn.gelu", "nn.route", "arith.extf",
                            "arith.mulf", "arith.addf", "math.tanh", "tensor.cast", "linalg.generic"},
                           name))
        << name;
}

/// One token after `context` others: the planner's decode step.
TEST_P(DecoderWork, OfAStepAddsUp) {
  ModelShape shape = this->shape();
  Counts counts = counted(shape);
  double scores = 0, flops = scoreFlops(shape, counts.context, scores);
  double ofStep = (counts.linearFlops + counts.expertFlops + counts.attentionFlops - 5 * scores) / tokens +
                  counts.headFlops / outputs;
  for (AttentionLayers &layers : shape.attention)
    layers.window = 0;
  EXPECT_EQ(ofStep, shape.decodeFlops(counts.context));
  EXPECT_GT(flops, 0);
}

INSTANTIATE_TEST_SUITE_P(Decoders, DecoderWork,
                         testing::Values("llama", "llama-tied-bf16", "mistral", "phi3", "qwen2", "qwen3",
                                         "qwen3-window", "gemma2", "gemma3", "gemma3-text-bf16", "mixtral",
                                         "qwen3-moe-bf16", "gpt-oss", "gpt-oss-bf16"),
                         [](const testing::TestParamInfo<const char *> &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
