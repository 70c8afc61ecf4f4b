//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_OP
#define INTARSIA_NN_OP

// Base classes and types of the op definitions in Ops/*/*.td.

include "dialects/Interfaces/ContractionOpInterface.td"
include "dialects/Interfaces/CostOpInterface.td"
include "dialects/Interfaces/KernelOpInterfaces.td"
include "dialects/Interfaces/ReferenceOpInterface.td"
include "dialects/Interfaces/SizeOpInterface.td"
include "dialects/Nn/NnAttrs.td"
include "dialects/Nn/NnDialect.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/OpAsmInterface.td"

def Nn_Float : AnyTypeOf<[F32, BF16, F16]>;
def Nn_FloatTensor : RankedTensorOf<[Nn_Float]>;
def Nn_IntegerTensor : RankedTensorOf<[I32, I64]>;
def Nn_MaskTensor : RankedTensorOf<[I1, F32, BF16, F16]>;
def Nn_AnyTensor : RankedTensorOf<[AnyType]>;

class Nn_Op<string mnemonic, list<Trait> traits = []> : Op<Nn_Dialect, mnemonic, traits>;

/// A pure op on tensors: its result type follows from its operands, its sizes are expressions, its work and its reference
/// are known. `root` is a case of KernelRoot, empty for ops that no kernel is built around.
class Nn_TensorOp<string mnemonic, string root, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>,
                                   DeclareOpInterfaceMethods<SizeOpInterface>,
                                   DeclareOpInterfaceMethods<CostOpInterface>,
                                   DeclareOpInterfaceMethods<ReferenceOpInterface>],
                                  !if(!empty(root), []<Trait>, [KernelRootOpInterface]<Trait>), traits)> {
  let hasVerifier = 1;
  string rootDeclaration = !if(!empty(root), "",
    "static ::intarsia::KernelRoot getKernelRoot() { return ::intarsia::KernelRoot::" # root # "; }\n");
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
  }];
}

/// One tensor in, one of the same type out: the syntax states it once.
class Nn_SameTypeOp<string mnemonic, list<Trait> traits = []> : Nn_TensorOp<mnemonic, "Rows", traits> {
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let extraClassDeclaration = rootDeclaration # [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return inferred == declared;
    }
  }];
}

#endif
