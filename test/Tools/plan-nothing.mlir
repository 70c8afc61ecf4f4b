// An agent without a task has no plan, and says so where it stands; beside others as well.
// RUN: not intarsia-plan %s 2>&1 | FileCheck %s
// RUN: sed '/^agent.graph @echo/,/^}/d' %s > %t.mlir
// RUN: intarsia-plan %t.mlir --why=false | FileCheck %s --check-prefix=OTHER

// CHECK: plan-nothing.mlir:[[# @LINE + 8]]:1: error: agent @echo has no task: nothing to plan
// OTHER: tag {{ *}}@small

agent.model @tagger {parameters = 22700000.0}
fleet.system @dc {
  fleet.device @l4 {catalogue = "nvidia/l4"}
  fleet.pool @small of @l4 count 4 per_node 4
}
agent.graph @echo(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 500, requests_per_second = 2>} {
  agent.return %q : !agent.text
}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 500, requests_per_second = 2>} {
  %a = agent.infer @tagger(%q) produces <400 tokens> {label = "tag"} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}
