//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RT_LAYOUT_INTERFACE
#define INTARSIA_RT_LAYOUT_INTERFACE

include "mlir/IR/OpBase.td"

def LayoutAttrInterface : AttrInterface<"LayoutAttrInterface"> {
  let cppNamespace = "::intarsia::rt";
  let description = [{
    How a weight lies in memory. The target of a device chooses the layout of each operand of its kernels
    (`Target::layout`), `rt.constant` names it, the packer asks it to store rows, and the reference asks it to read elements
    back. A target whose kernels read weights in another way adds an attribute with this interface.
  }];
  let methods = [
    InterfaceMethod<"Checks that a tensor of this type can be stored so; `where` says what has the layout.",
                    "::llvm::LogicalResult", "verifyType",
                    (ins "::mlir::Operation *":$op, "const ::llvm::Twine &":$where, "::mlir::ShapedType":$type)>,
    InterfaceMethod<"The format of the quantized values that are stored; null if values are stored as they are.",
                    "::intarsia::BlockFormatAttrInterface", "getFormat">,
    InterfaceMethod<"True if a tensor is stored as an array of its shape.", "bool", "isRowMajor">,
    InterfaceMethod<"What the name of a constant ends with: `.panels`; empty for row-major ones.", "::llvm::StringRef",
                    "getNameSuffix">,
    InterfaceMethod<"The storage of a tensor, whose element type archives call `dtype`; an error if there is none.",
                    "::llvm::Expected<std::unique_ptr<::intarsia::rt::TensorStorage>>", "makeStorage",
                    (ins "::mlir::RankedTensorType":$type, "::llvm::StringRef":$dtype)>,
    InterfaceMethod<[{The dense tensor that the memory of a tensor of this static type is; null if it has no storage.}],
                    "::mlir::RankedTensorType", "getStorageType", (ins "::mlir::RankedTensorType":$type)>,
    InterfaceMethod<[{Builds what all elements of a tensor of this type share, and returns what reads each of them from
                      `storage`, a tensor of the storage type.}],
                    "std::unique_ptr<::intarsia::rt::TensorReader>", "makeReader",
                    (ins "::intarsia::ScalarBuilder &":$builder, "::mlir::Value":$storage,
                         "::mlir::RankedTensorType":$type)>
  ];
}

#endif
