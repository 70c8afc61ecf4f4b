// Two small models share a device: half of it each, paid once, and their placements say so.
// RUN: intarsia-plan %s -o %t.mlir | FileCheck %s
// RUN: FileCheck %s --check-prefix=IR --input-file=%t.mlir
// What was planned is valid IR, and planned again it stays as it is.
// RUN: intarsia-plan %t.mlir --why=false | FileCheck %s --check-prefix=AGAIN

// CHECK: first {{ *}}@small {{ *}}bf16 {{ *}}share 1/2 {{ *}}[[FIRST:[0-9]+]] {{ *}}1 {{ *}}0.5 {{.*}} 0.40 {{ *}}50%
// CHECK: second {{ *}}@small {{ *}}bf16 {{ *}}share 1/2 {{ *}}[[SECOND:[0-9]+]] {{ *}}1 {{ *}}0.5 {{.*}} 0.40 {{ *}}50%
// CHECK: a request, $0.80 an hour
// CHECK: no plan of these candidates is better
// CHECK: nvidia/l4: a share of a device taken to have that share of its bandwidth and of its speed

// IR: agent.infer {{.*}}place = #fleet.placement<@dc::@small, parts = 2,{{.*}} precision = "bf16">
// IR: agent.infer {{.*}}place = #fleet.placement<@dc::@small, parts = 2,{{.*}} precision = "bf16">

// AGAIN: $0.80 an hour

agent.model @tagger {parameters = 22700000.0}
agent.model @ranker {parameters = 110000000.0}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 500, requests_per_second = 2>} {
  %a = agent.infer @tagger(%q) produces <400 tokens> {label = "first"} : (!agent.text) -> !agent.text
  %b = agent.infer @ranker(%a) produces <400 tokens> {label = "second"} : (!agent.text) -> !agent.text
  agent.return %b : !agent.text
}
fleet.system @dc {
  fleet.device @l4 {catalogue = "nvidia/l4"}
  fleet.pool @small of @l4 count 4 per_node 4
}
