//===- SimulatedModel.h - A model that computes nothing -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_SIMULATEDMODEL_H
#define INTARSIA_RUNTIME_ENGINE_SIMULATEDMODEL_H

#include "intarsia/engine.h"
#include "lib/Runtime/Cache/Cache.h"

namespace intarsia::runtime {

/// Makes the cache of a model whose steps take some time, and whose logits follow from a seed, the last token and its
/// position alone. See itx_mock_options.
Status createSimulatedCache(const itx_mock_options &mock, const Cache::Options &options, std::shared_ptr<Cache> &cache);

} // namespace intarsia::runtime

#endif
