//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RT_OPS
#define INTARSIA_RT_OPS

include "dialects/Rt/LayoutInterface.td"
include "dialects/Rt/RtInterfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Rt_Dialect : Dialect {
  let name = "rt";
  let cppNamespace = "::intarsia::rt";
  let summary = "What the host asks of devices";
  let description = [{
    The last stop before LLVM: kernels that devices run, and the host program that makes buffers, starts kernels on
    queues and waits for events. A host function is a program over memrefs, with `scf.for`, `scf.if` and `scf.while`
    where the model has them; a kernel is a tensor program that its target turns into an `rt.object`.

    Memrefs without a memory space are in the memory of the host, which some devices share; those of other devices have
    the memory space `#rt.memory<@device>`. Before the lower phase the attribute `rt.device = @device` on an op says
    where it runs; without one it runs on the module's first device.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasOperationAttrVerify = 1;
}

class Rt_Op<string mnemonic, list<Trait> traits = []> : Op<Rt_Dialect, mnemonic, traits>;
class Rt_Type<string name, string typeMnemonic, string sentence> : TypeDef<Rt_Dialect, name> {
  let mnemonic = typeMnemonic;
  let summary = sentence;
}

def Rt_Queue : Rt_Type<"Queue", "queue", "An ordered queue of a device: what is put on it starts in order"> {
  let description = "`!rt.queue<@cpu>` is a queue of the device that `rt.device @cpu` declares.";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$device);
  let assemblyFormat = "`<` $device `>`";
}
def Rt_Event : Rt_Type<"Event", "event", "The end of something that was put on a queue">;

def Rt_RowMajorAttr : AttrDef<Rt_Dialect, "RowMajor", [LayoutAttrInterface]> {
  let mnemonic = "row_major";
  let summary = "A weight that lies in memory as an array of its shape";
  let extraClassDeclaration = [{
    ::llvm::LogicalResult verifyType(::mlir::Operation *op, const ::llvm::Twine &where, ::mlir::ShapedType type) const;
    ::intarsia::BlockFormatAttrInterface getFormat() const { return nullptr; }
    bool isRowMajor() const { return true; }
    ::llvm::StringRef getNameSuffix() const { return ""; }
    ::llvm::Expected<std::unique_ptr<TensorStorage>> makeStorage(::mlir::RankedTensorType type,
                                                                 ::llvm::StringRef dtype) const;
    ::mlir::RankedTensorType getStorageType(::mlir::RankedTensorType type) const { return type; }
    std::unique_ptr<TensorReader> makeReader(ScalarBuilder &builder, ::mlir::Value storage,
                                             ::mlir::RankedTensorType type) const;
  }];
}

def Rt_PanelsAttr : AttrDef<Rt_Dialect, "Panels", [LayoutAttrInterface]> {
  let mnemonic = "panels";
  let summary = "A weight that lies in memory in panels of its rows";
  let description = [{
    `#rt.panels<32>`: a matrix `[N, K]` stored as `[ceil(N / 32)][K][32]`, columns beyond N zero, so that a kernel reads 32
    neighbouring output features of one k with one or two loads; of a tensor of matrices `[…, N, K]` each is stored so,
    one after another. Other devices have panels of other widths.

    `#rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>`: the matrix is stored as the quantized values and scales of
    that format, in the panels of dialects/Rt/BlockPanels.h. Its type stays that of the values which they mean. Blocks of
    GGUF that are no block format are an `#nn.ggml_type` there. Of a tensor of matrices each is stored so; the format's
    axis is that of one matrix.

    `#rt.panels<32 in 2 slices>`: panels of the two halves of the rows alternate, the first of the first half before the
    first of the second, so that a kernel which multiplies both reads them in order.
  }];
  let parameters = (ins "int64_t":$width, DefaultValuedParameter<"int64_t", "1">:$slices,
                        OptionalParameter<"::intarsia::BlockFormatAttrInterface">:$format);
  let assemblyFormat = "`<` $width (`in` $slices^ `slices`)? (`,` $format^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::llvm::LogicalResult verifyType(::mlir::Operation *op, const ::llvm::Twine &where, ::mlir::ShapedType type) const;
    bool isRowMajor() const { return false; }
    ::llvm::StringRef getNameSuffix() const { return ".panels"; }
    ::llvm::Expected<std::unique_ptr<TensorStorage>> makeStorage(::mlir::RankedTensorType type,
                                                                 ::llvm::StringRef dtype) const;
    ::mlir::RankedTensorType getStorageType(::mlir::RankedTensorType type) const;
    std::unique_ptr<TensorReader> makeReader(ScalarBuilder &builder, ::mlir::Value storage,
                                             ::mlir::RankedTensorType type) const;
  }];
}

def Rt_TargetAttr : AttrDef<Rt_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "What code of a device is generated for";
  let description = [{
    A kind of device and its variants, as `--target` names them before and behind the colon: `#rt.target<"cpu",
    ["x86-64-v4", "x86-64-v3"]>`. `native` is the machine that compiles. The first variant's costs decide what is fused.
    The lists of kinds and variants are those of the targets (lib/Target).
  }];
  let parameters = (ins StringRefParameter<"kind of device">:$kind,
                        ArrayRefParameter<"::mlir::StringAttr", "variants">:$variants);
  let assemblyFormat = "`<` $kind `,` `[` $variants `]` `>`";
  let genVerifyDecl = 1;
}

def Rt_MemoryAttr : AttrDef<Rt_Dialect, "Memory"> {
  let mnemonic = "memory";
  let summary = "The memory of a device, as the memory space of a memref";
  let description = [{
    `memref<4x8xf32, #rt.memory<@accelerator>>` is in memory that only the device of this name can address.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$device);
  let assemblyFormat = "`<` $device `>`";
}

//===-- Devices -----------------------------------------------------------------------------------------------===//

def Rt_VariantAttr : AttrDef<Rt_Dialect, "Variant"> {
  let mnemonic = "variant";
  let summary = "What a machine must have to run code";
  let description = [{
    `#rt.variant<"x86-64-v3", cpu = "x86-64-v3", features = ["avx2", "fma"]>`: the name, LLVM's name of the processor
    that instructions are scheduled for, and the features that it must have.
  }];
  let parameters = (ins StringRefParameter<"name">:$name, StringRefParameter<"processor">:$cpu,
                        OptionalArrayRefParameter<"::mlir::StringAttr", "features">:$features);
  let assemblyFormat = "`<` $name `,` `cpu` `=` $cpu (`,` `features` `=` `[` $features^ `]`)? `>`";
}

def Rt_DeviceOp : Rt_Op<"device", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "A device that a module is compiled for";
  let description = [{
    Passes ask the device's target what a kernel costs. The compiler declares devices from `--target`; IR of a file keeps
    those that it has, unless the flag is given.

    ```mlir
    rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Rt_TargetAttr:$target);
  let assemblyFormat = "$sym_name attr-dict";
}

//===-- Kernels and constants ---------------------------------------------------------------------------------===//

/// The kind of a kernel, as its group had it.
def Rt_RootAttr : Attr<CPred<"::llvm::isa<::intarsia::nn::RootAttr>($_self)">, "an #nn.root"> {
  let storageType = "::intarsia::nn::RootAttr";
  let returnType = "::intarsia::KernelRoot";
  let convertFromStorage = "$_self.getValue()";
}

def Rt_KernelOp : Rt_Op<"kernel", [IsolatedFromAbove, FunctionOpInterface, Symbol]> {
  let summary = "A program for one device";
  let description = [{
    Inputs are the block's arguments, outputs what `rt.yield` gives: tensors, so that the target chooses loops and
    memory. `sizes` names the symbolic dimensions that a launch is given, in order; `nn.sizes` on arguments and results
    says where they occur, alone or in an expression such as `s0 * s1`. `rt.layout` on an argument says how a weight lies in memory,
    `rt.gathered` beside it that the kernel reads only those of its parts along the first dimension that indices choose,
    and the number of the argument that these are, or -1 if the kernel computes them.
    `device` is the one that runs it: the module's first one if there is none. A kernel without a body is declared: the
    target phase has put its code into an `rt.object` and left what the host program needs to launch it.

    ```mlir
    rt.kernel @relu(%x: tensor<?x384xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x384xf32> {nn.sizes = ["s0", ""]})
        attributes {root = #nn.root<rows>, sizes = ["s0"]} {
      %r = nn.relu %x : tensor<?x384xf32>
      rt.yield %r : tensor<?x384xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, StrArrayAttr:$sizes,
                       Rt_RootAttr:$root, OptionalAttr<FlatSymbolRefAttr>:$device, OptionalAttr<StrAttr>:$sym_visibility, OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region MaxSizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return isExternal() ? nullptr : &getBody(); }
    /// The size that a text in `nn.sizes` means: symbol i is the i-th of `sizes`. Null, with an error, if it means none.
    ::mlir::AffineExpr parseSize(::llvm::StringRef text);
  }];
}

def Rt_YieldOp : Rt_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["KernelOp", "ConstantOp"]>]> {
  let summary = "The outputs of a kernel, or the tensor that a recipe makes";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let hasVerifier = 1;
}

def Rt_ObjectOp : Rt_Op<"object", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "Compiled kernels of one device";
  let description = [{
    The code of a device's kernels in one variant, for artifacts whose host code is for the triple `host`. `numbers` are
    the indices of `kernels` among all kernels of the module, and `number` that of the variant among those of the device
    for this host: the code names its functions by them. `code` are the pieces of code in the order in which they are
    linked, as lib/Target/<X> makes them for lib/Runtime/<X>; `hash` is the XXH3-128 of all their bytes. Text may leave
    the bytes out (`--elide-resource-strings`): it can be read, but not assembled.

    ```mlir
    rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64,
                              variant = #rt.variant<"x86-64-v3", cpu = "x86-64-v3", features = ["avx2", "fma"]>,
                              kernels = [@relu], numbers = array<i64: 0>, hash = "…",
                              code = [dense_resource<"relu.x86-64-v3"> : tensor<1288xi8>]}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$device, StrAttr:$host, I64Attr:$number,
                       Rt_VariantAttr:$variant, FlatSymbolRefArrayAttr:$kernels, DenseI64ArrayAttr:$numbers,
                       StrAttr:$hash, ArrayAttr:$code);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the bytes of each piece of code; nullopt if some were left out when the IR was written as text.
    std::optional<::llvm::SmallVector<::llvm::ArrayRef<char>>> getBytes();
  }];
}

def Rt_ConstantOp : Rt_Op<"constant", [Symbol, IsolatedFromAbove]> {
  let summary = "A weight as kernels read it";
  let description = [{
    A tensor of static shape that the packer makes when an artifact is assembled, and stores in `layout`. The region is
    its recipe: ops of the program that it was taken from, which the packer interprets row by row (`nn::isPrepacked` says
    which ops those are). It reads weights and constants, and ends with `rt.yield` of the tensor. A layout with a format
    stores quantized values and scales: the recipe's tensor is then quantized to that format, by `nn.quantize` or in its
    archive.

    ```mlir
    rt.constant @qkv.panels layout(#rt.panels<32>) : tensor<768x384xf32> {
      %q = nn.weight @weights["query.weight"] : tensor<384x384xf32>
      %k = nn.weight @weights["key.weight"] : tensor<384x384xf32>
      %c = tensor.concat dim(0) %q, %k : (tensor<384x384xf32>, tensor<384x384xf32>) -> tensor<768x384xf32>
      rt.yield %c : tensor<768x384xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, LayoutAttrInterface:$layout, TypeAttrOf<AnyRankedTensor>:$type);
  let regions = (region SizedRegion<1>:$recipe);
  let assemblyFormat = "$sym_name `layout` `(` $layout `)` `:` $type attr-dict-with-keyword $recipe";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The tensor that the recipe makes.
    ::mlir::Value getTensor() { return getRecipe().front().getTerminator()->getOperand(0); }
  }];
}

//===-- Host program ------------------------------------------------------------------------------------------===//

/// An op whose result is a buffer with the lifetime `lifetime`.
class Rt_BufferOp<string mnemonic, string lifetime, list<Trait> traits>
    : Rt_Op<mnemonic, !listconcat([Rt_BufferOpInterface], traits)> {
  let extraClassDeclaration = [{
    ::intarsia::rt::Lifetime getLifetime() { return ::intarsia::rt::Lifetime::}] # lifetime # [{; }
  }];
}

def Rt_SymbolOp : Rt_Op<"symbol", [Pure]> {
  let summary = "The value of a symbolic size of this function";
  let description = [{
    ```mlir
    %s = rt.symbol "sequence"
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Index:$result);
  let assemblyFormat = "$name attr-dict";
}

def Rt_Relation : I32EnumAttr<"Relation", "how two sizes must compare", [
    I32EnumAttrCase<"Equal", 0, "equal">, I32EnumAttrCase<"AtMost", 1, "at_most">]> {
  let cppNamespace = "::intarsia::rt";
}

def Rt_CheckOp : Rt_Op<"check"> {
  let summary = "What the sizes of a call must meet";
  let description = [{
    A call whose sizes do not compare as `relation` says fails before any buffer is made. The error shows `left_text`
    and `right_text` with their values, and `why`.

    ```mlir
    rt.check %c3 at_most %n {left_text = "3", right_text = "n", why = "'tensor.extract_slice' needs it"}
    ```
  }];
  let arguments = (ins Index:$left, Rt_Relation:$relation, Index:$right, StrAttr:$left_text, StrAttr:$right_text,
                       StrAttr:$why);
  let assemblyFormat = "$left $relation $right attr-dict";
}

def Rt_CheckIndicesOp : Rt_Op<"check_indices"> {
  let summary = "What integers that kernels have computed must meet";
  let description = [{
    A call ends with an error, which shows `name` and `limit_text`, if an integer in the buffer is negative or not less
    than `limit`: a kernel that uses them as indices would read or write elsewhere. The host reads the buffer, which is in
    its memory; what computes it has been waited for. `sizes` are the buffer's dynamic ones.

    ```mlir
    rt.check_indices %positions(%tokens) below %slots {name = "positions", limit_text = "pages * 32", why = "'nn.cache_append' needs it"} : memref<?xi64>
    ```
  }];
  let arguments = (ins AnyMemRef:$indices, Variadic<Index>:$sizes, Index:$limit, StrAttr:$name,
                       StrAttr:$limit_text, StrAttr:$why);
  let assemblyFormat = "$indices `(` $sizes `)` `below` $limit attr-dict `:` type($indices)";
  let hasVerifier = 1;
}

def Rt_ConstantDataOp : Rt_BufferOp<"constant_data", "Constant", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The data of a constant";
  let description = [{
    ```mlir
    %w = rt.constant_data @c0 : memref<768x384xf32>
    ```
    The memref has the logical shape; the bytes lie as the constant's layout says. Its memory space says which device
    has them: the runtime copies them there when it loads the artifact.
  }];
  let arguments = (ins FlatSymbolRefAttr:$constant);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$constant attr-dict `:` type($result)";
}

def Rt_AllocOp : Rt_BufferOp<"alloc", "Workspace", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A buffer for the duration of the call";
  let description = [{
    `rt.alloc (%n) : memref<?x384xf32>`. Buffer planning gives each a part of the call's workspace in its memory.
  }];
  let arguments = (ins Variadic<Index>:$sizes);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "`(` $sizes `)` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Rt_OutputOp : Rt_BufferOp<"output", "External", [MemoryEffects<[MemAlloc]>]> {
  let summary = "The buffer of a result of the function";
  let description = [{
    ```mlir
    %o = rt.output 0 (%batch, %sequence) : memref<?x?x384xf32>
    ```
  }];
  let arguments = (ins I64Attr:$index, Variadic<Index>:$sizes);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$index `(` $sizes `)` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Rt_WorkspaceOp : Rt_BufferOp<"workspace", "Workspace", [MemoryEffects<[MemAlloc]>]> {
  let summary = "The call's workspace in one memory, in bytes";
  let description = [{
    ```mlir
    %w = rt.workspace %bytes : memref<?xi8>
    %d = rt.workspace %more : memref<?xi8, #rt.memory<@accelerator>>
    ```
  }];
  let arguments = (ins Index:$bytes);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$bytes attr-dict `:` type($result)";
}

def Rt_GetQueueOp : Rt_Op<"get_queue", [Pure]> {
  let summary = "A queue of a device";
  let description = [{
    ```mlir
    %q = rt.get_queue 0 : !rt.queue<@cpu>
    ```
    Queues of a device are numbered from 0; a device that has fewer than a program asks for uses one for several.
  }];
  let arguments = (ins DefaultValuedAttr<I64Attr, "0">:$index);
  let results = (outs Rt_Queue:$result);
  let assemblyFormat = "$index attr-dict `:` qualified(type($result))";
}

def Rt_DispatchOp : Rt_Op<"dispatch", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Starts a kernel";
  let description = [{
    Puts a kernel on a queue of its device; it starts when the events, of whatever devices, have happened. `sizes` are
    the values of the kernel's symbolic dimensions. `label` is the name of the work in the user's model. Buffers are in
    the memory of the host or in that of the device.

    ```mlir
    %e = rt.dispatch @relu on %queue : !rt.queue<@cpu> after(%e0) sizes(%n) ins(%x : memref<?x384xf32>) outs(%y : memref<?x384xf32>) {label = "encoder.activation"}
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Rt_Queue:$queue, Variadic<Rt_Event>:$after,
                       Variadic<Index>:$sizes, Arg<Variadic<AnyMemRef>, "", [MemRead]>:$inputs,
                       Arg<Variadic<AnyMemRef>, "", [MemWrite]>:$outputs, OptionalAttr<StrAttr>:$label);
  let results = (outs Rt_Event:$event);
  let assemblyFormat = [{
    $kernel `on` $queue `:` qualified(type($queue)) (`after` `(` $after^ `)`)? (`sizes` `(` $sizes^ `)`)? (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict
  }];
}

def Rt_CopyOp : Rt_Op<"copy", [AttrSizedOperandSegments]> {
  let summary = "Copies a buffer";
  let description = [{
    Both buffers are dense and of the same shape; `sizes` are the dynamic ones. A copy from one memory to another is put
    on a queue of the device whose memory it is; devices do not copy into each other's memory.

    ```mlir
    %e = rt.copy %x to %y on %queue : !rt.queue<@accelerator> after(%e0) : memref<4xf32> to memref<4xf32, #rt.memory<@accelerator>>
    ```
  }];
  let arguments = (ins Rt_Queue:$queue, Variadic<Rt_Event>:$after, Variadic<Index>:$sizes,
                       Arg<AnyMemRef, "", [MemRead]>:$source, Arg<AnyMemRef, "", [MemWrite]>:$destination);
  let results = (outs Rt_Event:$event);
  let assemblyFormat = [{
    $source `to` $destination `on` $queue `:` qualified(type($queue)) (`after` `(` $after^ `)`)? (`sizes` `(` $sizes^ `)`)? attr-dict `:`
    type($source) `to` type($destination)
  }];
  let hasVerifier = 1;
}

def Rt_CollectiveKind : I32EnumAttr<"CollectiveKind", "what ranks do together", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">, I32EnumAttrCase<"AllReduceMax", 1, "all_reduce_max">,
    I32EnumAttrCase<"AllGather", 2, "all_gather">, I32EnumAttrCase<"AllToAll", 4, "all_to_all">,
    I32EnumAttrCase<"Broadcast", 5, "broadcast">,
    I32EnumAttrCase<"Send", 6, "send">, I32EnumAttrCase<"Receive", 7, "receive">,
    I32EnumAttrCase<"ReduceScatterRows", 8, "reduce_scatter_rows">,
    I32EnumAttrCase<"AllGatherRows", 9, "all_gather_rows">,
    I32EnumAttrCase<"AllReduceInt8", 10, "all_reduce_int8">,
    I32EnumAttrCase<"ReduceScatterRowsInt8", 11, "reduce_scatter_rows_int8">,
    I32EnumAttrCase<"BroadcastResult", 12, "broadcast_result">]> {
  let description = "Numbers are those of ITX_COLLECTIVE_* in module_abi.h.";
  let cppNamespace = "::intarsia::rt";
}

def Rt_CollectiveOp : Rt_Op<"collective", [AttrSizedOperandSegments]> {
  let summary = "What ranks of a world do together";
  let description = [{
    The ranks in `ranks` run it together, each with its own buffers: with a queue, in the memory of the queue's device,
    without one in that of the host:
    - `all_reduce`, `all_reduce_max`: the destination, of the source's shape, gets the sum or the maximum over the ranks;
    - `all_gather`: the destination gets the sources one after another, in the order of the ranks; it has as many along
      its first dimension as there are ranks, for each one that the source has;
    - `all_to_all`: of n ranks, the i-th gets the i-th of n equal parts of each source, along the first dimension, in the
      order of the ranks; the destination has the source's shape;
    - `broadcast`: the destination gets the source of the first rank, which alone has one;
    - `broadcast_result`: the same, of a result of the function that nothing else reads. A caller that wants no results
      does without it, so that ranks go on with the next call while others still compute this one;
    - `send`, `receive`: the destination of the second rank gets the source of the first one;
    - `reduce_scatter_rows`: the i-th of n ranks gets rows `[i * each, (i + 1) * each)` of the sum over the ranks, along the
      first dimension, with `each = ceil(rows / n)`; what is behind the last row repeats it;
    - `all_gather_rows`: the way back; the destination has `rows` along its first dimension, the source `each`;
    - `all_reduce_int8`, `reduce_scatter_rows_int8`: the sums of f32 with messages between hosts that are rounded to 8 bits.
    `sizes` are the dynamic ones of the source, or of the destination where there is no source or it has all rows. `label`
    is the name of the work in the user's model.

    ```mlir
    %e = rt.collective all_reduce in [0, 1] from %x : memref<?x8xf32> to %y : memref<?x8xf32> after(%e0) sizes(%n) {label = "encoder.dense"}
    %f = rt.collective reduce_scatter_rows in [0, 1] from %x : memref<?x8xf32> to %z : memref<?x8xf32> sizes(%n)
    %g = rt.collective all_gather_rows in [0, 1] from %z : memref<?x8xf32> to %y : memref<?x8xf32> sizes(%n)
    %h = rt.collective all_reduce in [0, 1] on %queue : !rt.queue<@gpu> from %s : memref<8xf32, #rt.memory<@gpu>> to %d : memref<8xf32, #rt.memory<@gpu>>
    ```
  }];
  let arguments = (ins Rt_CollectiveKind:$kind, DenseI64ArrayAttr:$ranks, Optional<Rt_Queue>:$queue, Variadic<Rt_Event>:$after,
                       Variadic<Index>:$sizes, Arg<Optional<AnyMemRef>, "", [MemRead]>:$source,
                       Arg<Optional<AnyMemRef>, "", [MemWrite]>:$destination, OptionalAttr<StrAttr>:$label);
  let results = (outs Rt_Event:$event);
  let assemblyFormat = [{
    $kind `in` $ranks (`on` $queue^ `:` qualified(type($queue)))? (`from` $source^ `:` type($source))? (`to` $destination^ `:` type($destination))?
    (`after` `(` $after^ `)`)? (`sizes` `(` $sizes^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The buffer that `sizes` are of.
    ::mlir::Value getSized() {
      bool isOfDestination = !getSource() || getKind() == CollectiveKind::AllGatherRows;
      return isOfDestination ? getDestination() : getSource();
    }
    /// True if each rank has a part of the rows of one of the two buffers.
    bool isOfRows() {
      return scattersRows() || getKind() == CollectiveKind::AllGatherRows;
    }
    /// True for a sum of which each rank gets some rows.
    bool scattersRows() {
      return getKind() == CollectiveKind::ReduceScatterRows || getKind() == CollectiveKind::ReduceScatterRowsInt8;
    }
  }];
}

def Rt_WaitOp : Rt_Op<"wait"> {
  let summary = "Blocks until the events have happened";
  let arguments = (ins Variadic<Rt_Event>:$events);
  let assemblyFormat = "$events attr-dict";
}

#endif
