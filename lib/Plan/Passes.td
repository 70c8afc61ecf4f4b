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
  let summary = "Puts the tasks of called graphs where they are called";
  let description = [{
    Labels of the callee's tasks get the label of the call, or the callee's name, in front: `support/answer`. The
    callee's promises hold for requests to it alone and are not taken over. Private graphs that nobody calls any more
    go; public ones stay as they are.
  }];
}

def PlanDecomposeMultimodal : PlanPass<"plan-decompose-multimodal"> {
  let summary = "What is no text goes through an encoder before a language model";
  let description = [{
    Each image, audio or video that an `agent.llm` reads becomes `agent.encode` by the encoder that its model names, and
    the model reads the features. Text stays. What several models encode in the same way is encoded once by `cse`.
    `together`, `apart` and the pool of a placement by hand hold for the encoder too, its degrees, replicas and precision
    for the language model alone.

    ```mlir
    %f = agent.encode @vit(%photo) : (!agent.image) -> !agent.features
    %a = agent.llm @m(%q, %f) produces <300 tokens> : (!agent.text, !agent.features) -> !agent.text
    ```
  }];
}

def PlanDecomposeLlm : PlanPass<"plan-decompose-llm"> {
  let summary = "A language model is a prefill, the way of its cache, and a decode";
  let description = [{
    `agent.llm` becomes `agent.prefill`, `agent.kv_transfer` and `agent.decode`, so that reading and writing can be
    placed apart: the one is bound by arithmetic, the other by memory. A placement by hand, `together` and `apart` hold
    for both pieces. One that still reads what is no text is an error: `plan-decompose-multimodal` comes before.
  }];
}

def PlanDecomposeExperts : PlanPass<"plan-decompose-experts"> {
  let summary = "The expert layers of a mixture of experts are a piece that its decode calls";
  let description = [{
    Before each `agent.decode` of a model whose shape in the catalogue has experts stands an `agent.experts` afterwards,
    which the decode calls, so that attention and experts can be placed apart: the one is bound by caches, which grow
    with each sequence, the other by weights, which all sequences share. `together` and `apart` hold for both. A
    placement by hand holds for both, too: experts are in the pool of the decode, and inside its replicas where more than
    the pool is said. To have them elsewhere, `agent.experts` is written by hand. A decode that has its experts already stays; so does one of a dense model, of
    a model without a shape, and of a shape that the catalogue does not have.

    ```mlir
    %e = agent.experts @mixtral : !agent.experts
    %a = agent.decode @mixtral(%kv, %first) experts %e produces <300 tokens>
        : (!agent.kv, !agent.text, !agent.experts) -> !agent.text
    ```
  }];
}

def PlanDecomposeRetrieve : PlanPass<"plan-decompose-retrieve"> {
  let summary = "Finding texts is embedding the query and searching the index";
  let description = [{
    `agent.retrieve` becomes `agent.embed` by the index's embedder and `agent.search`; of an index that somebody else
    runs the search alone. `together`, `apart` and the pool of a placement by hand hold for both; its degrees, replicas and
    precision for the search. Of an index that somebody else runs they hold for the embedder.
  }];
}

def PlanExpectedWork : PlanPass<"plan-expected-work"> {
  let summary = "How often each task runs for a request, and how much it reads then";
  let description = [{
    Writes `work` on each task, `new_tokens` and `cached_tokens` on each prefill, `context_tokens` on each decode, and
    `run_probabilities` on each loop that has none. All else stays, in particular the structure: percentiles need it.

    **Executions.** Around a task, from the inside out, a case of probability p multiplies the expected executions by p,
    a loop by E[N], a map by E[W]. The probability of at least one execution becomes p times what it was; in a loop
    1 - sum over n of P(N = n) (1 - x)^n; in a map 1 - E[(1 - x)^W]. What is chosen in one run says nothing of the next,
    nor of how many there are.

    **Runs of a loop.** Known are a mean and a bound. Of all distributions that have them the one of the largest entropy
    is taken: P(n) proportional to r^n, a loop that goes on with a fixed probability, cut off at the bound.

    **Sizes** are followed run by run: what a loop carries grows, a branch gives the mixture of its cases, a join the
    sum. Run k counts with P(N > k), k = 0, 1, ….

    **Prefixes.** A prompt is a sequence of texts, each made once. With `keeps_prefix` a prefill finds the cache of its
    own last prompt in this loop, and computes only what follows the texts that both begin with. Where a context of c
    tokens grows by g in each run, N runs compute

        without  N c + g N (N - 1) / 2        with  c + (N - 1) g

    A prefix ends where the texts differ: a context that is written anew in each run shares nothing. What the model
    itself wrote in the run before counts as new, because its cache is where the decode was. A prefill that only runs in
    a case of probability p finds the prompt of j runs ago with probability p (1 - p)^(j - 1). With
    `shared_instructions` the instructions are always found.

    A prompt and answer that are together longer than the model's `context_tokens` on average are an error.
  }];
}

#endif
