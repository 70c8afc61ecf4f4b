//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_PASSES
#define INTARSIA_PLAN_PASSES

include "mlir/Pass/PassBase.td"

class PlanPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::intarsia::agent::AgentDialect"];
}

def PlanInlineCalls : PlanPass<"plan-inline-calls"> {
  let summary = "Inline called graphs";
  let description = [{
    Labels of the callee's tasks are prefixed with the label of the call, or the callee's name: `support/answer`. The
    callee's service-level bounds apply only to direct requests to it and are not inlined. Private graphs without
    remaining calls are removed; public ones stay as they are.
  }];
}

def PlanDecomposeMultimodal : PlanPass<"plan-decompose-multimodal"> {
  let summary = "Insert encoders for non-text inputs of language models";
  let description = [{
    Each image, audio or video that an `agent.llm` reads is encoded by an `agent.encode` with the encoder that the model
    names, and the model reads the features. Text stays. `cse` merges equal encodings of several models. `together`,
    `apart` and the pool of a placement by hand apply to the encoder too, its degrees, replicas and precision only to
    the language model.

    ```mlir
    %f = agent.encode @vit(%photo) : (!agent.image) -> !agent.features
    %a = agent.llm @m(%q, %f) produces <300 tokens> : (!agent.text, !agent.features) -> !agent.text
    ```
  }];
}

def PlanDecomposeLlm : PlanPass<"plan-decompose-llm"> {
  let summary = "Split language models into prefill, cache transfer and decode";
  let description = [{
    `agent.llm` becomes `agent.prefill`, `agent.kv_transfer` and `agent.decode`, so that reading and writing can be
    placed apart: the one is bound by arithmetic, the other by memory. A placement by hand, `together` and `apart` apply
    to both pieces. A non-text input is an error: run `plan-decompose-multimodal` first.
  }];
}

def PlanDecomposeRetrieve : PlanPass<"plan-decompose-retrieve"> {
  let summary = "Split retrievals into embedding the query and searching the index";
  let description = [{
    `agent.retrieve` becomes `agent.embed` by the index's embedder and `agent.search`; without an embedder, for an index
    that somebody else runs, only `agent.search`. `together`, `apart` and the pool of a placement by hand apply to both;
    its degrees, replicas and precision to the search. For an index that somebody else runs all of them apply only to
    the embedder, if there is one.
  }];
}

def PlanExpectedWork : PlanPass<"plan-expected-work"> {
  let summary = "Compute the expected executions and input sizes of each task";
  let description = [{
    Writes `work` on each task, `new_tokens` and `cached_tokens` on each prefill, `context_tokens` on each decode, and
    `run_probabilities` on each loop that has none. Nothing else changes, in particular not the structure, which
    percentiles need.

    **Executions.** Around a task, from the inside out, a case of probability p multiplies the expected executions by p,
    a loop by E[N], a map by E[W]. The probability of at least one execution becomes p times what it was; in a loop
    1 - sum over n of P(N = n) (1 - x)^n; in a map 1 - E[(1 - x)^W]. Choices in one run are independent of the next runs
    and of their number.

    **Runs of a loop.** Known are a mean and a bound. The pass takes the maximum-entropy distribution for them: P(n)
    proportional to r^n, a loop that continues with a fixed probability, cut off at the bound.

    **Sizes** are computed run by run: values that a loop carries grow, a branch gives the mixture of its cases, a join
    the sum. Run k counts with P(N > k), k = 0, 1, ….

    **Prefixes.** A prompt is a sequence of texts, each made once. With `keeps_prefix` a prefill finds the cache of its
    own last prompt in this loop, and computes only the tokens after the common prefix. Where a context of c
    tokens grows by g in each run, N runs compute

        without  N c + g N (N - 1) / 2        with  c + (N - 1) g

    A prefix ends where the texts differ: a context that is rewritten in each run shares nothing. Tokens that the model
    itself wrote in the run before count as new, because their cache is where the decode was. A prefill that only runs
    in a case of probability p finds the prompt of j runs ago with probability p (1 - p)^(j - 1). With
    `shared_instructions` the instructions are always found.

    It is an error if prompt and answer together exceed the model's `context_tokens` on average.
  }];
}

#endif
