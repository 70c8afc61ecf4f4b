// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.device @gaudi3 {catalogue = "intel/gaudi3"}
  fleet.pool @fast of @h100 count 16 per_node 8
  fleet.pool @cheap of @gaudi3 count 32 per_node 8
  fleet.link @fast to @cheap {gigabytes_per_second = 50.0, microseconds = 10.0}
}

// CHECK: agent.model @vit {parameters = 6.750000e+08 : f64, tokens_per_unit = 1.275500e-03 : f64}
agent.model @vit {parameters = 6.75e8, tokens_per_unit = 1.2755e-3}
// CHECK: agent.model @llama70b {context_tokens = 131072 : i64, encoders = {image = @vit}, kv_bytes_per_token = 3.276800e+05 : f64, precisions = ["bf16", "fp8"], shape = "llama-3.1-70b"}
agent.model @llama70b {shape = "llama-3.1-70b", context_tokens = 131072 : i64, precisions = ["bf16", "fp8"], encoders = {image = @vit}, kv_bytes_per_token = 327680.0}
agent.model @minilm {parameters = 2.27e7}
agent.model @tts {parameters = 8.2e7, flops_per_output = 2.0e10}
// CHECK: agent.index @kb {chunk_tokens = 100 : i64, dimension = 384 : i64, embedder = @minilm, vectors = 10000000 : i64, visited = 1.000000e-03 : f64}
agent.index @kb {vectors = 10000000, dimension = 384, chunk_tokens = 100, embedder = @minilm, visited = 1.0e-3}
// CHECK: agent.index @hosted takes <40 ms, p95 = 90> {
agent.index @hosted takes <40 ms, p95 = 90> {vectors = 10000000, dimension = 384, chunk_tokens = 100}
// CHECK: agent.tool @web_search takes <ms, p50 = 200, p95 = 900, p99.9 = 4000, max = 10000> {concurrency = 50 : i64, dollars_per_call = 5.000000e-03 : f64, endpoint = "https://search.example", failure_probability = 2.000000e-02 : f64}
agent.tool @web_search takes <ms, p50 = 200, p95 = 900, p99.9 = 4000, max = 10000> {dollars_per_call = 5.0e-3, concurrency = 50, failure_probability = 0.02, endpoint = "https://search.example"}
// CHECK: agent.memory @notes reads <3 ms, p95 = 8> writes <5 ms>
agent.memory @notes reads <3 ms, p95 = 8> writes <5 ms>
agent.model @mixtral {shape = "mixtral-8x7b"}

// CHECK-LABEL: agent.graph @support(%{{.*}}: !agent.text {agent.size = #agent.amount<400 tokens, p95 = 900>}) -> !agent.text
// CHECK-SAME: attributes {sla = #agent.sla<p95_ms = 3000, ttft_ms = 250, tbt_ms = 20, requests_per_second = 20>}
agent.graph @support(%q: !agent.text {agent.size = #agent.amount<400 tokens, p95 = 900>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 3000, ttft_ms = 250, tbt_ms = 20, requests_per_second = 20>} {
  // CHECK: %[[D:.*]] = agent.retrieve @kb(%{{.*}}) {top_k = 8 : i64} : (!agent.text) -> !agent.text
  %docs = agent.retrieve @kb(%q) {top_k = 8} : (!agent.text) -> !agent.text
  // CHECK: agent.retrieve @hosted(%{{.*}}) produces <500 tokens> {top_k = 5 : i64}
  %more = agent.retrieve @hosted(%q) produces <500 tokens> {top_k = 5} : (!agent.text) -> !agent.text
  // CHECK: agent.llm @llama70b(%{{.*}}, %[[D]], %{{.*}}) produces <300 tokens, p95 = 700, max = 1024> {apart = "a", instruction_tokens = 250 : i64, label = "answer", place = #fleet.placement<@dc::@fast, tensor = 2, replicas = 3, batch = 8>, shared_instructions, together = "t"} : (!agent.text, !agent.text, !agent.text) -> !agent.text
  %a = agent.llm @llama70b(%q, %docs, %more) produces <300 tokens, p95 = 700, max = 1024>
      {instruction_tokens = 250, shared_instructions, label = "answer", together = "t", apart = "a",
       place = #fleet.placement<@dc::@fast, tensor = 2, replicas = 3, batch = 8>}
      : (!agent.text, !agent.text, !agent.text) -> !agent.text
  // CHECK: agent.return %{{.*}} : !agent.text
  agent.return %a : !agent.text
}

// CHECK-LABEL: agent.graph private @tasks
agent.graph private @tasks(%q: !agent.text {agent.size = #agent.amount<400 tokens>},
                           %photo: !agent.image {agent.size = #agent.amount<1048576 pixels>},
                           %unused: !agent.video) -> (!agent.text, !agent.audio) {
  // CHECK: agent.call @support(%{{.*}}) {label = "ask"} : (!agent.text) -> !agent.text
  %0 = agent.call @support(%q) {label = "ask"} : (!agent.text) -> !agent.text
  // CHECK: agent.invoke @web_search(%{{.*}}) produces <300 tokens> : (!agent.text) -> !agent.text
  %1 = agent.invoke @web_search(%0) produces <300 tokens> : (!agent.text) -> !agent.text
  // CHECK: agent.invoke @web_search() produces <20000 bytes> : () -> !agent.data
  %2 = agent.invoke @web_search() produces <20000 bytes> : () -> !agent.data
  // CHECK: agent.compute "rerank"(%{{.*}}, %{{.*}}) takes <4 ms> produces <200 tokens, max = 512> {work = #agent.work<executions = 3.2, probability = 0.8>} : (!agent.text, !agent.data) -> !agent.text
  %3 = agent.compute "rerank"(%1, %2) takes <4 ms> produces <200 tokens, max = 512> {work = #agent.work<executions = 3.2, probability = 0.8>} : (!agent.text, !agent.data) -> !agent.text
  // CHECK: agent.write @notes(%{{.*}}) : !agent.text
  agent.write @notes(%3) : !agent.text
  // CHECK: agent.read @notes(%{{.*}}) produces <100 tokens> : (!agent.text) -> !agent.text
  %4 = agent.read @notes(%q) produces <100 tokens> : (!agent.text) -> !agent.text
  // CHECK: agent.join %{{.*}}, %{{.*}}, %{{.*}} : !agent.text
  %5 = agent.join %q, %3, %4 : !agent.text
  // CHECK: agent.llm @llama70b(%{{.*}}, %{{.*}}) produces <50 tokens> : (!agent.text, !agent.image) -> !agent.text
  %6 = agent.llm @llama70b(%5, %photo) produces <50 tokens> : (!agent.text, !agent.image) -> !agent.text
  // CHECK: agent.stream %{{.*}} every <20 tokens> : !agent.text
  %7 = agent.stream %6 every <20 tokens> : !agent.text
  // CHECK: agent.infer @tts(%{{.*}}) produces <15 seconds, p95 = 30> : (!agent.text) -> !agent.audio
  %8 = agent.infer @tts(%7) produces <15 seconds, p95 = 30> : (!agent.text) -> !agent.audio
  agent.return %6, %8 : !agent.text, !agent.audio
}

// CHECK-LABEL: agent.graph @regions
agent.graph @regions(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> !agent.text {
  // CHECK: %[[B:.*]] = agent.branch on(%{{.*}}) {decide = "route"} : (!agent.text) -> !agent.text
  // CHECK-NEXT: case 0.7 "small" {
  // CHECK: agent.yield %{{.*}} : !agent.text
  // CHECK: case 0.3 "large" {
  %0 = agent.branch on(%q) {decide = "route"} : (!agent.text) -> !agent.text
    case 0.7 "small" {
      agent.yield %q : !agent.text
    }
    case 0.3 "large" {
      %l = agent.llm @llama70b(%q) produces <400 tokens> : (!agent.text) -> !agent.text
      agent.yield %l : !agent.text
    }
  // CHECK: agent.branch : () -> ()
  // CHECK-NEXT: case 1 "always" {
  agent.branch : () -> ()
    case 1 "always" {
      agent.write @notes(%0) : !agent.text
      agent.yield
    }
  // CHECK: agent.loop(%[[C:.*]] = %[[B]]) runs <3.2, max = 8> keeps_prefix {until = "answered"} : (!agent.text) -> !agent.text {
  %1 = agent.loop(%context = %0) runs <3.2, max = 8> keeps_prefix {until = "answered"} : (!agent.text) -> !agent.text {
    // CHECK: agent.llm @llama70b(%[[C]])
    %thought = agent.llm @llama70b(%context) produces <120 tokens> : (!agent.text) -> !agent.text
    %next = agent.join %context, %thought : !agent.text
    agent.yield %next : !agent.text
  }
  // CHECK: agent.loop() runs <1.5, max = 2> {run_probabilities = array<f64: 5.000000e-01, 5.000000e-01>} : () -> () {
  agent.loop() runs <1.5, max = 2> {run_probabilities = array<f64: 0.5, 0.5>} : () -> () {
    agent.yield
  }
  // CHECK: agent.map(%[[I:.*]] = %{{.*}}) width <20, p95 = 40> each <2000 tokens> {concurrency = 4 : i64} : (!agent.text) -> (!agent.text, !agent.text) {
  %2:2 = agent.map(%chunk = %1) width <20, p95 = 40> each <2000 tokens> {concurrency = 4} : (!agent.text) -> (!agent.text, !agent.text) {
    // CHECK: agent.yield %[[I]], %[[I]] : !agent.text, !agent.text
    agent.yield %chunk, %chunk : !agent.text, !agent.text
  }
  // CHECK: agent.map(%{{.*}} = %{{.*}}) width <4> : (!agent.text) -> !agent.text {
  %3 = agent.map(%chunk = %2#0) width <4> : (!agent.text) -> !agent.text {
    agent.yield %chunk : !agent.text
  }
  agent.return %3 : !agent.text
}

// CHECK-LABEL: agent.graph @pieces
agent.graph @pieces(%q: !agent.text {agent.size = #agent.amount<400 tokens>},
                    %photo: !agent.image {agent.size = #agent.amount<1048576 pixels>}) -> !agent.text {
  // CHECK: agent.embed @minilm(%{{.*}}) : (!agent.text) -> !agent.vector
  %v = agent.embed @minilm(%q) : (!agent.text) -> !agent.vector
  // CHECK: agent.search @kb(%{{.*}}) {top_k = 8 : i64} : (!agent.vector) -> !agent.text
  %docs = agent.search @kb(%v) {top_k = 8} : (!agent.vector) -> !agent.text
  // CHECK: agent.search @hosted(%{{.*}}) produces <800 tokens> {top_k = 8 : i64} : (!agent.text) -> !agent.text
  %more = agent.search @hosted(%q) produces <800 tokens> {top_k = 8} : (!agent.text) -> !agent.text
  // CHECK: agent.encode @vit(%{{.*}}) : (!agent.image) -> !agent.features
  %f = agent.encode @vit(%photo) : (!agent.image) -> !agent.features
  // CHECK: agent.transfer %{{.*}} from @dc::@fast to @dc::@cheap {bytes = 3.200000e+03 : f64, milliseconds = 1.000000e-01 : f64} : !agent.text
  %there = agent.transfer %docs from @dc::@fast to @dc::@cheap {bytes = 3200.0, milliseconds = 0.1} : !agent.text
  // CHECK: %[[KV:.*]], %[[FIRST:.*]] = agent.prefill @llama70b(%{{.*}}, %{{.*}}, %{{.*}}) {cached_tokens = #agent.amount<100 tokens>, instruction_tokens = 100 : i64, new_tokens = #agent.amount<2537 tokens>} : (!agent.text, !agent.text, !agent.features) -> (!agent.kv, !agent.text)
  %kv, %first = agent.prefill @llama70b(%q, %there, %f) {instruction_tokens = 100, new_tokens = #agent.amount<2537 tokens>, cached_tokens = #agent.amount<100 tokens>} : (!agent.text, !agent.text, !agent.features) -> (!agent.kv, !agent.text)
  // CHECK: %[[THERE:.*]] = agent.kv_transfer %[[KV]] : !agent.kv
  %0 = agent.kv_transfer %kv : !agent.kv
  // CHECK: agent.kv_transfer %[[THERE]] from @dc::@fast to @dc::@cheap {bytes = 3.900000e+08 : f64, milliseconds = 7.900000e+00 : f64} : !agent.kv
  %1 = agent.kv_transfer %0 from @dc::@fast to @dc::@cheap {bytes = 3.9e8, milliseconds = 7.9} : !agent.kv
  // CHECK: agent.decode @llama70b(%{{.*}}, %[[FIRST]]) produces <300 tokens> {context_tokens = #agent.amount<2637 tokens>} : (!agent.kv, !agent.text) -> !agent.text
  %a = agent.decode @llama70b(%1, %first) produces <300 tokens> {context_tokens = #agent.amount<2637 tokens>} : (!agent.kv, !agent.text) -> !agent.text
  %kv2, %first2 = agent.prefill @mixtral(%a) : (!agent.text) -> (!agent.kv, !agent.text)
  // CHECK: agent.decode @mixtral(%{{.*}}, %{{.*}}) produces <30 tokens> {label = "answer"} : (!agent.kv, !agent.text) -> !agent.text
  %b = agent.decode @mixtral(%kv2, %first2) produces <30 tokens> {label = "answer"} : (!agent.kv, !agent.text) -> !agent.text
  agent.return %b : !agent.text
}
