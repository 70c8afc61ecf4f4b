//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_DIALECT
#define INTARSIA_NN_DIALECT

include "mlir/IR/OpBase.td"

def Nn_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::intarsia::nn";
  let summary = "Tensor ops whose name matters to a decision";
  let description = [{
    An op of this dialect exists where the structure that it keeps is needed to decide on fusion, precision,
    partition or placement. Everything else is upstream `linalg`, `tensor`, `arith` and `math`.

    Shapes are written as lists of names: `[batch, sequence, features]`. Data is f32, bf16 or f16; sums, means and
    exponentials are computed in f32 at least. The reference computes them in f64 and rounds an op's result once.

    Attributes on modules:

    - `nn.files = ["tokenizer.json"]`: files beside the weights that the artifact carries, for programs that make text,
      below the model's directory as those of `nn.archive` are.
      Of a GGUF file that is what its metadata say about the tokenizer, as the JSON file `tokenizer.gguf.json`.

    Attributes on functions:

    - `nn.size_limits = {sequence = 512}`: the largest value of a size; a call with more is refused.
    - `nn.empty_sizes = ["past"]`: sizes that may be 0 in a call; others are at least 1.
    - `nn.expected_sizes = {batch = 8}`: what the cost model reckons with when it decides. Any other size works too.
    - `nn.page_tokens = 32`: tokens of a page in all caches of the function. Lowering writes it.
    - `nn.metadata = {…}`: a dictionary that the manifest keeps.
    - `nn.decisions = […]`: what the fuse phase decided so far, a dictionary for each decision; its last pass takes it away.
    - `nn.outlined_from = @main`: the body of control flow in a function, which the fuse phase holds as a function of its own.

    On an `nn.quantize` with `unit_scale`:

    - `nn.replaces_input`: what else reads its input may read the integers in its place, multiplied by the factors of
      features, so that only they are stored.

    Attributes on arguments and results of functions:

    - `nn.name = "input_ids"`: the user's name.
    - `nn.sizes = ["batch", ""]`: a name for each dynamic dimension, `""` for static ones. Equal names are equal sizes. A
      dynamic dimension of an argument that has none gets `arg<argument>.<dimension>`. What results are named is checked
      to be so.

    On arguments only:

    - `nn.range = array<i64: low, high>`: values allowed in an integer input, high excluded; a call with others is refused.
    - `nn.below = [32 : i64, "pages"]`: values of an integer input are less than 32 times the size `pages`. Lowering writes
      it for inputs that point into tensors of a dynamic size.
    - `nn.default = 1`: an integer that stands in for each element of an input that the caller leaves out. It is in the
      range, if there is one.
    - `nn.unsigned`: callers pass integers without a sign, whose bits the function computes with.
    - `nn.state`: the call updates the input in place. On a result `nn.state = 5` says that it is argument 5 in its last
      state, without memory of its own.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

#endif
