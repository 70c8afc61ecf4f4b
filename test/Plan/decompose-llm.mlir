// RUN: intarsia-opt %s --plan-decompose-llm --split-input-file --verify-diagnostics | FileCheck %s

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 per_node 8
}
agent.model @m {shape = "s"}

// CHECK-LABEL: agent.graph @g
// CHECK-SAME: (%[[Q:.*]]: !agent.text
agent.graph @g(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> (!agent.text, !agent.text) {
  // CHECK: %[[KV:.*]], %[[FIRST:.*]] = agent.prefill @m(%[[Q]]) {instruction_tokens = 250 : i64, label = "answer", shared_instructions, together = "t"} : (!agent.text) -> (!agent.kv, !agent.text)
  // CHECK-NEXT: %[[THERE:.*]] = agent.kv_transfer %[[KV]] : !agent.kv
  // CHECK-NEXT: %[[A:.*]] = agent.decode @m(%[[THERE]], %[[FIRST]]) produces <300 tokens, max = 1024> {label = "answer", together = "t"}
  %0 = agent.llm @m(%q) produces <300 tokens, max = 1024> {instruction_tokens = 250, shared_instructions, label = "answer", together = "t"} : (!agent.text) -> !agent.text
  // Where it was put by hand both pieces are.
  // CHECK: agent.prefill @m(%[[A]]) {place = #fleet.placement<@dc::@fast, tensor = 2>}
  // CHECK: agent.decode {{.*}} {place = #fleet.placement<@dc::@fast, tensor = 2>}
  %1 = agent.llm @m(%0) produces <300 tokens> {place = #fleet.placement<@dc::@fast, tensor = 2>} : (!agent.text) -> !agent.text
  // What is no language model stays.
  // CHECK: agent.infer @m
  %2 = agent.infer @m(%1) produces <3 tokens> : (!agent.text) -> !agent.text
  // CHECK-NOT: agent.llm
  agent.return %1, %2 : !agent.text, !agent.text
}

// -----

agent.model @vit {parameters = 1.0e9, tokens_per_unit = 0.001}
agent.model @m {shape = "s", encoders = {image = @vit}}
agent.graph @g(%q: !agent.image {agent.size = #agent.amount<4096 pixels>}) -> !agent.text {
  // expected-error@+1 {{'agent.llm' reads '!agent.image'; run plan-decompose-multimodal before}}
  %0 = agent.llm @m(%q) produces <300 tokens> : (!agent.image) -> !agent.text
  agent.return %0 : !agent.text
}
