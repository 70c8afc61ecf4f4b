//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_NORMS
#define INTARSIA_NN_NORMS

include "dialects/Nn/NnOp.td"

/// Scales and shifts rows by their mean and deviation: operands are the input, the scale and perhaps a bias.
class Nn_NormOp<string mnemonic> : Nn_TensorOp<mnemonic, "Rows", [
    DeclareOpInterfaceMethods<NormOpInterface>, DeclareOpInterfaceMethods<StoredOperandOpInterface>]> {
  let results = (outs Nn_FloatTensor:$result);
}

def Nn_LayerNormOp : Nn_NormOp<"layer_norm"> {
  let summary = "Layer normalisation over the last dimension";
  let description = [{
    `result = (input - mean) / sqrt(variance + epsilon) * scale (+ bias)`, mean and (biased) variance over the last
    dimension (arXiv 1607.06450, equation 4). scale and bias are `[features]`, of the input's element type or narrower.

    ```mlir
    %n = nn.layer_norm %x, %g, %b {epsilon = 1.0e-12 : f32} : (tensor<?x?x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$scale, Optional<Nn_FloatTensor>:$bias, F32Attr:$epsilon);
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$input `,` $scale (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
}

def Nn_RmsNormOp : Nn_NormOp<"rms_norm"> {
  let summary = "Root-mean-square normalisation over the last dimension";
  let description = [{
    `result = input / sqrt(mean(input^2) + epsilon) * scale` (arXiv 1910.07467, equation 4); scale is `[features]`,
    of the input's element type or narrower.

    ```mlir
    %n = nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$scale, F32Attr:$epsilon);
  let assemblyFormat = "$input `,` $scale attr-dict `:` functional-type(operands, results)";
}

def Nn_GroupNormOp : Nn_NormOp<"group_norm"> {
  let summary = "Normalisation of each group of the last dimension";
  let description = [{
    `result[…, c] = (input[…, c] - mean[…, g]) / sqrt(variance[…, g] + epsilon) * scale[c] (+ bias[c])`, with
    `g = c / (features / groups)`; mean and (biased) variance over the `features / groups` neighbours of a row that are
    in group `g`: PyTorch's `group_norm` of `[N, C]` (arXiv 1803.08494, section 3.1, for an input without positions), and
    the norm of each head's result in retention (arXiv 2307.08621, section 2.3). scale and bias are `[features]`, of the
    input's element type or narrower. Rejected: a number of features that is dynamic or no multiple of `groups`. The op
    cannot say a norm whose statistics go over several rows, as those over the positions of an image do.

    ```mlir
    %n = nn.group_norm %x, %g, %b {epsilon = 1.0e-5 : f32, groups = 4 : i64} : (tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$scale, Optional<Nn_FloatTensor>:$bias, F32Attr:$epsilon,
                       ConfinedAttr<I64Attr, [IntPositive]>:$groups);
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$input `,` $scale (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
}

#endif
