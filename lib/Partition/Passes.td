//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PARTITION_PASSES
#define INTARSIA_PARTITION_PASSES

include "mlir/Pass/PassBase.td"

def PartitionPlace : Pass<"partition-place", "::mlir::ModuleOp"> {
  let summary = "Puts ops on devices, by their names in the user's model";
  let description = [{
    Each placement is `GLOB=@device`: ops whose location has a name that the glob matches get `rt.device = @device`.
    Of several placements that match an op the last one holds. Other ops keep the device that they have, by default
    the module's first one. Weights and views are wherever they are read.

    ```mlir
    intarsia-opt model.mlir --partition-place='places=encoder.layer.[0-2]*=@reference'
    ```
    A placement that matches no op is an error, which shows the nearest names.
  }];
  let options = [ListOption<"placements", "places", "std::string", "Which ops run where: GLOB=@device">];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

def PartitionFit : Pass<"partition-fit", "::mlir::ModuleOp"> {
  let summary = "Puts as many layers on a GPU as its memory holds";
  let description = [{
    Ops are grouped by the layers that their names say. If all layers fit on the first GPU of the module (weights,
    caches of one sequence of full length, values that live at once at the expected sizes), they run there. Otherwise
    those of one range of layers do, and the ones in front of it and behind it run on the first device in the host's
    memory: of all ranges that fit the one for which the cost model predicts the shortest time, copies included. A
    remark shows the split as a table, `rt.split` on the module records it.

    ```mlir
    intarsia-opt model.mlir --partition-fit=memory=8GB
    ```
    It is an error if no layer fits, and if the module has no GPU or no other device.
  }];
  let options = [Option<"memory", "memory", "std::string", /*default=*/"", "The most memory of the GPU: 8GB">];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

def PartitionAddCandidates : Pass<"partition-add-candidates", "::mlir::ModuleOp"> {
  let summary = "Adds functions that find the likeliest next tokens on the device that computes logits";
  let description = [{
    Logits of a large vocabulary are half a megabyte a token, and a sampler needs few of them. For each forward step (a
    function with state and a result `logits`) whose logits are computed on a device with a memory of its own, or will be
    in an alternative of the function, this pass adds a function of the same name and `_candidates`, on the same device:
    the 64 largest logits of each row, and the denominators of the softmax at two temperatures, 1 and the sampler's. A
    function that has this name already is kept.

    ```mlir
    func.func @step_candidates(%logits: tensor<?x32000xf32> …, %temperatures: tensor<?x2xf32> …) -> (…) {
      %values, %tokens, %sums = nn.candidates %logits, %temperatures {count = 64 : i64} : …
      return %values, %tokens, %sums : tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>
    }
    ```
  }];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::intarsia::rt::RtDialect"];
}

def PartitionAlternatives : Pass<"partition-alternatives", "::mlir::ModuleOp"> {
  let summary = "Each device that nothing is placed on gets the functions too";
  let description = [{
    A module that is compiled for several devices runs on whichever of them a machine has. For every device after the
    first on which no op is placed, each function is copied with all its ops on that device; `rt.alternative` names the
    function that the copy stands for. Of a function and its alternatives the runtime takes the first whose devices are
    there.

    ```mlir
    func.func @main(…) { %y = nn.relu %x : … }
    func.func @main.reference(…) attributes {rt.alternative = "main"} { %y = nn.relu %x {rt.device = @reference} : … }
    ```
  }];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

def PartitionLayOutCaches : Pass<"partition-lay-out-caches", "::mlir::ModuleOp"> {
  let summary = "Fixes the size of pages and their order in key/value caches";
  let description = [{
    Asks the targets of the devices that use a cache how its pages are laid out (`Target::cacheLayout`), and writes the
    answer into the cache's format, types and names of sizes. All caches of a function share its page table, so that
    their pages have one size: the first that a device prefers and all take, in the order of the caches. The order of a
    page is that of the device whose memory it is in. A cache whose format has a page already stays as it is, and the
    others get pages of its size.

    ```mlir
    %k1 = nn.cache_append(%k) <keys, f16>, … : (tensor<?x2x?x64xf16>, …
    // on a CPU
    %k1 = nn.cache_append(%k) <keys, f16, page = 32, transposed>, … : (tensor<?x2x64x32xf16>, …
    ```
  }];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect"];
}

def PartitionShard : Pass<"partition-shard", "::mlir::ModuleOp"> {
  let summary = "Splits functions over the ranks of a world";
  let description = [{
    Each function becomes one for each rank, with a part of the weights and caches. Attention is split by heads, the
    linears before it by their results and the one behind it by its inputs; feed-forward layers and experts are split by
    their inner features (arXiv 1909.08053, section 3). Where a linear has multiplied a part of its inputs, ranks add
    their results (`shard.all_reduce`); a large linear that gives a result of the function is split by its results, which
    are gathered (`shard.all_gather`). Ranks that are more than the heads of keys share these. Parts consist of whole
    heads and whole blocks of quantized weights; those of slower ranks are smaller. What cannot be split is computed by
    each rank.

    ```mlir
    intarsia-opt model.mlir --partition-shard=world=2
    ```
    With `experts=2` one half of the ranks has one half of the experts, and the ranks of a half have parts of each of
    them. All ranks have all tokens: each computes what its experts add, with an index of -1 where a token has chosen
    those of another rank, and the sum over the ranks is whole. Nothing is sent to a rank for an expert, so that no expert
    has a capacity.

    A function that is a stage of a pipeline becomes one for each of the ranks that share the stage: they are a row of the
    grid. It is an error if nothing of the module can be split over so many ranks.
  }];
  let options = [Option<"world", "world", "int64_t", /*default=*/"1", "Number of ranks that share a function">,
                 Option<"experts", "experts", "int64_t", /*default=*/"1",
                        "Groups of these ranks with different experts; a divisor of their number">,
                 Option<"text", "text", "std::string", /*default=*/"", "What --partition says, for messages">,
                 ListOption<"speeds", "speeds", "double", "Speed of each rank against the others; default: all are equal">];
  let dependentDialects = ["::intarsia::rt::RtDialect", "::intarsia::nn::NnDialect", "::mlir::shard::ShardDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect"];
}

def PartitionPipeline : Pass<"partition-pipeline", "::mlir::ModuleOp"> {
  let summary = "Splits functions into stages that ranks run one after another";
  let description = [{
    Each function becomes one for each rank, with the ops of some neighbouring layers, their weights and their caches.
    What a later stage reads is sent to it (`shard.send`, `shard.recv`), results go to all ranks (`shard.broadcast`).
    What is computed of inputs alone is computed by every rank. Layers are cut so that the slowest stage is as fast as
    the cost model says it can be, for ranks of the given speeds.

    ```mlir
    intarsia-opt model.mlir --partition-pipeline='world=2 speeds=1,0.35'
    ```
    With `turns=2` each rank gets two functions: of four stages the first and the third are the first rank's. Parts of a
    call go from the last rank to the first again (`rt.turn`, `rt.order`). The function of the last turn gives the
    results.

    It is an error if there are more stages than layers, or control flow, and with several turns if a function keeps no
    caches or has results of an earlier stage than the last.
  }];
  let options = [Option<"world", "world", "int64_t", /*default=*/"1", "Number of ranks">,
                 Option<"turns", "turns", "int64_t", /*default=*/"1", "Stages of each rank">,
                 Option<"order", "order", "std::string", /*default=*/"\"interleaved\"",
                        "How parts of a call go through several turns: interleaved or breadth-first">,
                 Option<"text", "text", "std::string", /*default=*/"\"pipeline\"",
                        "What --partition says, for messages">,
                 Option<"figures", "figures", "std::string", /*default=*/"\"\"",
                        "A file of intarsia-plan --probe, whose times are those of a rank; default: the device's figures">,
                 ListOption<"speeds", "speeds", "double", "Speed of each rank against the others; default: all are equal">];
  let dependentDialects = ["::intarsia::rt::RtDialect", "::intarsia::nn::NnDialect", "::mlir::shard::ShardDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
}

def PartitionRows : Pass<"partition-rows", "::mlir::ModuleOp"> {
  let summary = "Splits calls of functions over ranks, by their rows";
  let description = [{
    Each function becomes one for each rank, which computes some of the rows of a call with all of the weights: examples
    of a batch, or tokens of a language model's call, whose keys and values all ranks gather and keep (context parallel
    attention by gathered keys: arXiv 2407.21783, section 3.3.2). Rows are dimensions whose size is the first one of an
    input, or a multiple of it. What needs all rows, such as updates of caches and results, gets them by
    `shard.all_gather`; what mixes rows is computed by each rank. Each rank computes as many rows: those of the last ranks
    repeat the last row where rows are no multiple of the ranks.

    With `heads`, ranks have the caches of some heads each. Queries, and keys and values that are stored, go from the ranks
    that have their rows to those that have their heads by `shard.all_to_all`, and what attention gives goes back (arXiv
    2309.14509, section 3).

    ```mlir
    intarsia-opt model.mlir --partition-rows='world=2 kind=context heads'
    ```
    It is an error if a function has control flow, if no input has a first size that is open, or if heads are no multiple
    of the ranks.
  }];
  let options = [Option<"world", "world", "int64_t", /*default=*/"1", "Number of ranks">,
                 Option<"kind", "kind", "std::string", /*default=*/"\"data\"",
                        "context for functions that keep caches, data for others">,
                 Option<"heads", "heads", "bool", /*default=*/"false", "Attention and caches by heads">];
  let dependentDialects = ["::intarsia::rt::RtDialect", "::intarsia::nn::NnDialect", "::mlir::shard::ShardDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect"];
}

def PartitionSequence : Pass<"partition-sequence", "::mlir::ModuleOp"> {
  let summary = "Norms and residuals between layers that ranks share: some rows on each rank";
  let description = [{
    In functions of ranks that share layers, a sum over the ranks that norms and residuals read becomes one of which each
    rank gets some rows (`shard.reduce_scatter`). Norms, residuals and other elementwise ops are computed for these rows,
    and all rows are gathered in front of what needs them, such as linears (arXiv 2205.05198, section 4.2.2). Rows are
    all dimensions in front of the features, as one. Of n ranks each has `ceil(rows / n)`; those behind the last row
    repeat it.

    ```mlir
    intarsia-opt model.mlir --partition-shard=world=2 --partition-sequence
    ```
    It is an error if no norm or residual reads such a sum.
  }];
  let options = [Option<"text", "text", "std::string", /*default=*/"\"tensor,sequence\"",
                        "What --partition says, for messages">];
  let dependentDialects = ["::intarsia::rt::RtDialect", "::intarsia::nn::NnDialect", "::mlir::shard::ShardDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect"];
}

def PartitionMessages : Pass<"partition-messages", "::mlir::ModuleOp"> {
  let summary = "Sums over ranks: their messages between hosts in 8 bits";
  let description = [{
    Marks the grid (`rt.messages = "int8"`) so that sums of f32 over ranks (`shard.all_reduce`, `shard.reduce_scatter`)
    round their messages between hosts to 8 bits, with a scale for each 32 elements. A remark says how many sums there
    are, and what a message of them is at the expected sizes; `rt.messages` on the module records it. It is an error if
    the ranks add up nothing.

    ```mlir
    intarsia-opt model.mlir --partition-shard=world=2 --partition-messages
    ```
  }];
  let dependentDialects = ["::intarsia::rt::RtDialect", "::mlir::shard::ShardDialect"];
}

def PartitionSearch : Pass<"partition-search", "::mlir::ModuleOp"> {
  let summary = "Chooses how ranks share a model, by cost";
  let description = [{
    Each way that the compiler can carry out (`partition-shard`, `partition-pipeline`, products of them) is tried on a
    copy of the module.
    The cost model follows the ranks through their functions at the expected sizes: each op is a kernel of its own,
    exchanges take as long as the figures for shared memory say, or those of the network for ranks of different `hosts`,
    which share the adapter of a host. The way with the shortest step whose fullest rank has
    no more than `memory` (weights, caches of one sequence of full length) is carried out. A remark shows all of them with
    the reason why they lost; `rt.partition` on the module records it.

    With a `load`, the time is that of all its prompts and tokens instead of a call's: prompts are computed in parts, which
    go through the stages of a pipeline one behind the other, and so do parts of the sequences that are continued
    (`RankTimes.h`). The sizes of its calls become `nn.expected_sizes`, its caches count in `memory`. With `partition`
    only that way is tried and carried out: the remark says what it takes.

    ```mlir
    intarsia-opt model.mlir --partition-search='world=2 memory=8GB'
    ```
    It is an error if no way can be carried out, with the reason of each, and if none fits, with the least memory that
    would do.
  }];
  let options = [Option<"world", "world", "int64_t", /*default=*/"1", "Number of ranks">,
                 Option<"partition", "partition", "std::string", /*default=*/"\"auto\"",
                        "auto, or the one way whose times are predicted">,
                 Option<"memory", "memory", "std::string", /*default=*/"", "The most memory of a rank: 8GB">,
                 ListOption<"hosts", "hosts", "int64_t", "Ranks of each host, in their order; default: all are on one">,
                 Option<"network", "network", "std::string", /*default=*/"", "Between hosts: 10Gbit/s,50us">,
                 Option<"messages", "rounds-messages", "bool", /*default=*/"false", "Sums send 8 bits an element between hosts">,
                 Option<"loadOption", "load", "std::string", /*default=*/"",
                        "What the ranks have to do: sequences:8,prompt:512,tokens:128">,
                 Option<"figures", "figures", "std::string", /*default=*/"",
                        "A file of intarsia-plan --probe, whose times are those of a rank; default: the device's figures">,
                 ListOption<"speeds", "speeds", "double", "Speed of each rank against the others; default: all are equal">];
}

#endif
