//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_EXPERTS
#define INTARSIA_NN_EXPERTS

include "dialects/Nn/NnOp.td"

// Mixture of experts (arXiv 1701.06538): each token goes through some of many feed-forward layers.

def Nn_RouteOp : Nn_TensorOp<"route", "Route"> {
  let summary = "The experts of each token and their weights";
  let description = [{
    `indices[t, :]` are the indices of the `top_k` largest of `logits[t, :]`, the largest first; of equal ones the lower
    number comes first, and NaN counts as larger than any number. `weights[t, k] = softmax(logits[t, :])[indices[t, k]]`;
    with `normalize` they are divided by their sum, which is the softmax of the chosen logits alone. The softmax is as
    nn.softmax: a token whose logits are all -inf has weights of zero, one with a NaN has NaN.

    logits `[tokens, experts]`, indices and weights `[tokens, top_k]`. Rejected: `top_k` below 1 or above the number of
    experts, a number of experts that is not static.

    ```mlir
    %indices, %weights = nn.route %logits {normalize, top_k = 2 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$logits, I64Attr:$top_k, UnitAttr:$normalize);
  let results = (outs RankedTensorOf<[I32]>:$indices, RankedTensorOf<[F32]>:$weights);
  let assemblyFormat = "$logits attr-dict `:` functional-type(operands, results)";
}

def Nn_ExpertsOp : Nn_TensorOp<"experts", "Experts", [AttrSizedOperandSegments,
                                        DeclareOpInterfaceMethods<ContractionOpInterface, ["getLeftRead"]>,
                                        DeclareOpInterfaceMethods<StoredOperandOpInterface>,
                                        DeclareOpInterfaceMethods<RowInputOpInterface>]> {
  let summary = "Gated feed-forward layers, some of many for each token";
  let description = [{
    `result[t, :] = sum_k weights[t, k] * (down[e] h_e(input[t, :]) + down_bias[e])` with `e = indices[t, k]` and
    `h_e(x) = activation(gate_up[e, 0] x + gate_up_bias[e, 0], gate_up[e, 1] x + gate_up_bias[e, 1])`. Activations of a
    gate `g` and `u`:
    - `silu`: `silu(g) * u` (arXiv 2002.05202, equation 6);
    - `clamped_swiglu`: `(u' + 1) * g' * sigmoid(alpha * g')`, `g' = min(g, limit)`, `u' = min(max(u, -limit), limit)`,
      NaN where g or u is NaN. `alpha` and `limit` are not read by other activations.

    input `[tokens, hidden]`, indices and weights `[tokens, top_k]`, gate_up `[experts, 2, intermediate, hidden]`,
    gate_up_bias `[experts, 2, intermediate]`, down `[experts, hidden, intermediate]`, down_bias `[experts, hidden]`,
    result `[tokens, hidden]`. Computed in f32 at least, whatever weights and biases are stored as. An index of -1 chooses
    no expert and adds nothing; another one outside of the experts makes its token NaN. The result of a token does not
    depend on those beside it: contributions are summed in the order of the experts' indices. With `intermediate_format`
    a row `h_e(x)` is quantized to that format, as by nn.quantize, before `down` multiplies it. With a `precision` a device
    may round weights and the rows that they multiply to that type, as for nn.linear. Rejected: sizes of weights that are
    not static, a limit that is not positive, an `intermediate_format` along another axis than 1 or with a scale for the
    whole tensor, a `precision` that nn.linear does not have.

    ```mlir
    %y = nn.experts %x, %indices, %weights, %gate_up, %down {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>,
        tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xbf16>, tensor<8x64x128xbf16>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$input, Nn_IntegerTensor:$indices, RankedTensorOf<[F32]>:$weights,
                       Nn_FloatTensor:$gate_up, Nn_FloatTensor:$down, Optional<Nn_FloatTensor>:$gate_up_bias,
                       Optional<Nn_FloatTensor>:$down_bias, Nn_GatedActivationAttr:$activation,
                       DefaultValuedAttr<F32Attr, "1.702f">:$alpha, DefaultValuedAttr<F32Attr, "7.0f">:$limit,
                       OptionalAttr<Nn_BlockFormatAttr>:$intermediate_format, OptionalAttr<TypeAttr>:$precision);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $input `,` $indices `,` $weights `,` $gate_up `,` $down (`gate_up_bias` $gate_up_bias^)? (`down_bias` $down_bias^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif
