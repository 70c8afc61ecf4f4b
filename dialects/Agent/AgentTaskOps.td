//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_AGENT_TASK_OPS
#define INTARSIA_AGENT_TASK_OPS

include "dialects/Agent/AgentInterfaces.td"
include "dialects/Agent/AgentOps.td"

/// A task: `parameters` are its own arguments, beside those of every task.
class Agent_Task<string mnemonic, dag parameters, list<Trait> traits = []>
    : Agent_Op<mnemonic, traits # [DeclareOpInterfaceMethods<SymbolUserOpInterface>, Agent_TaskOpInterface]> {
  let arguments = !con(parameters, (ins OptionalAttr<StrAttr>:$label, OptionalAttr<Fleet_PlacementAttr>:$place,
                                        OptionalAttr<StrAttr>:$together, OptionalAttr<StrAttr>:$apart,
                                        OptionalAttr<Agent_WorkAttr>:$work));
}

//===-- Tasks as users write them -----------------------------------------------------------------------------===//

def Agent_LlmOp : Agent_Task<"llm", (ins FlatSymbolRefAttr:$model, Variadic<Agent_Promptable>:$inputs,
                                         OptionalAttr<Agent_AmountAttr>:$size,
                                         OptionalAttr<I64Attr>:$instruction_tokens, UnitAttr:$shared_instructions)> {
  let summary = "A language model answers";
  let description = [{
    The prompt is `instruction_tokens` that are the same for each request, then the inputs in their order. With
    `shared_instructions` their cache is kept between requests. Inputs that are neither text nor features go through the
    model's encoders.

    ```mlir
    %a = agent.llm @llama70b(%q, %docs) produces <300 tokens, p95 = 700, max = 1024> {instruction_tokens = 250 : i64}
        : (!agent.text, !agent.text) -> !agent.text
    ```
  }];
  let results = (outs Agent_Text:$text);
  let assemblyFormat = [{
    $model `(` $inputs `)` (`produces` $size^)? attr-dict `:` functional-type($inputs, results)
  }];
  let hasVerifier = 1;
}

def Agent_InferOp : Agent_Task<"infer", (ins FlatSymbolRefAttr:$model, Variadic<Agent_Value>:$inputs,
                                             OptionalAttr<Agent_AmountAttr>:$size)> {
  let summary = "A model that is no language model computes";
  let description = [{
    ```mlir
    %words = agent.infer @whisper(%speech) produces <60 tokens> : (!agent.audio) -> !agent.text
    ```
  }];
  let results = (outs Agent_Value:$result);
  let assemblyFormat = [{
    $model `(` $inputs `)` (`produces` $size^)? attr-dict `:` functional-type($inputs, results)
  }];
  let hasVerifier = 1;
}

def Agent_InvokeOp : Agent_Task<"invoke", (ins FlatSymbolRefAttr:$tool, Variadic<Agent_Value>:$inputs,
                                               OptionalAttr<Agent_AmountAttr>:$size)> {
  let summary = "A tool is called";
  let description = [{
    ```mlir
    %seen = agent.invoke @web_search(%thought) produces <300 tokens> : (!agent.text) -> !agent.text
    ```
  }];
  let results = (outs Agent_Value:$result);
  let assemblyFormat = [{
    $tool `(` $inputs `)` (`produces` $size^)? attr-dict `:` functional-type($inputs, results)
  }];
  let hasVerifier = 1;
}

def Agent_RetrieveOp : Agent_Task<"retrieve", (ins FlatSymbolRefAttr:$index, Agent_Text:$query,
                                                   OptionalAttr<Agent_AmountAttr>:$size, I64Attr:$top_k), [Pure]> {
  let summary = "Finds texts";
  let description = [{
    The `top_k` texts of an index nearest to the query: `top_k * chunk_tokens` tokens, if nothing else is said.

    ```mlir
    %docs = agent.retrieve @kb(%q) {top_k = 8 : i64} : (!agent.text) -> !agent.text
    ```
  }];
  let results = (outs Agent_Text:$texts);
  let assemblyFormat = [{
    $index `(` $query `)` (`produces` $size^)? attr-dict `:` functional-type($query, results)
  }];
  let hasVerifier = 1;
}

def Agent_ComputeOp : Agent_Task<"compute", (ins StrAttr:$function, Variadic<Agent_Value>:$inputs,
                                                 Agent_AmountAttr:$latency, OptionalAttr<Agent_AmountAttr>:$size)> {
  let summary = "A function of the user's program";
  let description = [{
    `takes` is its time on one core.

    ```mlir
    %best = agent.compute "rerank"(%docs) takes <4 ms> produces <300 tokens> : (!agent.text) -> !agent.text
    ```
  }];
  let results = (outs Agent_Value:$result);
  let assemblyFormat = [{
    $function `(` $inputs `)` `takes` $latency (`produces` $size^)? attr-dict `:` functional-type($inputs, results)
  }];
  let hasVerifier = 1;
}

def Agent_ReadOp : Agent_Task<"read", (ins FlatSymbolRefAttr:$memory, Variadic<Agent_Value>:$inputs,
                                           OptionalAttr<Agent_AmountAttr>:$size), [MemoryEffects<[MemRead]>]> {
  let summary = "Reads a memory";
  let description = [{
    Waits for the writes to the same memory before it in its region.

    ```mlir
    %notes = agent.read @notes(%q) produces <200 tokens> : (!agent.text) -> !agent.text
    ```
  }];
  let results = (outs Agent_Value:$result);
  let assemblyFormat = [{
    $memory `(` $inputs `)` (`produces` $size^)? attr-dict `:` functional-type($inputs, results)
  }];
  let hasVerifier = 1;
}

def Agent_WriteOp : Agent_Task<"write", (ins FlatSymbolRefAttr:$memory, Variadic<Agent_Value>:$inputs),
                               [MemoryEffects<[MemWrite]>]> {
  let summary = "Writes to a memory";
  let description = [{
    Nothing waits for it but reads of the same memory behind it.

    ```mlir
    agent.write @notes(%a) : !agent.text
    ```
  }];
  let assemblyFormat = "$memory `(` $inputs `)` attr-dict `:` type($inputs)";
}

//===-- Pieces of tasks, after decomposition ------------------------------------------------------------------===//

def Agent_PrefillOp : Agent_Task<"prefill", (ins FlatSymbolRefAttr:$model, Variadic<Agent_Prompt>:$inputs,
                                                 OptionalAttr<I64Attr>:$instruction_tokens,
                                                 UnitAttr:$shared_instructions,
                                                 OptionalAttr<Agent_AmountAttr>:$new_tokens,
                                                 OptionalAttr<Agent_AmountAttr>:$cached_tokens)> {
  let summary = "A language model reads its prompt";
  let description = [{
    Gives the cache of the prompt and the first token. `new_tokens` is what one execution computes, `cached_tokens` what
    it finds computed already: means over all executions of a request, written by `plan-expected-work`.

    ```mlir
    %kv, %first = agent.prefill @llama70b(%q, %docs) : (!agent.text, !agent.text) -> (!agent.kv, !agent.text)
    ```
  }];
  let results = (outs Agent_Cache:$cache, Agent_Text:$first);
  let assemblyFormat = "$model `(` $inputs `)` attr-dict `:` functional-type($inputs, results)";
}

def Agent_KvTransferOp : Agent_Op<"kv_transfer", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                                  SameOperandsAndResultType]> {
  let summary = "A cache goes from where it was made to where it is read";
  let description = [{
    Costs nothing where both are the same pool. `bytes` and `milliseconds` are the planner's.

    ```mlir
    %there = agent.kv_transfer %kv : !agent.kv
    %there = agent.kv_transfer %kv from @dc::@fast to @dc::@cheap {bytes = 3.9e8, milliseconds = 7.9} : !agent.kv
    ```
  }];
  let arguments = (ins Agent_Cache:$cache, OptionalAttr<SymbolRefAttr>:$source, OptionalAttr<SymbolRefAttr>:$destination,
                       OptionalAttr<F64Attr>:$bytes, OptionalAttr<F64Attr>:$milliseconds);
  let results = (outs Agent_Cache:$result);
  let assemblyFormat = [{
    $cache (`from` $source^)? (`to` $destination^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Agent_DecodeOp : Agent_Task<"decode", (ins FlatSymbolRefAttr:$model, Agent_Cache:$cache, Agent_Text:$first,
                                               OptionalAttr<Agent_AmountAttr>:$size,
                                               OptionalAttr<Agent_AmountAttr>:$context_tokens)> {
  let summary = "A language model writes its answer";
  let description = [{
    One token after another, the first of them from the prefill. `context_tokens` is what is in the cache when it
    begins, the mean over all executions of a request, written by `plan-expected-work`. Rejected: a cache of another
    model.

    ```mlir
    %a = agent.decode @llama70b(%kv, %first) produces <300 tokens> : (!agent.kv, !agent.text) -> !agent.text
    ```
  }];
  let results = (outs Agent_Text:$text);
  let assemblyFormat = [{
    $model `(` $cache `,` $first `)` (`produces` $size^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Agent_EncodeOp : Agent_Task<"encode", (ins FlatSymbolRefAttr:$model, Agent_Value:$input), [Pure]> {
  let summary = "An encoder makes tokens of what is no text";
  let description = [{
    ```mlir
    %f = agent.encode @vit(%photo) : (!agent.image) -> !agent.features
    ```
  }];
  let results = (outs Agent_Features:$features);
  let assemblyFormat = "$model `(` $input `)` attr-dict `:` functional-type($input, results)";
  let hasVerifier = 1;
}

def Agent_EmbedOp : Agent_Task<"embed", (ins FlatSymbolRefAttr:$model, Agent_Text:$query), [Pure]> {
  let summary = "A model makes a vector of a text";
  let description = [{
    ```mlir
    %v = agent.embed @minilm(%q) : (!agent.text) -> !agent.vector
    ```
  }];
  let results = (outs Agent_Vector:$vector);
  let assemblyFormat = "$model `(` $query `)` attr-dict `:` functional-type($query, results)";
}

def Agent_SearchOp : Agent_Task<"search", (ins FlatSymbolRefAttr:$index, AnyTypeOf<[Agent_Vector, Agent_Text]>:$query,
                                               OptionalAttr<Agent_AmountAttr>:$size, I64Attr:$top_k), [Pure]> {
  let summary = "An index is searched";
  let description = [{
    By a vector, or by text where the index is run by somebody else.

    ```mlir
    %docs = agent.search @kb(%v) {top_k = 8 : i64} : (!agent.vector) -> !agent.text
    ```
  }];
  let results = (outs Agent_Text:$texts);
  let assemblyFormat = [{
    $index `(` $query `)` (`produces` $size^)? attr-dict `:` functional-type($query, results)
  }];
  let hasVerifier = 1;
}

def Agent_TransferOp : Agent_Op<"transfer", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                             SameOperandsAndResultType]> {
  let summary = "A value goes from one pool to another";
  let description = [{
    Written by the planner where both ends of an edge lie apart.

    ```mlir
    %there = agent.transfer %docs from @dc::@fast to @dc::@cheap {bytes = 3200.0, milliseconds = 0.1} : !agent.text
    ```
  }];
  let arguments = (ins Agent_AnyValue:$value, OptionalAttr<SymbolRefAttr>:$source,
                       OptionalAttr<SymbolRefAttr>:$destination, OptionalAttr<F64Attr>:$bytes,
                       OptionalAttr<F64Attr>:$milliseconds);
  let results = (outs Agent_AnyValue:$result);
  let assemblyFormat = [{
    $value (`from` $source^)? (`to` $destination^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

#endif
