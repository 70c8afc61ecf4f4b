//===- Registry.cpp - Model types and their architectures --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Registry.h"

#include "lib/Import/HuggingFace/Architectures/Architectures.h"

namespace intarsia::importer {

llvm::ArrayRef<RegisteredArchitecture> registeredArchitectures() {
  static const RegisteredArchitecture table[] = {
      {"AutoencoderKL", makeAutoencoderKl},
      {"UNet2DConditionModel", makeUNet2DCondition},
      {"bert", makeBert},
      {"bitnet", makeBitNet},
      {"convnext", makeConvNext},
      {"distilbert", makeDistilBert},
      {"dpt", makeDpt},
      {"efficientnet", makeEfficientNet},
      {"gemma2", makeGemma2},
      {"gemma3", makeGemma3},
      {"gemma3_text", makeGemma3Text},
      {"gpt2", makeGpt2},
      {"gpt_oss", makeGptOss},
      {"llama", makeLlama},
      {"mistral", makeMistral},
      {"mixtral", makeMixtral},
      {"mobilenet_v1", makeMobileNetV1},
      {"mobilenet_v2", makeMobileNetV2},
      {"mobilevit", makeMobileViT},
      {"phi3", makePhi3},
      {"qwen2", makeQwen2},
      {"qwen3", makeQwen3},
      {"qwen3_moe", makeQwen3Moe},
      {"regnet", makeRegNet},
      {"resnet", makeResNet},
      {"roberta", makeRoberta},
      {"segformer", makeSegformer},
      {"swin", makeSwin},
      {"timm_wrapper", makeTimmWrapper},
      {"vit", makeViT},
      {"xlm-roberta", makeXlmRoberta},
  };
  return table;
}

std::vector<std::string> knownModelTypes() {
  std::vector<std::string> result;
  for (const RegisteredArchitecture &architecture : registeredArchitectures())
    result.push_back(architecture.modelType.str());
  return result;
}

llvm::SmallVector<std::string> readLabels(const Config &config) {
  llvm::SmallVector<std::string> labels;
  const llvm::json::Value *value = config.find("id2label");
  // Directories of timm have names alone, or say how many there are.
  if (!value && config.has("label_names"))
    return config.strings("label_names");
  if (!value) {
    int64_t count = config.integer(config.spelling("num_labels", "num_classes"), 2, 1, 1 << 20);
    for (int64_t i = 0; i < count; ++i)
      labels.push_back("LABEL_" + std::to_string(i));
    return labels;
  }
  const llvm::json::Object *object = value->getAsObject();
  labels.resize(object ? object->size() : 0);
  bool valid = object && !object->empty();
  if (object)
    for (const auto &[key, label] : *object) {
      unsigned id = 0;
      // Python writes numeric labels as numbers.
      std::optional<llvm::StringRef> text = label.getAsString();
      std::optional<int64_t> number = label.getAsInteger();
      if (llvm::StringRef(key).getAsInteger(10, id) || id >= labels.size() || (!text && !number)) {
        valid = false;
        break;
      }
      labels[id] = text ? text->str() : std::to_string(*number);
    }
  if (!valid)
    config.report("id2label is not a map from the ids 0, 1, … to labels");
  if (labels.empty())
    labels.push_back("LABEL_0");
  return labels;
}

void refuseCommonSettings(const Config &config, QuantizedWeights quantized) {
  config.refuseIfSet("is_decoder", "only encoders are imported; export the model with is_decoder=False");
  config.refuseIfSet("is_encoder_decoder", "encoders and decoders are imported, not both in one model");
  config.refuseIfSet("add_cross_attention", "encoders and decoders are imported, not both in one model");
  config.refuseIfSet("pruned_heads", "save the model with its heads merged");
  config.refuseIfSet("compression_config", "save the model with its setting quantization_config, as newer versions of "
                                           "compressed-tensors do");
  if (quantized == QuantizedWeights::Checkpoints)
    return;
  std::optional<Config> settings = config.section("quantization_config");
  if (!settings || quantized == QuantizedWeights::None || settings->string("quant_method", "") != "mxfp4")
    config.refuseIfSet("quantization_config", "the weights have to be F32, BF16 or F16");
}

} // namespace intarsia::importer
