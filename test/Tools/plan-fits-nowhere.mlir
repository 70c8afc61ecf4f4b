// A model that no pool holds: its name, its bytes, and what the largest pool has.
// RUN: not intarsia-plan %s 2>&1 | FileCheck %s
// With 8 bits and more devices it fits.
// RUN: sed -e 's#"bf16"#"fp8"#' -e 's#count 4 per_node 4#count 64 per_node 8#' %s > %t.mlir
// RUN: intarsia-plan %t.mlir --why=false | FileCheck %s --check-prefix=FITS

// Published: 671e9 parameters, two bytes each.
// CHECK: task 'answer.prefill': model 'r1' (deepseek-r1) fits nowhere: its weights take 134{{[0-9.]+}} GB in bf16, and the largest pool @fast has 4 devices of 80 GB (320 GB in all
// FITS: answer.decode {{ *}}@fast {{ *}}fp8

agent.model @r1 {shape = "deepseek-r1", precisions = ["bf16"]}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<400 tokens, p95 = 900>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 60000, requests_per_second = 2>} {
  %a = agent.llm @r1(%q) produces <150 tokens, p95 = 400, max = 1024> {label = "answer"} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}
fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 4 per_node 4 price #fleet.rental<dollars_per_hour = 2.99>
}
