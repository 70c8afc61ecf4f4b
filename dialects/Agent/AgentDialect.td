//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_AGENT_DIALECT
#define INTARSIA_AGENT_DIALECT

include "dialects/Fleet/FleetAttrs.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Agent_Dialect : Dialect {
  let name = "agent";
  let cppNamespace = "::intarsia::agent";
  let summary = "A workflow as a graph of tasks with expected sizes and probabilities";
  let description = [{
    A graph says what happens to one request: which models are asked, which tools are called, what flows between them,
    how large it is and how often it happens. It is what a planner places, not what computes the answer.

    ```mlir
    agent.model @llama70b {shape = "llama-3.1-70b"}
    agent.model @minilm {shape = "all-minilm-l6-v2"}
    agent.index @kb {vectors = 10000000, dimension = 384, chunk_tokens = 100, embedder = @minilm}
    agent.graph @support(%q: !agent.text {agent.size = #agent.amount<400 tokens, p95 = 900>}) -> !agent.text
        attributes {sla = #agent.sla<p95_ms = 3000, ttft_ms = 250, tbt_ms = 20, requests_per_second = 20>} {
      %docs = agent.retrieve @kb(%q) {top_k = 8 : i64} : (!agent.text) -> !agent.text
      %a = agent.llm @llama70b(%q, %docs) produces <300 tokens, p95 = 700, max = 1024>
          : (!agent.text, !agent.text) -> !agent.text
      agent.return %a : !agent.text
    }
    ```

    Values flow; a task starts when all its inputs are there (or their first part, behind `agent.stream`), tasks that do
    not need each other run at the same time. What runs again or not at all stands in a region of `agent.loop`,
    `agent.branch` or `agent.map`. Each task produces values of a size: `produces` says it where no rule does. A file's
    order matters for one thing only: reads of a memory see the writes before them.

    Attributes of arguments of graphs: `agent.size = #agent.amount<400 tokens>`, how much a request brings.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let dependentDialects = ["::intarsia::fleet::FleetDialect"];
}

class Agent_Op<string mnemonic, list<Trait> traits = []>
    : Op<Agent_Dialect, mnemonic, !listconcat([Fleet_KnownAttributes], traits)>;

//===-- Types -------------------------------------------------------------------------------------------------===//

class Agent_Type<string name, string typeMnemonic, string sentence> : TypeDef<Agent_Dialect, name> {
  let mnemonic = typeMnemonic;
  let summary = sentence;
}

def Agent_Text : Agent_Type<"Text", "text", "Text, counted in tokens">;
def Agent_Image : Agent_Type<"Image", "image", "Images, counted in pixels of all of them">;
def Agent_Audio : Agent_Type<"Audio", "audio", "Sound, counted in seconds">;
def Agent_Video : Agent_Type<"Video", "video", "Moving images, counted in seconds">;
def Agent_Data : Agent_Type<"Data", "data", "Anything else, counted in bytes">;
def Agent_Vector : Agent_Type<"Vector", "vector", "Embeddings, counted in vectors">;
def Agent_Features : Agent_Type<"Features", "features", "What an encoder makes of an image for a language model, counted in tokens">;
def Agent_Cache : Agent_Type<"Cache", "kv", "Keys and values of a language model for a request, counted in tokens">;

/// Values between tasks of a graph that is not decomposed.
def Agent_Value : AnyTypeOf<[Agent_Text, Agent_Image, Agent_Audio, Agent_Video, Agent_Data]>;
def Agent_AnyValue : AnyTypeOf<[Agent_Text, Agent_Image, Agent_Audio, Agent_Video, Agent_Data, Agent_Vector,
                                Agent_Features, Agent_Cache]>;
def Agent_Prompt : AnyTypeOf<[Agent_Text, Agent_Features]>;
def Agent_Promptable : AnyTypeOf<[Agent_Text, Agent_Image, Agent_Audio, Agent_Video, Agent_Data, Agent_Features]>;

//===-- Attributes --------------------------------------------------------------------------------------------===//

def Agent_Unit : I32EnumAttr<"Unit", "what an amount counts", [
    I32EnumAttrCase<"Tokens", 0, "tokens">, I32EnumAttrCase<"Pixels", 1, "pixels">,
    I32EnumAttrCase<"Seconds", 2, "seconds">, I32EnumAttrCase<"Bytes", 3, "bytes">,
    I32EnumAttrCase<"Vectors", 4, "vectors">, I32EnumAttrCase<"Milliseconds", 5, "ms">,
    I32EnumAttrCase<"Count", 6, "count">]> {
  let cppNamespace = "::intarsia::agent";
  let genSpecializedAttr = 0;
}

def Agent_AmountAttr : AttrDef<Agent_Dialect, "Amount"> {
  let mnemonic = "amount";
  let summary = "An amount that differs from request to request";
  let description = [{
    | written | meaning |
    |---|---|
    | `#agent.amount<400 tokens>` | always 400, as far as is known |
    | `#agent.amount<400 tokens, p95 = 900>` | mean 400, not above 900 in 95 of 100 requests: a lognormal |
    | `#agent.amount<ms, p50 = 200, p95 = 900, p99 = 2000>` | percentiles as measured; between them ln x is linear in the normal score |
    | `#agent.amount<300 tokens, p95 = 700, max = 1024>` | never above 1024: what would be is cut there; 300 and 700 are measured with the cut |

    | `#agent.amount<3.2, max = 8>` | a plain number: runs of a loop, items of a map |

    Units are `tokens`, `pixels`, `seconds`, `bytes`, `vectors`, `ms`, and `count`, which is left out. Rejected: a mean with several
    percentiles, one percentile without a mean, percentiles that do not grow, a percentile that no lognormal of this
    mean has (the 95th is at most 3.87 times the mean), what is negative, no number, or implausible in its unit.
  }];
  let parameters = (ins OptionalParameter<"::mlir::FloatAttr">:$mean, EnumParameter<Agent_Unit>:$unit,
                        OptionalParameter<"::mlir::DenseF64ArrayAttr">:$percents,
                        OptionalParameter<"::mlir::DenseF64ArrayAttr">:$values,
                        OptionalParameter<"::mlir::FloatAttr">:$max);
  let builders = [AttrBuilder<(ins "double":$mean, "Unit":$unit)>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the distribution of the amount: `ms` in milliseconds, every other unit as it is.
    ::intarsia::Amount getAmount() const;
    double getMeanValue() const { return getAmount().mean(); }
  }];
}

def Agent_SlaAttr : AttrDef<Agent_Dialect, "Sla"> {
  let mnemonic = "sla";
  let summary = "What a service promises";
  let description = [{
    `#agent.sla<p95_ms = 3000, ttft_ms = 250, tbt_ms = 20, requests_per_second = 20>`: from request to answer at a
    percentile (any `p<number>_ms`), time to the first token of each language model whose text leaves the graph, time
    between its tokens, both at the same percentile (the 95th if none is given), and the rate of requests. All are
    optional; without a rate a plan is for one request at a time.
  }];
  let parameters = (ins OptionalParameter<"::mlir::FloatAttr">:$percent,
                        OptionalParameter<"::mlir::FloatAttr">:$latencyMs,
                        OptionalParameter<"::mlir::FloatAttr">:$ttftMs, OptionalParameter<"::mlir::FloatAttr">:$tbtMs,
                        OptionalParameter<"::mlir::FloatAttr">:$requestsPerSecond);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Agent_WorkAttr : AttrDef<Agent_Dialect, "Work"> {
  let mnemonic = "work";
  let summary = "How often a task runs for a request";
  let description = [{
    `#agent.work<executions = 3.2, probability = 0.8>`: the expected number of executions, and the probability of at
    least one. `plan-expected-work` computes both from the loops, branches and maps around the task.
  }];
  let parameters = (ins OptionalParameter<"::mlir::FloatAttr">:$executions,
                        OptionalParameter<"::mlir::FloatAttr">:$probability);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif
