//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_RECURRENT
#define INTARSIA_NN_RECURRENT

include "dialects/Nn/NnOp.td"

def Nn_RecurrentActivations : TypedArrayAttrBase<Nn_RecurrentActivationAttr, "activations of a recurrent layer">;

def Nn_RecurrentOp : Nn_TensorOp<"recurrent", "Recurrent", [AttrSizedOperandSegments,
                                     DeclareOpInterfaceMethods<StoredOperandOpInterface>]> {
  let summary = "A recurrent layer: LSTM, GRU or a plain one, in one direction or two";
  let description = [{
    Goes over the positions of a sequence, with a hidden state of `hidden` numbers, and gives the state behind each of
    them. The products of the input are not part of it: `gates` are `W x (+ bias)` of all positions, which nn.linear
    computes at once. With `h` the state before a position, `X_g` the part of `gates` there that belongs to the gate
    `g`, `R_g` and `b_g` the rows of `recurrent` and `bias` (0 if there is none), `P_g` those of `peepholes` (0 too), and
    the activations `s`, `k` and `l`, the state behind it, `h'`, is

    | kind | gates | |
    |---|---|---|
    | `lstm` | i, o, f, c | `i = s(X_i + R_i h + b_i + P_i c)`, `f = s(X_f + R_f h + b_f + P_f c)`, `c' = f * c + i * k(X_c + R_c h + b_c)`, `o = s(X_o + R_o h + b_o + P_o c')`, `h' = o * l(c')`, with a second state `c` |
    | `gru` | z, r, h | `z = s(X_z + R_z h + b_z)`, `r = s(X_r + R_r h + b_r)`, `n = k(X_h + R_h (r * h) + b_h)`, or with `linear_before_reset` `n = k(X_h + r * (R_h h + b_h))`; `h' = (1 - z) * n + z * h` |
    | `rnn` | h | `h' = s(X_h + R_h h + b_h)` |

    With `coupled` gates `f = 1 - i`, and `X_f` is not read. With a `clip` the sums that `s` and `k` are applied to
    are clamped to [-clip, clip] first; `c'` is not, as in ONNX Runtime. `gate_order` has for each gate in the order of
    the table the number of the block of rows that is its own; without it blocks are in that order, which is that of
    ONNX. PyTorch has LSTM as i, f, c, o (`array<i64: 0, 3, 1, 2>`) and GRU as r, z, h (`array<i64: 1, 0, 2>`).

    gates `[batch, sequence, directions * gates * hidden]`, recurrent `[directions * gates * hidden, hidden]`, bias
    `[directions * gates * hidden]`, hidden and cell states `[directions, batch, hidden]`, 0 where they are not given,
    peepholes `[directions * 3 * hidden]`, each direction's in the order i, o, f. The first result is
    `[batch, sequence, directions * hidden]`; then come the states behind the last position,
    `[directions, batch, hidden]`, of the cells only for `lstm`. With `sequence_first` batch and sequence are exchanged in
    gates and the first result. A `reverse` layer goes from the last position to the first one; a `bidirectional` one
    has both directions, the reverse one second. States are computed in f32 at least, and rounded for results only.

    `lengths` `[batch]` are the positions that each sequence has: results behind them are 0, a reverse direction begins
    with the last of them, and final states are those behind the last one. A length below 0 is 0, one beyond the
    sequence is the whole sequence; the final states of an empty sequence are the initial ones.

    `activations` has for each direction s, k and l (`lstm`), s and k (`gru`), or s (`rnn`); without it s is `sigmoid`,
    others are `tanh`, and s of `rnn` is `tanh`. `alphas` and `betas` have a number for each:

    | | of x | | of x |
    |---|---|---|---|
    | `sigmoid` | `1 / (1 + e^-x)` | `leaky_relu` | `x < 0 ? alpha * x : x` |
    | `tanh` | | `thresholded_relu` | `x < alpha ? 0 : x` |
    | `relu` | `max(x, 0)` | `hard_sigmoid` | `min(max(alpha * x + beta, 0), 1)` |
    | `affine` | `alpha * x + beta` | `elu` | `x < 0 ? alpha * (e^x - 1) : x` |
    | `scaled_tanh` | `alpha * tanh(beta * x)` | `softsign` | `x / (1 + abs(x))` |
    | `softplus` | `log(1 + e^x)` | | |

    It is LSTM, GRU and RNN of ONNX (version 22), and those of PyTorch.

    Rejected: sizes of weights that are not static or do not agree, a `gate_order` that is no permutation, another number
    of activations, alphas or betas, a `clip` that is not positive, `coupled` gates, peepholes and cells that are not of
    an `lstm`, `linear_before_reset` that is not of a `gru`.

    ```mlir
    %y, %h, %c = nn.recurrent <lstm>, <bidirectional>, %gates, %r bias %b lengths %n
        : (tensor<?x?x512xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<?xi64>)
        -> (tensor<?x?x128xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>)
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$gates, Nn_FloatTensor:$recurrent, Optional<Nn_FloatTensor>:$bias,
                   Optional<Nn_FloatTensor>:$initial_hidden, Optional<Nn_FloatTensor>:$initial_cell,
                   Optional<Nn_FloatTensor>:$peepholes, Optional<Nn_IntegerTensor>:$lengths,
                   Nn_RecurrentKindAttr:$kind, Nn_DirectionAttr:$direction,
                   OptionalAttr<DenseI64ArrayAttr>:$gate_order, OptionalAttr<Nn_RecurrentActivations>:$activations,
                   OptionalAttr<DenseF32ArrayAttr>:$alphas, OptionalAttr<DenseF32ArrayAttr>:$betas,
                   OptionalAttr<F32Attr>:$clip, UnitAttr:$coupled, UnitAttr:$linear_before_reset,
                   UnitAttr:$sequence_first);
  let results = (outs Nn_FloatTensor:$result, Nn_FloatTensor:$final_hidden, Optional<Nn_FloatTensor>:$final_cell);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $kind `,` $direction `,` $gates `,` $recurrent (`bias` $bias^)? (`hidden` $initial_hidden^)?
    (`cell` $initial_cell^)? (`peepholes` $peepholes^)? (`lengths` $lengths^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    int64_t getHiddenSize() { return getRecurrent().getType().getDimSize(1); }
    int64_t getDirectionCount() { return getDirection() == ::intarsia::nn::Direction::Bidirectional ? 2 : 1; }
    /// True if a direction goes from the last position to the first.
    bool isReverse(int64_t direction) {
      return direction == 1 || getDirection() == ::intarsia::nn::Direction::Reverse;
    }
    /// Returns the number of gates: 4, 3 or 1.
    int64_t getGateCount();
    /// Returns the number of the block of rows of a gate, which is counted in the order of the description.
    int64_t getBlockOf(int64_t gate);
    /// Returns an activation of a direction: 0 is s, 1 is k, 2 is l.
    ::intarsia::nn::RecurrentFunction getFunction(int64_t direction, int64_t number);
    unsigned getBatchDimension() { return getSequenceFirst() ? 1 : 0; }
    unsigned getSequenceDimension() { return getSequenceFirst() ? 0 : 1; }
  }];
}

#endif
