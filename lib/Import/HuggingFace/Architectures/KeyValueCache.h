//===- KeyValueCache.h - State that attention of a decoder reads --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_KEYVALUECACHE_H
#define INTARSIA_IMPORT_HUGGINGFACE_KEYVALUECACHE_H

#include "lib/Import/HuggingFace/GraphBuilder.h"

namespace intarsia::importer {

/// The paged caches of all layers, state of the function that is built: cache.N.keys and cache.N.values, in full
/// precision, f32 [pages, heads, tokens_of_a_page, head_dim]. The quantize phase decides their elements, the partition
/// phase their pages.
class KeyValueCache {
public:
  /// Declares the state of so many layers.
  void declare(llvm::SmallVectorImpl<Input> &inputs, mlir::OpBuilder &builder, int64_t layers, int64_t heads,
               int64_t headDim);
  /// Takes the declared inputs of the function that has begun.
  void begin(GraphBuilder &graph);
  /// Makes the state after the last op results of the function.
  void end(GraphBuilder &graph);

  /// Appends rows of new keys and values [tokens, heads, head_dim] to the caches of a layer, and attends. `window` of
  /// 0: no window; `softCap` of 0: no cap on scores; `sinks` may be null.
  mlir::Value attend(GraphBuilder &graph, mlir::Value query, mlir::Value key, mlir::Value value, int64_t layer,
                     double scale, int64_t window = 0, double softCap = 0.0, mlir::Value sinks = {});

private:
  struct State {
    std::string name;
    mlir::Value value; ///< the current value
  };
  struct Layer {
    State keys, values;
  };
  std::vector<Layer> layers;
};

} // namespace intarsia::importer

#endif
