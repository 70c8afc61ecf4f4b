// What no plan holds: the smallest set of promises and limits that conflict, and what each would have to be.
// RUN: sed 's/tbt_ms = 30/tbt_ms = 2/' %s > %t.token.mlir
// RUN: not intarsia-plan %t.token.mlir | FileCheck %s --check-prefix=TOKEN
// RUN: sed 's/requests_per_second = 2>/requests_per_second = 2000>/' %s > %t.rate.mlir
// RUN: not intarsia-plan %t.rate.mlir | FileCheck %s --check-prefix=RATE
// RUN: sed 's/requests_per_second = 2>/requests_per_second = 80>/' %s > %t.lost.mlir
// RUN: intarsia-plan %t.lost.mlir --why=false | FileCheck %s --check-prefix=HOLDS
// RUN: not intarsia-plan %t.lost.mlir --without=@fast:3 | FileCheck %s --check-prefix=LOST
// The agent as it stands has a plan.
// RUN: intarsia-plan %s --why=false | FileCheck %s --check-prefix=HOLDS

// TOKEN: nothing holds all that is asked
// TOKEN-NEXT: agent 'ask': 2.000 ms between tokens at most; {{[0-9.]+}} ms would do
// TOKEN-NOT: answer.prefill

// RATE: nothing holds all that is asked
// RATE-NEXT: pool 'fast' has 4 devices; {{[0-9]+}} devices would do

// LOST: pool 'fast' has 1 devices; 2 devices would do

// HOLDS-NOT: nothing holds
// HOLDS: no plan of these candidates is better

agent.model @llama8b {shape = "llama-3.1-8b", precisions = ["bf16"]}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<400 tokens, p95 = 900>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 6000, ttft_ms = 400, tbt_ms = 30, requests_per_second = 2>} {
  %a = agent.llm @llama8b(%q) produces <150 tokens, p95 = 400, max = 1024> {label = "answer"} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}
fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 4 per_node 4 price #fleet.rental<dollars_per_hour = 2.99>
}
