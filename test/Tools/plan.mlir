// A small agent on a small fleet: a row for each piece, totals, and the placements in the IR.
// RUN: intarsia-plan %s -o %t.mlir | FileCheck %s
// RUN: FileCheck %s --check-prefix=IR --input-file=%t.mlir
// What was planned is valid IR, and planned again it stays as it is: the placements are now given by hand.
// RUN: intarsia-plan %t.mlir --why=false | FileCheck %s --check-prefix=AGAIN

// CHECK: task {{ *}}pool {{ *}}precision {{ *}}degrees
// One device does for both: prompts are computed in the replica that decodes.
// CHECK: answer.prefill {{ *}}@fast {{ *}}bf16 {{ *}}aggregated {{ *}}{{[0-9]+}} {{ *}}1 {{ *}}0
// CHECK: answer.decode {{ *}}@fast {{ *}}bf16 {{ *}}aggregated {{ *}}{{[0-9]+}} {{ *}}1 {{ *}}1
// CHECK: a request, $2.99 an hour
// CHECK: @ask: p95 {{[0-9]+}} of 6000 ms (mean {{[0-9]+}}), first token {{[0-9]+}} of 400 ms, next {{[0-9.]+}} of 30 ms, at 2 requests/s
// CHECK: critical path: answer.prefill > answer.decode
// CHECK: tightest: @ask: end to end, {{[0-9.]+}} of 6000.0 ms
// The probability of the promises comes before the claim that rests on predicted times.
// CHECK-NEXT: all promises hold with {{[01]\.[0-9]+}} ± {{[0-9.]+}} if times err as they did on systems that the cost model had not seen
// CHECK-NEXT: no plan of these candidates is better
// CHECK: why not the next best:
// CHECK: answer.prefill: @fast {{.*}}more dollars per request
// CHECK: rests on figures that are unsure:
// CHECK: idle power: taken as 15% of the watts of each device

// IR: agent.prefill {{.*}}place = #fleet.placement<@dc::@fast, replicas = 1, batch = [[PREFILL:[0-9]+]], precision = "bf16", aggregated = true>
// IR: agent.decode {{.*}}place = #fleet.placement<@dc::@fast, replicas = 1, batch = [[DECODE:[0-9]+]], precision = "bf16", aggregated = true>

// AGAIN: answer.prefill {{ *}}@fast {{ *}}bf16 {{ *}}aggregated
// AGAIN: answer.decode {{ *}}@fast {{ *}}bf16 {{ *}}aggregated
// AGAIN: $2.99 an hour

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
