//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_CUMULATE
#define INTARSIA_NN_CUMULATE

include "dialects/Nn/NnOp.td"
include "mlir/Dialect/Vector/IR/VectorAttributes.td"

def Nn_CumulateOp : Nn_SameTypeOp<"cumulate", [RowwiseOpInterface]> {
  let summary = "Prefix sums along the last dimension, and prefixes of other combinations";
  let description = [{
    `result[…, i] = input[…, 0] ∘ … ∘ input[…, i]` along the last dimension, where `∘` is the `kind`: a sum, product,
    minimum, maximum or bitwise op, as `vector.reduction` has them. An `exclusive` result leaves out `input[…, i]`, so
    that its first element is the neutral one: 0 of sums, 1 of products, the least value of maxima, NaN of `minnumf` and
    `maxnumf`. With `reverse` elements are combined from the last one backwards. Floats narrower than 32 bits are
    combined in f32 and rounded once for each element; the order in which floats are added is not defined. It is
    `cumsum`, `cumprod` of PyTorch, NumPy and ONNX (operator `CumSum`, version 14), and the values of `cummax`, `cummin`.

    Rejected: a scalar, floats with a kind of integers, integers with a kind of floats.

    ```mlir
    %y = nn.cumulate <add>, %x {exclusive} : tensor<4x?xf32>
    ```
  }];
  let arguments = (ins RankedTensorOf<[F64, F32, BF16, F16, AnySignlessInteger]>:$input, Vector_CombiningKindAttr:$kind,
                       UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs RankedTensorOf<[F64, F32, BF16, F16, AnySignlessInteger]>:$result);
  let assemblyFormat = "$kind `,` $input attr-dict `:` type($input)";
}

#endif
