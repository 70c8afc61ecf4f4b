// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op has no size: what reads it, or writes it token by token, costs time; say how much it produces, such as produces <300 tokens, p95 = 700>}}
  %0 = agent.llm @m(%a) : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op produces seconds, '!agent.text' is counted in tokens}}
  %0 = agent.llm @m(%a) produces <3 seconds> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op names @mm, but there is no such agent.model; did you mean 'm'?}}
  %0 = agent.llm @mm(%a) produces <3 tokens> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op has neither inputs nor instruction_tokens: its prompt is empty}}
  %0 = agent.llm @m() produces <3 tokens> : () -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op instruction_tokens is 0, must be between 1 and 100000000}}
  %0 = agent.llm @m(%a) produces <3 tokens> {instruction_tokens = 0} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op has shared_instructions, but no instruction_tokens}}
  %0 = agent.llm @m(%a) produces <3 tokens> {shared_instructions} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op label is empty}}
  %0 = agent.llm @m(%a) produces <3 tokens> {label = ""} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op label has the control character U+000A, which no name or text may have; leave it out}}
  %0 = agent.llm @m(%a) produces <3 tokens> {label = "a\0Atouch pwned"} : (!agent.text) -> !agent.text
  agent.return
}

// -----

// U+009B begins a command of a terminal; letters of other scripts, in two bytes or more, are no control characters.
agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  %0 = agent.llm @m(%a) produces <3 tokens> {label = "r\C3\A9ponse \E7\AD\94"} : (!agent.text) -> !agent.text
  // expected-error@+1 {{'agent.branch' op names has the control character U+009B}}
  agent.branch : () -> ()
    case 0.5 "a\C2\9B" {
      agent.yield
    }
    case 0.5 "b" {
      agent.yield
    }
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op together is empty}}
  %0 = agent.llm @m(%a) produces <3 tokens> {together = ""} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op apart is empty}}
  %0 = agent.llm @m(%a) produces <3 tokens> {apart = ""} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op names @dc::@fast, but there is no 'dc'}}
  %0 = agent.llm @m(%a) produces <3 tokens> {place = #fleet.placement<@dc::@fast>} : (!agent.text) -> !agent.text
  agent.return
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 per_node 8
}
agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op names @dc::@fasst, but there is no such fleet.pool; did you mean 'fast'?}}
  %0 = agent.llm @m(%a) produces <3 tokens> {place = #fleet.placement<@dc::@fasst>} : (!agent.text) -> !agent.text
  agent.return
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 per_node 8
}
agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op is placed on 24 devices of @dc::@fast (3 replicas of 8), which has 16}}
  %0 = agent.llm @m(%a) produces <3 tokens> {place = #fleet.placement<@dc::@fast, tensor = 4, pipeline = 2, replicas = 3>} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.data {agent.size = #agent.amount<4 bytes>}) {
  // expected-error@+1 {{'agent.llm' op reads '!agent.data', which no encoder makes tokens of; turn it into text first, by agent.compute}}
  %0 = agent.llm @m(%a) produces <3 tokens> : (!agent.data) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.audio {agent.size = #agent.amount<4 seconds>}) {
  // expected-error@+1 {{'agent.llm' op reads '!agent.audio', but @m has no encoder for 'audio'; add encoders = {audio = @encoder} to the model}}
  %0 = agent.llm @m(%a) produces <3 tokens> : (!agent.audio) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.infer' op has no size}}
  %0 = agent.infer @m(%a) : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.infer' op names @n, but there is no such agent.model}}
  %0 = agent.infer @n(%a) produces <3 tokens> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.tool @web takes <5 ms>
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.invoke' op has no size}}
  %0 = agent.invoke @web(%a) : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.tool @web takes <5 ms>
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.invoke' op names @wep, but there is no such agent.tool; did you mean 'web'?}}
  %0 = agent.invoke @wep(%a) produces <3 tokens> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.index @kb {vectors = 100, dimension = 384, chunk_tokens = 100, embedder = @vit}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.retrieve' op top_k is 0, must be between 1 and 1000000}}
  %0 = agent.retrieve @kb(%a) {top_k = 0} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.index @kb {vectors = 100, dimension = 384, chunk_tokens = 100, embedder = @vit}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.retrieve' op finds the 200 nearest of @kb, which has 100 vectors}}
  %0 = agent.retrieve @kb(%a) {top_k = 200} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.index @kb {vectors = 100, dimension = 384, chunk_tokens = 100, embedder = @vit}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.retrieve' op produces vectors, '!agent.text' is counted in tokens}}
  %0 = agent.retrieve @kb(%a) produces <3 vectors> {top_k = 2} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.index @kb {vectors = 100, dimension = 384, chunk_tokens = 100, embedder = @vit}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.retrieve' op names @kbb, but there is no such agent.index; did you mean 'kb'?}}
  %0 = agent.retrieve @kbb(%a) {top_k = 2} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.compute' op names no function}}
  %0 = agent.compute ""(%a) takes <4 ms> produces <3 tokens> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.compute' op takes tokens, must be in ms}}
  %0 = agent.compute "f"(%a) takes <4 tokens> produces <3 tokens> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.compute' op has no size}}
  %0 = agent.compute "f"(%a) takes <4 ms> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.compute' op names @dc::@fast, but there is no 'dc'}}
  %0 = agent.compute "f"(%a) takes <4 ms> produces <3 tokens> {place = #fleet.placement<@dc::@fast>} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.memory @notes reads <3 ms> writes <5 ms>
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.read' op has no size}}
  %0 = agent.read @notes(%a) : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.memory @notes reads <3 ms> writes <5 ms>
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.read' op names @note, but there is no such agent.memory; did you mean 'notes'?}}
  %0 = agent.read @note(%a) produces <3 tokens> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.memory @notes reads <3 ms> writes <5 ms>
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.write' op names @note, but there is no such agent.memory; did you mean 'notes'?}}
  agent.write @note(%a) : !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.prefill' op names @n, but there is no such agent.model}}
  %kv, %t = agent.prefill @n(%a) : (!agent.text) -> (!agent.kv, !agent.text)

  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.prefill' op instruction_tokens is -5, must be between 1 and 100000000}}
  %kv, %t = agent.prefill @m(%a) {instruction_tokens = -5} : (!agent.text) -> (!agent.kv, !agent.text)

  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  %kv, %t = agent.prefill @m(%a) : (!agent.text) -> (!agent.kv, !agent.text)
  %k = agent.kv_transfer %kv : !agent.kv
  // expected-error@+1 {{'agent.decode' op goes on from a cache of @m with @vit, must be the same model}}
  %0 = agent.decode @vit(%k, %t) produces <3 tokens> : (!agent.kv, !agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  %kv, %t = agent.prefill @m(%a) : (!agent.text) -> (!agent.kv, !agent.text)
  // expected-error@+1 {{'agent.decode' op has no size}}
  %0 = agent.decode @m(%kv, %t) : (!agent.kv, !agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}, %b: !agent.image {agent.size = #agent.amount<4096 pixels>}) {
  %kv, %t = agent.prefill @vit(%a) : (!agent.text) -> (!agent.kv, !agent.text)
  %0 = agent.decode @vit(%kv, %t) produces <3 tokens> : (!agent.kv, !agent.text) -> !agent.text
  // expected-error@+1 {{'agent.encode' op asks @m, which has no tokens_per_unit: nothing says how many tokens it makes}}
  %f = agent.encode @m(%b) : (!agent.image) -> !agent.features
  agent.return
}

// -----

agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.encode' op encodes '!agent.text', must be an image, audio or video}}
  %0 = agent.encode @vit(%a) : (!agent.text) -> !agent.features
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.embed' op names @n, but there is no such agent.model}}
  %0 = agent.embed @n(%a) : (!agent.text) -> !agent.vector
  agent.return
}

// -----

agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.index @kb {vectors = 100, dimension = 384, chunk_tokens = 100, embedder = @vit}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.search' op top_k is -1, must be between 1 and 1000000}}
  %0 = agent.search @kb(%a) {top_k = -1} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.index @kb {vectors = 100, dimension = 384, chunk_tokens = 100, embedder = @vit}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.search' op finds the 101 nearest of @kb, which has 100 vectors}}
  %0 = agent.search @kb(%a) {top_k = 101} : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  %kv, %t = agent.prefill @m(%a) : (!agent.text) -> (!agent.kv, !agent.text)
  // expected-error@+1 {{'agent.kv_transfer' op bytes is -1, must not be negative}}
  %0 = agent.kv_transfer %kv {bytes = -1.0} : !agent.kv
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.transfer' op milliseconds is NaN, must be a number}}
  %0 = agent.transfer %a {milliseconds = 0x7FF8000000000000 : f64} : !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.transfer' op names @dc::@x, but there is no 'dc'}}
  %0 = agent.transfer %a from @dc::@x : !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.stream' op streams every seconds, must be in tokens}}
  %0 = agent.stream %a every <3 seconds> : !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // A value of a later task: a cycle, which only a loop may make.
  // expected-error@+1 {{operand #0 does not dominate this use}}
  %0 = agent.llm @m(%1) produces <3 tokens> : (!agent.text) -> !agent.text
  // expected-note@+1 {{operand defined here}}
  %1 = agent.llm @m(%0) produces <3 tokens> : (!agent.text) -> !agent.text
  agent.return
}

// -----

// expected-error@+1 {{'agent.model' op has no attribute 'precision'; did you mean 'precisions'?}}
agent.model @m {shape = "s", precision = ["bf16"]}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 per_node 8
}
agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op has no attribute 'plce'; did you mean 'place'?}}
  %0 = agent.llm @m(%a) produces <3 tokens> {plce = #fleet.placement<@dc::@fast>} : (!agent.text) -> !agent.text
  agent.return
}

// -----

// What has a dialect's prefix is somebody else's.
agent.model @m {shape = "s", test.note = 1 : i64}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.stream' op streams every 0 tokens, must be more: a consumer starts when so much is there}}
  %0 = agent.stream %a every <0 tokens> : !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.llm' op produces no tokens, must produce more than 0; a task that may not be needed belongs into a case of an agent.branch}}
  %0 = agent.llm @m(%a) produces <0 tokens> : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  %kv, %first = agent.prefill @m(%a) : (!agent.text) -> (!agent.kv, !agent.text)
  // expected-error@+1 {{'agent.decode' op produces no tokens, must produce more than 0; a task that may not be needed belongs into a case of an agent.branch}}
  %0 = agent.decode @m(%kv, %first) produces <0 tokens> : (!agent.kv, !agent.text) -> !agent.text
  agent.return
}
