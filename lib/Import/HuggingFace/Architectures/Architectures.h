//===- Architectures.h - The makers that the registry lists ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_ARCHITECTURES_H
#define INTARSIA_IMPORT_HUGGINGFACE_ARCHITECTURES_H

#include "lib/Import/HuggingFace/Registry.h"

namespace intarsia::importer {

std::unique_ptr<Architecture> makeAutoencoderKl(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeBert(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeBitNet(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeConvNext(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeDistilBert(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeDpt(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeEfficientNet(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeGemma2(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeGemma3(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeGemma3Text(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeGpt2(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeGptOss(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeLlama(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeMistral(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeMixtral(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeMobileNetV1(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeMobileNetV2(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeMobileViT(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makePhi3(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeQwen2(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeQwen3(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeQwen3Moe(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeRegNet(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeResNet(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeRoberta(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeSegformer(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeSwin(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeTimmWrapper(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeUNet2DCondition(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeViT(const Config &config, const ImportOptions &options);
std::unique_ptr<Architecture> makeXlmRoberta(const Config &config, const ImportOptions &options);

} // namespace intarsia::importer

#endif
