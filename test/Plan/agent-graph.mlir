// RUN: intarsia-test-opt %s --plan-decompose --test-agent-graph -o /dev/null | FileCheck %s
// RUN: not intarsia-test-opt %s --test-agent-graph -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHOLE

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 per_node 8
}
agent.model @m {shape = "s", kv_bytes_per_token = 1000.0}
agent.model @tts {parameters = 8.2e7}
agent.model @minilm {parameters = 2.27e7}
agent.index @kb {vectors = 10000, dimension = 384, chunk_tokens = 100, embedder = @minilm}
agent.tool @web takes <350 ms, p95 = 900>
agent.memory @notes reads <3 ms> writes <5 ms>

// WHOLE: error: 'agent.retrieve' is no piece that could be placed; run plan-decompose before
// CHECK-LABEL: graph rag, p95 3000 ms, ttft 250 ms, tbt 20 ms, 20 requests/s
// CHECK-NEXT: task find.embed: embed @minilm, 1 executions, probability 1, gives 1 vectors, with find.search
// CHECK-NEXT: task find.search: search @kb, 1 executions, probability 1, gives 800 tokens, with find.embed
// CHECK-NEXT: task m.prefill: prefill @m, 1 executions, probability 1, new 1200 (p95 {{.*}}), cached 0, generated 0, with m.decode, on fast
// CHECK-NEXT: task m.decode: decode @m, 1 executions, probability 1, context 1200 (p95 {{.*}}), answers, gives 300 (p95 700) tokens, with m.prefill, on fast
// CHECK-NEXT: e0: request -> find.embed, text, 400 (p95 900) tokens, 1600 bytes
// CHECK-NEXT: e1: find.embed -> find.search, vector, 1 vectors, 1536 bytes
// CHECK-NEXT: e2: request -> m.prefill, text, 400 (p95 900) tokens, 1600 bytes
// CHECK-NEXT: e3: find.search -> m.prefill, text, 800 tokens, 3200 bytes
// CHECK-NEXT: e4: m.prefill -> m.decode, kv, 1200 (p95 {{.*}}) tokens, 1.2e+06 bytes
// CHECK-NEXT: e5: m.prefill -> m.decode, text, 1 tokens, 4 bytes
// CHECK-NEXT: e6: m.decode -> answer, text, 300 (p95 700) tokens, 1200 bytes
// CHECK-NEXT: dag; 0 -> 1 e1; 1 -> 2 e3; 2 -> 3 e4 e5
// CHECK-NEXT:   find.embed, entry e0
// CHECK-NEXT:   find.search
// CHECK-NEXT:   m.prefill, entry e2
// CHECK-NEXT:   m.decode
agent.graph @rag(%q: !agent.text {agent.size = #agent.amount<400 tokens, p95 = 900>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 3000, ttft_ms = 250, tbt_ms = 20, requests_per_second = 20>} {
  %docs = agent.retrieve @kb(%q) {top_k = 8, label = "find"} : (!agent.text) -> !agent.text
  %a = agent.llm @m(%q, %docs) produces <300 tokens, p95 = 700> {place = #fleet.placement<@dc::@fast>} : (!agent.text, !agent.text) -> !agent.text
  agent.return %a : !agent.text
}

// Runs 1, 2, 3 find the context of the run before; 20 of the 50 new tokens are the model's own.
// CHECK-LABEL: graph loop
// CHECK-NEXT: task m.prefill: prefill @m, 1.75 executions, probability 1, new 78.5714 {{.*}}, cached 50 {{.*}}, generated 8.57143
// CHECK-NEXT:   run 0: new 100, cached 0, generated 0
// CHECK-NEXT:   run 1: new 50, cached 100, generated 20
// CHECK-NEXT:   run 2: new 50, cached 150, generated 20
// CHECK: task m.decode: decode {{.*}}, answers,
// CHECK: task web: invoke @web, {{.*}}, takes 350 (p95 900) ms, gives 30 tokens
// CHECK: e[[INTO:[0-9]+]]: request -> m.prefill, text, 100 tokens
// CHECK-DAG: e[[OWN:[0-9]+]]: m.decode -> m.prefill, text, 20 tokens
// CHECK-DAG: e[[SEEN:[0-9]+]]: web -> m.prefill, text, 30 tokens
// CHECK: dag
// CHECK-NEXT: loop, keeps prefix 'done' 1:0.5 2:0.25 3:0.25, back e[[OWN]] e[[SEEN]]
// CHECK-NEXT: dag; 0 -> 1 {{.*}}; 1 -> 2
// CHECK-NEXT: m.prefill, entry e[[INTO]]
agent.graph @loop(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  %0 = agent.loop(%c = %q) runs <1.75, max = 3> keeps_prefix {run_probabilities = array<f64: 0.5, 0.25, 0.25>, until = "done"} : (!agent.text) -> !agent.text {
    %t = agent.llm @m(%c) produces <20 tokens> : (!agent.text) -> !agent.text
    %o = agent.invoke @web(%t) produces <30 tokens> : (!agent.text) -> !agent.text
    %n = agent.join %c, %t, %o : !agent.text
    agent.yield %n : !agent.text
  }
  agent.return %0 : !agent.text
}

// Speech begins with the first sentence; what is written to memory streams to nobody, and is read after it is written.
// CHECK-LABEL: graph speak
// CHECK: task notes.write: write @notes, 1 executions, probability 1, takes 5 ms{{$}}
// CHECK: e{{[0-9]+}}: m.decode -> notes.write, text
// CHECK: e[[S:[0-9]+]]: m.decode ~> tts, text, 60 tokens, 240 bytes, every 20 tokens
// CHECK: dag; 0 -> 1 {{.*}}; 1 -> 2 {{.*}}; 2 -> 3; 1 ~> 4 e[[S]]{{$}}
// CHECK-NEXT: m.prefill
// CHECK-NEXT: m.decode
// CHECK-NEXT: notes.write
// CHECK-NEXT: notes.read
// CHECK-NEXT: tts
agent.graph @speak(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> (!agent.audio, !agent.text) {
  %a = agent.llm @m(%q) produces <60 tokens> : (!agent.text) -> !agent.text
  agent.write @notes(%a) : !agent.text
  %n = agent.read @notes(%q) produces <10 tokens> : (!agent.text) -> !agent.text
  %s = agent.stream %a every <20 tokens> : !agent.text
  %v = agent.infer @tts(%s) produces <15 seconds> : (!agent.text) -> !agent.audio
  agent.return %v, %n : !agent.audio, !agent.text
}

// A branch waits for what decides it, although none of it flows into the cases. Both cases may answer. Tasks that do not
// need each other have no arc between them.
// CHECK-LABEL: graph route
// CHECK: task m.prefill#2: prefill @m, 0.25 executions, probability 0.25
// CHECK: task m.decode#2: decode {{.*}}, answers,
// CHECK: e[[E:[0-9]+]]: m.decode#2 -> tts, text
// CHECK: e[[W:[0-9]+]]: web -> tts, text
// CHECK: dag; 0 -> 1 {{.*}}; 1 -> 2; 2 -> 4 e[[E]] e[[W]]
// CHECK-NEXT: m.prefill,
// CHECK-NEXT: m.decode
// CHECK-NEXT: branch 'route' 0.25 0.75
// CHECK-NEXT: dag 'hard'; 0 -> 1
// CHECK-NEXT: m.prefill#2
// CHECK-NEXT: m.decode#2
// CHECK-NEXT: dag 'easy'
// CHECK-NEXT: web, entry
// CHECK-NEXT: web#2
// CHECK-NEXT: tts
agent.graph @route(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> (!agent.text, !agent.audio) {
  %class = agent.llm @m(%q) produces <3 tokens> : (!agent.text) -> !agent.text
  %0 = agent.branch on(%class) {decide = "route"} : (!agent.text) -> !agent.text
    case 0.25 "hard" {
      %a = agent.llm @m(%q) produces <60 tokens> : (!agent.text) -> !agent.text
      agent.yield %a : !agent.text
    }
    case 0.75 "easy" {
      %a = agent.invoke @web(%q) produces <40 tokens> : (!agent.text) -> !agent.text
      agent.yield %a : !agent.text
    }
  %1 = agent.invoke @web(%q) produces <40 tokens> : (!agent.text) -> !agent.text
  %2 = agent.infer @tts(%0) produces <5 seconds> : (!agent.text) -> !agent.audio
  agent.return %0, %2 : !agent.text, !agent.audio
}

// Nobody reads what is written here, so nobody waits.
// CHECK-LABEL: graph remember
// CHECK: task notes.write: write @notes, 1 executions, probability 1, takes 5 ms, in the background
agent.graph @remember(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  %a = agent.llm @m(%q) produces <60 tokens> : (!agent.text) -> !agent.text
  agent.write @notes(%a) : !agent.text
  agent.return %a : !agent.text
}

// CHECK-LABEL: graph map
// CHECK: task m.prefill: prefill @m, 4 executions, probability 1, new 250
// CHECK: map 4:1, 2 at once
// CHECK-NEXT: dag; 0 -> 1
agent.graph @map(%q: !agent.text {agent.size = #agent.amount<1000 tokens>}) -> !agent.text {
  %0 = agent.map(%i = %q) width <4> {concurrency = 2} : (!agent.text) -> !agent.text {
    %a = agent.llm @m(%i) produces <60 tokens> : (!agent.text) -> !agent.text
    agent.yield %a : !agent.text
  }
  agent.return %0 : !agent.text
}

// What an inner loop carried in an earlier run of the outer loop comes with that run: no arc leads back.
// CHECK-LABEL: graph nested
// CHECK: e[[OUTER:[0-9]+]]: c.decode -> a.prefill
// CHECK: e[[AGAIN:[0-9]+]]: c.decode -> b.prefill
// CHECK-NEXT: e{{[0-9]+}}: d.decode -> b.prefill
// CHECK: e[[INNER:[0-9]+]]: c.decode -> b.prefill
// CHECK: dag
// CHECK-NEXT: loop 2:1, back {{.*}}e[[OUTER]] {{.*}}e[[AGAIN]]
// CHECK-NEXT: dag; 0 -> 1 {{[e0-9 ]+}}; 1 -> 2 {{[e0-9 ]+}}; 2 -> 3 {{[e0-9 ]+}}; 3 -> 4 {{[e0-9 ]+}}; 1 -> 3 {{[e0-9 ]+}}
// CHECK-NEXT: a.prefill
// CHECK-NEXT: a.decode
// CHECK-NEXT: loop 2:1, back e[[INNER]]
// CHECK-NEXT: dag; 0 -> 1
// CHECK-NEXT: b.prefill
agent.graph @nested(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  %0 = agent.loop(%outer = %q) runs <2, max = 2> : (!agent.text) -> !agent.text {
    %a = agent.llm @m(%outer) produces <10 tokens> {label = "a"} : (!agent.text) -> !agent.text
    %read = agent.join %outer, %a : !agent.text
    %1 = agent.loop(%inner = %read) runs <2, max = 2> : (!agent.text) -> !agent.text {
      %b = agent.llm @m(%inner) produces <20 tokens> {label = "b"} : (!agent.text) -> !agent.text
      %c = agent.llm @m(%b) produces <30 tokens> {label = "c"} : (!agent.text) -> !agent.text
      %n = agent.join %inner, %c : !agent.text
      agent.yield %n : !agent.text
    }
    %d = agent.llm @m(%1) produces <40 tokens> {label = "d"} : (!agent.text) -> !agent.text
    %n = agent.join %1, %d : !agent.text
    agent.yield %n : !agent.text
  }
  agent.return %0 : !agent.text
}
