// Placements by hand name pools of a fleet in a file of its own, and fix what they say.
// RUN: sed '/^fleet.system/,$d' %s > %t.agents.mlir
// RUN: sed -n '/^fleet.system/,$p' %s > %t.fleet.mlir
// RUN: sed 's/label = "answer"/label = "answer", place = #fleet.placement<@dc::@dear>/' %t.agents.mlir > %t.pool.mlir
// RUN: intarsia-plan %t.agents.mlir --fleet=%t.fleet.mlir --why=false | FileCheck %s --check-prefix=FREE
// RUN: intarsia-plan %t.pool.mlir --fleet=%t.fleet.mlir --why=false | FileCheck %s --check-prefix=POOL
// RUN: sed 's/@dear>/@deer>/' %t.pool.mlir > %t.unknown.mlir
// RUN: not intarsia-plan %t.unknown.mlir --fleet=%t.fleet.mlir 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// What else is wrong in the agents' file is still said, with or without a fleet of its own.
// RUN: sed 's/label = "answer"/lable = "answer"/' %t.agents.mlir > %t.wrong.mlir
// RUN: not intarsia-plan %t.wrong.mlir --fleet=%t.fleet.mlir 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not intarsia-plan %t.wrong.mlir 2>&1 | FileCheck %s --check-prefix=WRONG
// What -o writes is planned again as it stands; more replicas by hand are more replicas, too few are a conflict.
// RUN: intarsia-plan %s --why=false -o %t.placed.mlir
// RUN: FileCheck %s --check-prefix=PLACED --input-file=%t.placed.mlir
// RUN: sed 's/replicas = 1/replicas = 3/' %t.placed.mlir > %t.more.mlir
// RUN: intarsia-plan %t.more.mlir --why=false | FileCheck %s --check-prefix=MORE
// RUN: sed '/agent.decode/s/batch = [0-9]*/batch = 1/' %t.placed.mlir > %t.few.mlir
// RUN: not intarsia-plan %t.few.mlir --why=false | FileCheck %s --check-prefix=FEW

// FREE: answer.decode {{ *}}@cheap
// POOL: answer.decode {{ *}}@dear
// UNKNOWN: unknown.mlir:{{[0-9]+}}:{{[0-9]+}}: error: 'agent.llm' op names @dc::@deer, but there is no such fleet.pool; did you mean 'dear'?
// WRONG: wrong.mlir:{{[0-9]+}}:{{[0-9]+}}: error: 'agent.llm' op has no attribute 'lable'; did you mean 'label'?
// PLACED: agent.prefill {{.*}}place = #fleet.placement<@dc::@cheap, replicas = 1,
// PLACED: agent.decode {{.*}}place = #fleet.placement<@dc::@cheap, replicas = 1,
// MORE: answer.prefill {{ *}}@cheap
// MORE: answer.decode {{ *}}@cheap {{ *}}bf16 {{ *}}aggregated {{ *}}{{[0-9]+}} {{ *}}3 {{ *}}3 {{ *}}
// FEW: nothing holds all that is asked
// FEW: 'answer.decode' is pinned to pool 'cheap', 1 replicas

agent.model @llama8b {shape = "llama-3.1-8b", precisions = ["bf16"]}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<400 tokens, p95 = 900>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 6000, tbt_ms = 30, requests_per_second = 2>} {
  %a = agent.llm @llama8b(%q) produces <150 tokens, p95 = 400, max = 1024> {label = "answer"} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}
fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @cheap of @h100 count 4 per_node 4 price #fleet.rental<dollars_per_hour = 2.99>
  fleet.pool @dear of @h100 count 4 per_node 4 price #fleet.rental<dollars_per_hour = 5.99>
}
