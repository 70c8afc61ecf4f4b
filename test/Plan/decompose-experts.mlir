// RUN: intarsia-opt %s --plan-decompose-experts | FileCheck %s
// RUN: intarsia-opt %s --plan-decompose-experts --plan-decompose-experts | FileCheck %s
// RUN: intarsia-test-opt %s --plan-decompose --test-agent-graph -o /dev/null | FileCheck %s --check-prefix=GRAPH

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 per_node 8
}
agent.model @mixtral {shape = "mixtral-8x7b"}
agent.model @dense {shape = "llama-3.1-8b"}
agent.model @given {parameters = 7.0e9}
agent.model @elsewhere {shape = "s"}

// What was put somewhere by hand, was so with its experts.
// CHECK-LABEL: agent.graph @mixture
// CHECK: %[[KV:.*]], %[[FIRST:.*]] = agent.prefill @mixtral
// CHECK-NEXT: %[[THERE:.*]] = agent.kv_transfer %[[KV]]
// CHECK-NEXT: %[[E:.*]] = agent.experts @mixtral {apart = "a", label = "answer", place = #fleet.placement<@dc::@fast, aggregated = true>, test.note = 1 : i64, together = "t"} : !agent.experts
// CHECK-NEXT: agent.decode @mixtral(%[[THERE]], %[[FIRST]]) experts %[[E]] produces <300 tokens> {apart = "a", label = "answer", place = #fleet.placement<@dc::@fast, tensor = 2>, test.note = 1 : i64, together = "t"} : (!agent.kv, !agent.text, !agent.experts) -> !agent.text
// CHECK-NOT: agent.experts
// GRAPH-LABEL: graph mixture
// GRAPH-NEXT: task mixtral.prefill: prefill
// GRAPH-NEXT: task answer.experts: experts @mixtral, 1 executions, probability 1, with answer.decode, on fast, together t, apart a{{$}}
// GRAPH-NEXT: task answer.decode: decode @mixtral, 1 executions, {{.*}}, gives 300 tokens, with mixtral.prefill, calls answer.experts, on fast, together t, apart a{{$}}
// Nothing flows to the experts or from them, and nothing waits for them.
// GRAPH-NEXT: e0: request -> mixtral.prefill
// GRAPH-NEXT: e1: mixtral.prefill -> answer.decode, kv
// GRAPH-NEXT: e2: mixtral.prefill -> answer.decode, text
// GRAPH-NEXT: e3: answer.decode -> answer
// GRAPH-NEXT: dag; 0 -> 1 e1 e2
// GRAPH-NEXT: mixtral.prefill, entry e0
// GRAPH-NEXT: answer.decode
// GRAPH-NEXT: graph loop
agent.graph @mixture(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> !agent.text {
  %kv, %first = agent.prefill @mixtral(%q) : (!agent.text) -> (!agent.kv, !agent.text)
  %there = agent.kv_transfer %kv : !agent.kv
  %a = agent.decode @mixtral(%there, %first) produces <300 tokens> {test.note = 1, label = "answer", together = "t", apart = "a", place = #fleet.placement<@dc::@fast, tensor = 2>} : (!agent.kv, !agent.text) -> !agent.text
  agent.return %a : !agent.text
}

// Experts run as often as their decode, and each decode has its own.
// CHECK-LABEL: agent.graph @loop
// CHECK: agent.loop
// CHECK: %[[E:.*]] = agent.experts @mixtral : !agent.experts
// CHECK-NEXT: agent.decode @mixtral({{.*}}) experts %[[E]] produces <20 tokens>
// CHECK: %[[E2:.*]] = agent.experts @mixtral : !agent.experts
// CHECK-NEXT: agent.decode @mixtral({{.*}}) experts %[[E2]] produces <30 tokens>
// GRAPH: task mixtral.experts: experts @mixtral, 2 executions, probability 1, with mixtral.decode
// GRAPH-NEXT: task mixtral.decode: decode @mixtral, 2 executions, {{.*}}, calls mixtral.experts
// GRAPH: task mixtral.experts#2: experts @mixtral, 1 executions, probability 1, with mixtral.decode#2
agent.graph @loop(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  %0 = agent.loop(%c = %q) runs <2, max = 3> {run_probabilities = array<f64: 0.25, 0.5, 0.25>} : (!agent.text) -> !agent.text {
    %kv, %first = agent.prefill @mixtral(%c) : (!agent.text) -> (!agent.kv, !agent.text)
    %t = agent.decode @mixtral(%kv, %first) produces <20 tokens> : (!agent.kv, !agent.text) -> !agent.text
    agent.yield %t : !agent.text
  }
  %kv, %first = agent.prefill @mixtral(%0) : (!agent.text) -> (!agent.kv, !agent.text)
  %a = agent.decode @mixtral(%kv, %first) produces <30 tokens> : (!agent.kv, !agent.text) -> !agent.text
  agent.return %a : !agent.text
}

// No experts: a dense model, one whose figures the file gives, one that the catalogue does not have.
// CHECK-LABEL: agent.graph @whole
// CHECK-NOT: experts
// GRAPH-LABEL: graph whole
// GRAPH-NOT: experts
agent.graph @whole(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> (!agent.text, !agent.text, !agent.text) {
  %kv, %first = agent.prefill @dense(%q) : (!agent.text) -> (!agent.kv, !agent.text)
  %0 = agent.decode @dense(%kv, %first) produces <300 tokens> : (!agent.kv, !agent.text) -> !agent.text
  %kv1, %first1 = agent.prefill @given(%q) : (!agent.text) -> (!agent.kv, !agent.text)
  %1 = agent.decode @given(%kv1, %first1) produces <300 tokens> : (!agent.kv, !agent.text) -> !agent.text
  %kv2, %first2 = agent.prefill @elsewhere(%q) : (!agent.text) -> (!agent.kv, !agent.text)
  %2 = agent.decode @elsewhere(%kv2, %first2) produces <300 tokens> : (!agent.kv, !agent.text) -> !agent.text
  agent.return %0, %1, %2 : !agent.text, !agent.text, !agent.text
}
