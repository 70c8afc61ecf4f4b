//===- shape.cpp - Fuzz the reader of config.json as a shape ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ModelShape.h"
#include <cmath>

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), bytes);
  llvm::Expected<ModelShape> shape = ModelShape::parse(text, "fuzz");
  if (!shape) {
    if (llvm::toString(shape.takeError()).empty())
      __builtin_trap();
    return 0;
  }
  // A parsed shape gives finite figures for all sizes.
  int layers = 0;
  for (const AttentionLayers &group : shape->attention)
    layers += group.layers;
  if (layers != shape->layers || shape->denseLayers + shape->expertLayers != shape->layers)
    __builtin_trap();
  for (double number : {shape->parameters(), shape->activeParameters(), shape->decodeFlops(1e5),
                        shape->prefillFlops(1e5), shape->cachedElements(1e5), shape->expertsTouched(64, 0.5)})
    if (!std::isfinite(number) || number < 0)
      __builtin_trap();
  return 0;
}
