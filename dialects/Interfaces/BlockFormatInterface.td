//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_BLOCK_FORMAT_INTERFACE
#define INTARSIA_BLOCK_FORMAT_INTERFACE

include "mlir/IR/OpBase.td"

def BlockFormatAttrInterface : AttrInterface<"BlockFormatAttrInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    What the quantized values of a tensor mean, in blocks that share a scale. `nn.dequantize` has the format as an
    attribute, which says which operands there are and of which types.
  }];
  let methods = [
    InterfaceMethod<[{The format's name in names of tensors and messages: `i4-f16-32`. It is made without the context,
                      which other threads may be changing.}], "std::string", "getName">,
    InterfaceMethod<"The number of elements that share a scale; 0 if all of an axis do.", "int64_t", "getBlockElements">,
    InterfaceMethod<[{True if kernels can multiply the quantized values by integers of 8 bits: they are integers, or
                      a power of two makes them integers.}], "bool", "hasIntegerValues">,
    InterfaceMethod<"True if the blocks of a tensor with so many dimensions are along its last one.", "bool",
                    "hasBlocksInRows", (ins "int64_t":$rank)>,
    InterfaceMethod<[{The format of the rows of a matrix: what a layout names, whatever the tensor that the matrix is of;
                      null if rows of so many elements are not whole blocks.}],
                    "::intarsia::BlockFormatAttrInterface", "getRowFormat", (ins "int64_t":$elements)>,
    InterfaceMethod<[{The contents of the blocks of a row, if kernels can read quantized values of the format; nullopt for
                      formats whose values are dequantized before kernels read them.}],
                    "std::optional<::intarsia::QuantizedBlocks>", "getQuantizedBlocks">,
    InterfaceMethod<[{The type of the blocks in which a file holds values together with their scales; null if the scales
                      are a tensor of their own.}], "const ::intarsia::GgmlType *", "getFileBlocks">,
    InterfaceMethod<"The constant of this static type that quantized constants mean.", "::mlir::DenseElementsAttr",
                    "dequantize", (ins "::mlir::RankedTensorType":$type,
                                       "const ::intarsia::QuantizedConstants &":$constants)>,
    InterfaceMethod<"Checks the operands of an op that gives tensors of type `whole`.", "::llvm::LogicalResult",
                    "verifyOperands", (ins "::mlir::Operation *":$op, "::mlir::RankedTensorType":$whole,
                                           "const ::intarsia::QuantizedOperands &":$operands)>,
    InterfaceMethod<"The sizes of the tensor that values of these sizes mean.", "::intarsia::Sizes",
                    "getDequantizedSizes", (ins "::intarsia::Sizes":$values)>,
    InterfaceMethod<[{The sizes of scales and zero points of values of these sizes; empty if there are none, or if the
                      operands are weights, whose sizes are verified.}], "::intarsia::Sizes",
                    "getScaleSizes", (ins "::intarsia::Sizes":$values)>
  ];
}

#endif
