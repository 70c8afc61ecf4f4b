//===- Encoder.cpp - Models that are called once for their whole input ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Encoder.h"

namespace intarsia::importer {

void Encoder::build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) {
  graph.beginFunction("main", inputs(graph));
  mlir::Value hidden;
  {
    GraphBuilder::Scope scope(graph, base);
    hidden = encode(graph);
    if (modelClass.head == Head::Base && !graph.sink().any()) {
      graph.output(hidden, "last_hidden_state", {"batch", sequence(), features()});
      baseOutputs(graph, hidden);
    }
  }
  if (modelClass.head != Head::Base && !graph.sink().any())
    headOutputs(graph, hidden, modelClass.head, base);
  graph.endFunction(sizeLimits(), metadata(graph.getBuilder()));
}

} // namespace intarsia::importer
