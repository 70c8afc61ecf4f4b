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

/// The paged caches of all layers, in the type of `--kv=`. They are state of the function that is built.
///
///   f32, f16, bf16, fp8   cache.N.keys, cache.N.values: elements, fp8 as bit patterns of E4M3
///   int8, int4            the same, quantized; cache.N.key_parameters, cache.N.value_parameters: scales, zero points;
///                         cache.N.key_tail [sequences, …], f16: keys of each sequence's last page
class KeyValueCache {
public:
  /// Reports an unknown kind.
  KeyValueCache(llvm::StringRef kind, Errors &errors);

  /// Declares the state of so many layers.
  void declare(llvm::SmallVectorImpl<Input> &inputs, mlir::OpBuilder &builder, int64_t layers, int64_t heads,
               int64_t headDim, Errors &errors);
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
  /// The last three are null in caches that are not quantized.
  struct Layer {
    State keys, values, keyParameters, valueParameters, keyTail;
  };

  std::string kind;
  int64_t codeBits = 0; ///< bits of a quantized value; 0: not quantized
  std::vector<Layer> layers;
  std::vector<State *> states; ///< states of all layers, in the order of inputs and results
};

} // namespace intarsia::importer

#endif
