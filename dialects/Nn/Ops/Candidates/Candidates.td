//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_CANDIDATES
#define INTARSIA_NN_CANDIDATES

include "dialects/Nn/NnOp.td"

def Nn_CandidatesOp : Nn_TensorOp<"candidates", "Candidates"> {
  let summary = "The largest logits of each row, and the denominators of its softmax";
  let description = [{
    `tokens[r, :]` are the indices of the `count` largest of `logits[r, :]`, the largest first; of equal ones the lower
    number comes first, and NaN counts as larger than any number. `values[r, k] = logits[r, tokens[r, k]]`.
    `sums[r, j] = sum_i exp((logits[r, i] - values[r, 0]) / temperatures[r, j])`: the denominator of the softmax at a
    temperature, so that the token `tokens[r, k]` has the probability
    `exp((values[r, k] - values[r, 0]) / temperatures[r, j]) / sums[r, j]`. A row whose logits are all -inf has sums of
    zero, one with a NaN or +inf has NaN.

    logits `[rows, vocabulary]`, temperatures `[rows, temperatures]`, values and tokens `[rows, count]`, sums
    `[rows, temperatures]`. Rejected: a `count` below 1, above the vocabulary or above 64 (kernels keep the largest in
    registers), a vocabulary or a number of temperatures that is not static, more than 4 temperatures.

    ```mlir
    %values, %tokens, %sums = nn.candidates %logits, %temperatures {count = 64 : i64} : (tensor<?x32000xf32>, tensor<?x2xf32>) -> (tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>)
    ```
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$logits, RankedTensorOf<[F32]>:$temperatures, I64Attr:$count);
  let results = (outs RankedTensorOf<[F32]>:$values, RankedTensorOf<[I32]>:$tokens, RankedTensorOf<[F32]>:$sums);
  let assemblyFormat = "$logits `,` $temperatures attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = rootDeclaration # [{
    /// The most candidates and temperatures of a row.
    static constexpr int64_t largestCount = 64, mostTemperatures = 4;

    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
  }];
}

#endif
