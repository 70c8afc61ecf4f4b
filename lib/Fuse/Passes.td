//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_FUSE_PASSES
#define INTARSIA_FUSE_PASSES

include "mlir/Pass/PassBase.td"

/// A pass that asks the cost model and records what it decided in the function's `nn.decisions`.
class DecidingPass<string name> : Pass<name, "::mlir::func::FuncOp"> {
  let options = [
    ListOption<"flip", "flip", "std::string",
               "Decisions to take the other way, by id; '*' matches any text">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
}

def FuseComputeAtLoad : Pass<"fuse-compute-at-load", "::mlir::ModuleOp"> {
  let summary = "Computes what is constant once, when the module is loaded";
  let description = [{
    What functions compute from weights and constants alone is the same in each call. Where reading it is cheaper than
    computing it again, which is a decision with the times of both, and where it takes at most 64 MB more than the weights
    that it is computed from, it becomes a result of the function `constants_at_load`, which runs when the module is
    loaded (`nn.runs_at_load`), and an argument that callers do not give (`nn.global`). What is made at compile time stays
    where it is, and so does everything in modules of several ranks and in those with alternatives of functions.

    ```mlir
    func.func @main(%x: tensor<8x256xf32>, %table: tensor<8x256xf32> {nn.global = "constants_at_load.0"}) -> …
    func.func @constants_at_load() -> (tensor<8x256xf32> {nn.global = "constants_at_load.0"})
        attributes {nn.runs_at_load} {
      %w = nn.weight @weights["positions"] : tensor<8x256xf32>
      %s = math.sin %w : tensor<8x256xf32>
      return %s : tensor<8x256xf32>
    }
    ```
  }];
  let options = [
    ListOption<"flip", "flip", "std::string",
               "Decisions to take the other way, by id; '*' matches any text">
  ];
  let dependentDialects = ["::mlir::func::FuncDialect", "::intarsia::nn::NnDialect"];
}

def FuseOutlineRegions : Pass<"fuse-outline-regions", "::mlir::ModuleOp"> {
  let summary = "Bodies of control flow become functions";
  let description = [{
    Each body of `scf.if`, `scf.for` and `scf.while` becomes a private function, so that the passes of this phase see
    functions that are straight lines. Weights, constants and sizes that a body reads come with it; arguments keep the
    names of their sizes. An op on tensors that takes a number which the host computes while it runs, such as a loop's
    counter, is refused.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

def FuseInlineRegions : Pass<"fuse-inline-regions", "::mlir::ModuleOp"> {
  let summary = "Bodies of control flow return to their ops";
  let description = "Undoes `fuse-outline-regions`, at the end of the phase.";
}

def FuseExpandOps : Pass<"fuse-expand-ops", "::mlir::func::FuncOp"> {
  let summary = "Writes ops as loops where their device has no kernel for them";
  let description = [{
    An op whose kind of kernel its target does not have (`Target::hasKernel`) becomes the loops of its reference, which
    add up in f32. They fuse with the ops around, and are computed as other `linalg.generic` are. What the op needs of
    dynamic sizes, such as an image that is not smaller than its window, is kept in `cf.assert` ops, which become checks
    of the call.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
}

def FuseCanonicalize : Pass<"fuse-canonicalize", "::mlir::func::FuncOp"> {
  let summary = "Brings ops into the few forms that the passes of this phase look for";
  let description = [{
    Named linalg ops (transpose, broadcast, reduce, …) become `linalg.generic`, all but `linalg.fill`. Every
    `tensor.dim` asks a function argument, so that no computed tensor is kept for its sizes alone. An `arith.select` between
    tensors by a scalar that only the host has becomes an `scf.if`. Dead ops go.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::scf::SCFDialect"];
}

def FuseLayouts : DecidingPass<"fuse-layouts"> {
  let summary = "Chooses how computed tensors lie in memory, and where they are transposed";
  let description = [{
    Transpositions are taken off and put back where they cost least. Each op that can compute with its dimensions in
    another order (elementwise ops, `linalg.generic`, norms and softmaxes over their rows, linears, batches of matrices,
    concatenations, slices, reshapes of whole groups of dimensions) has an order, and each tensor a layout. The cost of
    orders is that of the ops, by the layouts that the target prefers (`Target::preferredLayout`), of what they read across
    rows, and of the copies that remain. The sum is least for chains, trees and a few paths side by side
    (`LeastCost.h`). Arguments and results of the function keep their layouts; so do ops that no rule is for. Constants
    and weights are transposed at compile time.

    ```mlir
    %0 = linalg.transpose ins(%x) permutation = [0, 2, 3, 1]
    %1 = math.exp %0
    %2 = linalg.transpose ins(%1) permutation = [0, 3, 1, 2]
    ```

    becomes

    ```mlir
    %2 = math.exp %x
    ```

    Each op with a preference, and each transposition between ops with several orders, is a decision: what the ops around it
    take inside, with another order, and apart, as they are written.
  }];
}

def FuseSplitReductions : Pass<"fuse-split-reductions", "::mlir::func::FuncOp"> {
  let summary = "Reduces many elements to few in two steps, so that many threads have work";
  let description = [{
    A reduction along several dimensions to fewer results than a machine has threads becomes one along the inner
    dimensions, with a result for each index of the outermost one, and one of those results. Sums are added in another
    order then.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::linalg::LinalgDialect"];
}

def FuseSharedInputLinears : DecidingPass<"fuse-shared-input-linears"> {
  let summary = "Concatenates linears that read the same input";
  let description = [{
    Query, key and value, or gate and up, become one `nn.linear` over concatenated weights (`tensor.concat dim(0)` of
    the weights, done at compile time) whose results are slices of its last dimension. Weights are of one element type
    and, where they are quantized or stored in blocks, of one format. `nn.attention` takes slices as they are; for other
    consumers the linear's kernel stores each slice for itself (`fuse-epilogues`), for which slices must begin at whole
    panels of the weight. Linears whose results one elementwise op reads are concatenated with each other only: their
    slices are then of one size, and can be computed together.

    ```mlir
    %w = tensor.concat dim(0) %wq, %wk, %wv : (tensor<384x384xf32>, …) -> tensor<1152x384xf32>
    %h = nn.linear %x, %w, %b : (…) -> tensor<?x?x1152xf32>
    %q = tensor.extract_slice %h[0, 0, 0] [%n, %s, 384] [1, 1, 1] : tensor<?x?x1152xf32> to tensor<?x?x384xf32>
    ```
  }];
}

def FuseAttention : DecidingPass<"fuse-attention"> {
  let summary = "Groups each attention with the views around it, and caches with rotations";
  let description = [{
    The group holds the slices of a concatenated query/key/value and the split into heads before `nn.attention`, and the
    merge of heads after it: nothing of them is copied, and scores never reach memory. The mask comes in from outside,
    computed once for all layers. `nn.cached_attention` rotates its queries itself, `nn.cache_append` its rows, where
    nothing else reads what `nn.rope` gives.
  }];
}

def FuseEpilogues : DecidingPass<"fuse-epilogues"> {
  let summary = "Groups each GEMM with the activation, residual and norm that follow";
  let description = [{
    Around `nn.linear`: elementwise ops on tensors of the result's sizes, operands that are broadcast along the last
    dimension, and at the end one norm of whole rows. Slices and reshapes of the input's outer dimensions
    join for free. Slices that are all of a linear's result join too, with elementwise ops over one of them, or over
    several if all are of one size: silu(gate) * up is stored, and the two are not. Around `nn.matmul` and `nn.conv`:
    elementwise ops; a convolution of a picture also takes the transposition that brings its few channels last. A group
    yields at most two results of each slice.
  }];
}

def FuseEmbeddings : DecidingPass<"fuse-embeddings"> {
  let summary = "Groups sums of embeddings with the norm that follows";
  let description = [{
    Embeddings, slices of position tables, their sum and one norm, a row at a time.
  }];
}

def FuseElementwise : DecidingPass<"fuse-elementwise"> {
  let summary = "Groups remaining elementwise chains, norms and reductions";
  let description = [{
    Chains of ops over the same rows become one group with at most one norm or softmax; a reduction takes the
    elementwise producers over its iteration space and the elementwise consumers of its result. Values that several
    groups read are computed once.
  }];
}

def FuseWrapRemaining : Pass<"fuse-wrap-remaining", "::mlir::func::FuncOp"> {
  let summary = "Makes a group of each op that is still alone";
  let description = [{
    Fills and splats, which other groups have copies of, get one where they leave the function. What no kernel shape fits
    is an error that names the op and its location in the user's model.
  }];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
}

def FuseNarrowResults : Pass<"fuse-narrow-results", "::mlir::func::FuncOp"> {
  let summary = "Stores results as linears multiply them";
  let description = [{
    A result that only linears read, all with one `precision` of 16 bits on devices that multiply in it, is rounded to
    that type where it is computed: half of the memory is written and read, and the products stay the same.
  }];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect"];
}

def FuseQuantizeResults : Pass<"fuse-quantize-results", "::mlir::func::FuncOp"> {
  let summary = "Quantizes results where they are computed";
  let description = [{
    A result that only groups read which quantize it, all to one format, becomes quantized values and scales in the
    group that computes it, where the device has kernels for both: a quarter of the memory is written and read. Both
    groups are as they were otherwise, and so are the values. Where scales are known (`unit_scale`) a result that others
    read too, a residual for example, is given both ways; or only in bytes, if that is permitted (`nn.replaces_input`) and
    all that read it are elementwise ops in kernels of products.

    ```mlir
    %h:2 = nn.group linear(…) -> (tensor<?x1536xi8>, tensor<?x6xf32>) {
      …
      %c, %s = nn.quantize %gelu {format = #nn.block_format<i8, f32, 256, axis = 1>} : …
      nn.yield %c, %s : tensor<?x1536xi8>, tensor<?x6xf32>
    }
    %y = nn.group linear(%a = %h#0, %b = %w, %c = %h#1) : … {
      %d = nn.dequantize %a, %c {format = #nn.block_format<i8, f32, 256, axis = 1>} : …
      …
    }
    ```
  }];
  let dependentDialects = ["::intarsia::nn::NnDialect"];
}

def FuseRecordDecisions : Pass<"fuse-record-decisions", "::mlir::ModuleOp"> {
  let summary = "Writes the decisions of this phase as JSON and takes them off the functions";
  let description = [{
    One entry a decision: id, pass, function, location, root, op, what was chosen, the cost of both sides in
    microseconds, the reason, and whether it was forced. Then one entry a kernel: what it asks for and how long the
    cost model expects it to take. Groups keep their reasons in `why`. An id in `flip` that no decision has is an error.
  }];
  let options = [
    Option<"file", "file", "std::string", "\"\"", "Where the JSON goes; empty: nowhere">,
    ListOption<"flip", "flip", "std::string", "Decisions that were to be taken the other way">
  ];
}

def FuseVerify : Pass<"fuse-verify", "::mlir::func::FuncOp"> {
  let summary = "States what may leave this phase";
  let description = [{
    Every op on tensors is in a group, except weights, constants, `tensor.concat` and reshapes of those, reshapes that
    are views (`tensor.expand_shape`, `tensor.collapse_shape`), `tensor.dim`, arithmetic on integers and `tensor.extract` of
    them, and `scf.if`, `scf.for` and `scf.while`, whose bodies meet the same. Each group has the shape of one kernel: its
    root names what it is built around.
  }];
}

#endif
