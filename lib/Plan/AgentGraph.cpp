//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/AgentGraph.h"

using namespace intarsia;
using namespace intarsia::workflow;

const char *workflow::nameOf(Unit unit) {
  constexpr const char *names[] = {"tokens", "pixels", "seconds", "bytes", "vectors"};
  return names[static_cast<int>(unit)];
}

const char *workflow::nameOf(Kind kind) {
  constexpr const char *names[] = {"prefill", "decode", "encode",  "embed", "search",
                                   "infer",   "invoke", "compute", "read",  "write"};
  return names[static_cast<int>(kind)];
}

const char *workflow::nameOf(Flow flow) {
  constexpr const char *names[] = {"text", "image", "audio", "video", "data", "vector", "features", "kv"};
  return names[static_cast<int>(flow)];
}
