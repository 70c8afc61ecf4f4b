//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_PAD
#define INTARSIA_NN_PAD

include "dialects/Nn/NnOp.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

def Nn_PadOp : Nn_TensorOp<"pad", "Generic"> {
  let summary = "A tensor with more elements around it, or with fewer";
  let description = [{
    Dimension `d` of the result has `low[d]` positions before those of the input and `high[d]` behind them. With `p` a
    position of the result minus `low[d]` and `n` the size of the input, positions outside of the input read:

    | kind | |
    |---|---|
    | `constant` | `value`, 0 without it |
    | `reflect` | the input turned over at its first and last element, as often as needed: `n - 1 - abs(n - 1 - p mod 2 (n - 1))` |
    | `edge` | its first or last element |
    | `wrap` | its beginning behind its end: `p mod n` |

    A negative amount of `constant` takes elements away. It is `Pad` of ONNX (version 21), `pad` of NumPy and PyTorch.
    Amounts that a call computes are those of `tensor.pad`, for constants.

    Rejected: amounts for another number of dimensions, negative amounts of other kinds than `constant`, amounts that
    leave less than nothing, elements from a dimension of size 0, a value that is not of the element type or not of
    `constant`.

    ```mlir
    %y = nn.pad <reflect>, %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>} : (tensor<?x32x32x8xf32>) -> tensor<?x34x34x8xf32>
    ```
  }];
  let arguments = (ins RankedTensorOf<[F64, F32, BF16, F16, AnySignlessInteger]>:$input, Nn_PadKindAttr:$kind,
                   DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, OptionalAttr<TypedAttrInterface>:$value);
  let results = (outs RankedTensorOf<[F64, F32, BF16, F16, AnySignlessInteger]>:$result);
  let hasFolder = 1;
  let assemblyFormat = "$kind `,` $input attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    ::intarsia::SizePairs getLeastSizes(::llvm::ArrayRef<::intarsia::Sizes> operandSizes);
  }];
}

#endif
