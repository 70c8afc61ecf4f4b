// RUN: intarsia-opt %s --plan-inline-calls | FileCheck %s
// RUN: intarsia-opt %s --plan-inline-calls --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=PLACE

agent.model @m {shape = "s"}

// Nobody calls it any more, and nobody else can.
// CHECK-NOT: @inner
agent.graph private @inner(%q: !agent.text {agent.size = #agent.amount<10 tokens>}) -> !agent.text {
  %0 = agent.llm @m(%q) produces <20 tokens> {label = "think"} : (!agent.text) -> !agent.text
  agent.return %0 : !agent.text
}

// CHECK-LABEL: agent.graph @middle
// CHECK: agent.llm {{.*}} {label = "inner/think"}
agent.graph @middle(%q: !agent.text {agent.size = #agent.amount<10 tokens>}) -> (!agent.text, !agent.text)
    attributes {sla = #agent.sla<p95_ms = 300>} {
  %0 = agent.call @inner(%q) : (!agent.text) -> !agent.text
  agent.return %0, %q : !agent.text, !agent.text
}

// A private graph that was never called is somebody's work in progress.
// CHECK-LABEL: agent.graph private @unused
agent.graph private @unused(%q: !agent.text) {
  agent.return
}

// CHECK-LABEL: agent.graph @outer
// CHECK-SAME: (%[[Q:.*]]: !agent.text {agent.size = #agent.amount<30 tokens>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 3000>}
agent.graph @outer(%q: !agent.text {agent.size = #agent.amount<30 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 3000>} {
  // CHECK: agent.loop(%[[C:.*]] = %[[Q]])
  // CHECK-NEXT: %[[A:.*]] = agent.llm @m(%[[C]]) produces <20 tokens> {label = "ask/inner/think"}
  // CHECK-NEXT: agent.join %[[A]], %[[C]]
  // PLACE: agent.graph @outer
  // PLACE: agent.llm {{.*}} loc(callsite(callsite("{{.*}}":9:8 at "{{.*}}":17:8) at "{{.*}}":37:12))
  %0 = agent.loop(%c = %q) runs <1.5, max = 2> : (!agent.text) -> !agent.text {
    %1:2 = agent.call @middle(%c) {label = "ask"} : (!agent.text) -> (!agent.text, !agent.text)
    %2 = agent.join %1#0, %1#1 : !agent.text
    agent.yield %2 : !agent.text
  }
  // CHECK-NOT: agent.call
  agent.return %0 : !agent.text
}
