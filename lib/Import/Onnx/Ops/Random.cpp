//===- Random.cpp - Random numbers, which are refused -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {
namespace {

/// The standard says no generator, so that not even a seed decides the numbers.
void random(NodeContext &node) {
  node.refuse("draws random numbers, and the results of a compiled function depend on its inputs alone; make them an "
              "input of the model");
}

} // namespace

llvm::ArrayRef<OpRow> randomOps() {
  static const OpRow rows[] = {
      {"", "Bernoulli", 15, random, Takes::Numbers, /*inSingle=*/false, /*isRefused=*/true},
      {"", "Multinomial", 7, random, Takes::Numbers, /*inSingle=*/false, /*isRefused=*/true},
      {"", "RandomNormal", 1, random, Takes::Numbers, /*inSingle=*/false, /*isRefused=*/true},
      {"", "RandomNormalLike", 1, random, Takes::Numbers, /*inSingle=*/false, /*isRefused=*/true},
      {"", "RandomUniform", 1, random, Takes::Numbers, /*inSingle=*/false, /*isRefused=*/true},
      {"", "RandomUniformLike", 1, random, Takes::Numbers, /*inSingle=*/false, /*isRefused=*/true},
  };
  return rows;
}

} // namespace intarsia::onnx
