//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_AGENT_OPS
#define INTARSIA_AGENT_OPS

include "dialects/Agent/AgentDialect.td"
include "dialects/Fleet/FleetAttrs.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===-- What tasks name ---------------------------------------------------------------------------------------===//

def Agent_ModelOp : Agent_Op<"model", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A model that tasks ask";
  let description = [{
    `shape` names it among the published shapes of the catalogue, or a directory of Hugging Face or its `config.json`,
    relative to the file with the agents; `module` is a compiled one; otherwise its figures are given: `parameters` (a number), `flops_per_unit` of input (2 for each parameter, if it is not said) and
    `flops_per_output` for each unit of output. What stands here comes before what the catalogue says of the parameters of
    a shape.

    `context_tokens` bounds prompt and answer of a language model together. The planner has a language model's parameters,
    flops and cache from its `shape`, and refuses to be told them beside it; of one without shape it needs `parameters`
    and `kv_bytes_per_token`, what its cache takes in 16 bits, and derives a dense decoder of these sizes. `cache` is the
    element type of the cache: `bf16` if it is not said, `f16`, `fp8`, `int8`, `fp4` or `int4`. `precisions` are the element types that its weights may have, of `f32`, `f16`, `bf16`, `fp8`, `int8`, `fp4` and `int4`.
    `encoders` says which model makes tokens of what is no text; an encoder's `tokens_per_unit` is how many of a pixel or
    a second.

    ```mlir
    agent.model @vit {parameters = 6.75e8, tokens_per_unit = 1.2755e-3}
    agent.model @llama70b {shape = "llama-3.1-70b", precisions = ["bf16", "fp8"], encoders = {image = @vit}}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$shape, OptionalAttr<StrAttr>:$module,
                       OptionalAttr<F64Attr>:$parameters, OptionalAttr<F64Attr>:$flops_per_unit,
                       OptionalAttr<F64Attr>:$flops_per_output, OptionalAttr<F64Attr>:$tokens_per_unit,
                       OptionalAttr<F64Attr>:$kv_bytes_per_token, OptionalAttr<I64Attr>:$context_tokens,
                       OptionalAttr<StrArrayAttr>:$precisions, OptionalAttr<StrAttr>:$cache,
                       OptionalAttr<DictionaryAttr>:$encoders);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

def Agent_IndexOp : Agent_Op<"index", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Texts that are found by their vectors";
  let description = [{
    `vectors` of `dimension` numbers, `bytes_per_vector` each (4 a number, if it is not said), of texts of `chunk_tokens`
    tokens. A search reads the fraction `visited` of them: 1, which is all, for a flat index. `embedder` makes vectors of
    queries. An index that somebody else runs has no embedder but `takes` a time.

    ```mlir
    agent.index @kb {vectors = 10000000, dimension = 384, chunk_tokens = 100, embedder = @minilm, visited = 1.0e-3}
    agent.index @hosted takes <40 ms, p95 = 90> {vectors = 10000000, dimension = 384, chunk_tokens = 100}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<Agent_AmountAttr>:$latency, I64Attr:$vectors,
                       I64Attr:$dimension, I64Attr:$chunk_tokens, OptionalAttr<FlatSymbolRefAttr>:$embedder,
                       OptionalAttr<I64Attr>:$bytes_per_vector, OptionalAttr<F64Attr>:$visited);
  let assemblyFormat = "$sym_name (`takes` $latency^)? attr-dict";
  let hasVerifier = 1;
}

def Agent_ToolOp : Agent_Op<"tool", [Symbol]> {
  let summary = "Something outside that tasks call";
  let description = [{
    `takes` is the time of a call, `dollars_per_call` its price, `concurrency` how many calls may be under way at once
    (of all requests and all tasks that name this tool), `failure_probability` how often a call must be made again,
    `endpoint` where it is.

    ```mlir
    agent.tool @web_search takes <350 ms, p95 = 900> {dollars_per_call = 5.0e-3, concurrency = 50}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Agent_AmountAttr:$latency, OptionalAttr<F64Attr>:$dollars_per_call,
                       OptionalAttr<I64Attr>:$concurrency, OptionalAttr<F64Attr>:$failure_probability,
                       OptionalAttr<StrAttr>:$endpoint);
  let assemblyFormat = "$sym_name `takes` $latency attr-dict";
  let hasVerifier = 1;
}

def Agent_MemoryOp : Agent_Op<"memory", [Symbol]> {
  let summary = "A store of what was observed, kept between tasks and requests";
  let description = [{
    `concurrency` is how many reads and writes may be under way at once, of all requests and all tasks that name this
    memory; the planner does not count writes that nothing waits for.

    ```mlir
    agent.memory @notes reads <3 ms, p95 = 8> writes <5 ms>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Agent_AmountAttr:$read_latency, Agent_AmountAttr:$write_latency,
                       OptionalAttr<I64Attr>:$concurrency);
  let assemblyFormat = "$sym_name `reads` $read_latency `writes` $write_latency attr-dict";
  let hasVerifier = 1;
}

//===-- Graphs ------------------------------------------------------------------------------------------------===//

def Agent_GraphOp : Agent_Op<"graph", [IsolatedFromAbove, FunctionOpInterface, Symbol,
                                       DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "What happens to a request";
  let description = [{
    Arguments are what a request brings, with `agent.size`; `agent.return` gives the answer. `sla` is what the service
    promises. Rejected: an argument that is read and has no size; a graph that calls itself, directly or through others.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<Agent_SlaAttr>:$sla, OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// Returns the size that a request brings, null if it is not given.
    AmountAttr getArgumentSize(unsigned index) { return getArgAttrOfType<AmountAttr>(index, "agent.size"); }
  }];
}

def Agent_ReturnOp : Agent_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"GraphOp">]> {
  let summary = "The answer of a graph";
  let arguments = (ins Variadic<Agent_AnyValue>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Agent_YieldOp : Agent_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["BranchOp", "LoopOp", "MapOp"]>]> {
  let summary = "What a case, a run of a loop or an item of a map gives";
  let arguments = (ins Variadic<Agent_AnyValue>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Agent_CallOp : Agent_Op<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Another graph as a task of this one";
  let description = [{
    The callee's `sla` holds for requests to it alone, not for calls. `plan-inline-calls` puts its tasks here.

    ```mlir
    %a = agent.call @support(%q) : (!agent.text) -> !agent.text
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Agent_Value>:$inputs, OptionalAttr<StrAttr>:$label);
  let results = (outs Variadic<Agent_Value>:$results);
  let assemblyFormat = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
}

def Agent_BranchOp : Agent_Op<"branch", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "One of several ways to go on";
  let description = [{
    When the values in `on` are there, one case is taken, each with its probability; `decide` names the function that
    chooses. Rejected: probabilities that do not sum to 1, cases of the same name.

    ```mlir
    %a = agent.branch on(%class) {decide = "route"} : (!agent.text) -> !agent.text
      case 0.7 "small" {
        %s = agent.llm @small(%q) produces <200 tokens> : (!agent.text) -> !agent.text
        agent.yield %s : !agent.text
      }
      case 0.3 "large" {
        %l = agent.llm @large(%q) produces <400 tokens> : (!agent.text) -> !agent.text
        agent.yield %l : !agent.text
      }
    ```
  }];
  let arguments = (ins Variadic<Agent_Value>:$on, DenseF64ArrayAttr:$probabilities, StrArrayAttr:$names,
                       OptionalAttr<StrAttr>:$decide, OptionalAttr<StrAttr>:$label);
  let results = (outs Variadic<Agent_AnyValue>:$results);
  let regions = (region VariadicRegion<SizedRegion<1>>:$cases);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
}

def Agent_LoopOp : Agent_Op<"loop", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Tasks that run until they are done";
  let description = [{
    The region runs once, and again as long as the user's function `until` is not satisfied: `runs <3.2, max = 8>` says
    how often on average and at most. Carried values begin as the operands and become what is yielded; the results are
    what the last run yields. `run_probabilities` is the exact distribution, P(1), P(2), …, where it is known; without
    it `plan-expected-work` takes the one of largest entropy with this mean and bound.

    With `keeps_prefix` language models in the region keep their cache from one run to the next: what a prompt shares
    with that of the run before (see `plan-expected-work`) is not computed again.

    ```mlir
    %end = agent.loop(%context = %q) runs <3.2, max = 8> keeps_prefix {until = "answered"} : (!agent.text) -> !agent.text {
      %thought = agent.llm @llm(%context) produces <120 tokens> : (!agent.text) -> !agent.text
      %seen = agent.invoke @web_search(%thought) produces <300 tokens> : (!agent.text) -> !agent.text
      %next = agent.join %context, %thought, %seen : !agent.text
      agent.yield %next : !agent.text
    }
    ```
  }];
  let arguments = (ins Variadic<Agent_Value>:$initial, Agent_AmountAttr:$runs, UnitAttr:$keeps_prefix,
                       OptionalAttr<DenseF64ArrayAttr>:$run_probabilities, OptionalAttr<StrAttr>:$until,
                       OptionalAttr<StrAttr>:$label);
  let results = (outs Variadic<Agent_Value>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
}

def Agent_MapOp : Agent_Op<"map", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "The same tasks for each of several items, at the same time";
  let description = [{
    `width` items, each of size `each` (an equal share of the whole, if it is not said). The results join what the items
    yield. `concurrency` bounds how many items of a request are worked on at once.

    ```mlir
    %parts = agent.map(%chunk = %document) width <20, p95 = 40> each <2000 tokens> : (!agent.text) -> !agent.text {
      %s = agent.llm @small(%chunk) produces <150 tokens> : (!agent.text) -> !agent.text
      agent.yield %s : !agent.text
    }
    ```
  }];
  let arguments = (ins Agent_Value:$over, Agent_AmountAttr:$width, OptionalAttr<Agent_AmountAttr>:$each,
                       OptionalAttr<I64Attr>:$concurrency, OptionalAttr<StrAttr>:$label);
  let results = (outs Variadic<Agent_Value>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
}

//===-- What costs nothing ------------------------------------------------------------------------------------===//

def Agent_JoinOp : Agent_Op<"join", [Pure, SameOperandsAndResultType]> {
  let summary = "Texts one after another";
  let description = [{
    The size is the sum: a context that grows, a prompt of several parts.

    ```mlir
    %next = agent.join %context, %thought, %seen : !agent.text
    ```
  }];
  let arguments = (ins Variadic<Agent_Value>:$parts);
  let results = (outs Agent_Value:$result);
  let assemblyFormat = "$parts attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Agent_StreamOp : Agent_Op<"stream", [Pure, SameOperandsAndResultType]> {
  let summary = "An edge whose consumer need not wait for the end";
  let description = [{
    Consumers of the result start when the first `every` of the value is there, and work on such parts as they come.

    ```mlir
    %sentences = agent.stream %answer every <20 tokens> : !agent.text
    %speech = agent.infer @tts(%sentences) produces <15 seconds> : (!agent.text) -> !agent.audio
    ```
  }];
  let arguments = (ins Agent_Value:$value, Agent_AmountAttr:$every);
  let results = (outs Agent_Value:$result);
  let assemblyFormat = "$value `every` $every attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif
