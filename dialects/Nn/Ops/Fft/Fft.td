//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_FFT
#define INTARSIA_NN_FFT

include "dialects/Nn/NnOp.td"

def Nn_FftOp : Nn_TensorOp<"fft", "Generic"> {
  let summary = "Discrete Fourier transform along an axis";
  let description = [{
    `result[…, k, …] = sum_j input[…, j, …] * exp(-2πi * j * k / n)` along `axis`, which has `n` elements; `inverse` has
    the other sign in the exponent and divides by `n`. The last dimension holds the real part and the imaginary one; an
    input with 1 element there is real. A `onesided` transform of a real input has the elements `k <= n / 2`, whose
    conjugates the others are. An inverse `onesided` one has them as its input, gives `length` real elements, twice as
    many less 2 without a `length`, and reads no imaginary part of elements 0 and `n / 2` of an even `n`, which have none.
    It is `DFT` of ONNX (version 20), `fft`, `rfft` and `irfft` of NumPy.

    A transform of a static number of elements becomes products with matrices of at most 64 factors before models are
    optimised, a prime above 128 that of a power of 2 (Bluestein, DOI 10.1109/TAU.1970.1162132). One of a dynamic
    number computes the sum for each element, and so do references.

    Rejected: an axis outside of the dimensions before the last, a last dimension other than 1 and 2, no elements along
    the axis, a `onesided` transform of a complex input, an inverse one of a real input, a `length` for which the axis
    has not `length / 2 + 1` elements, a `length` of a transform that is not both `inverse` and `onesided`, more than
    4,194,304 elements along the axis.

    ```mlir
    %y = nn.fft %x {axis = 1, onesided} : (tensor<?x400x1xf32>) -> tensor<?x201x2xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, I64Attr:$axis, UnitAttr:$inverse, UnitAttr:$onesided,
                   OptionalAttr<I64Attr>:$length);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    ::intarsia::SizePairs getLeastSizes(::llvm::ArrayRef<::intarsia::Sizes> operandSizes);
    /// Returns the number of elements that are transformed; dynamic if the axis is.
    int64_t getNumber();
    bool hasRealResult() { return getInverse() && getOnesided(); }
  }];
}

#endif
