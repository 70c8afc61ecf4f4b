// Carbon dioxide is not made small where nobody said what the electricity emits.
// RUN: not intarsia-plan %s --objective=carbon 2>&1 | FileCheck %s --check-prefix=CARBON
// RUN: sed 's/@dc {/@dc attributes {grams_per_kilowatt_hour = 360.0} {/' %s > %t.grams.mlir
// RUN: intarsia-plan %t.grams.mlir --objective=carbon --why=false | FileCheck %s --check-prefix=GRAMS
// RUN: intarsia-plan %s --objective=energy --why=false | FileCheck %s --check-prefix=ENERGY

// CARBON: error: {{.*}}fleet.system @dc has no 'grams_per_kilowatt_hour', {{.*}} attributes {grams_per_kilowatt_hour = …}
// GRAMS: J a request, {{[0-9.]+}} g CO2 an hour
// ENERGY: {{[1-9][0-9.]*}} J a request

agent.model @llama8b {shape = "llama-3.1-8b", precisions = ["bf16"]}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<400 tokens, p95 = 900>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 60000, requests_per_second = 2>} {
  %a = agent.llm @llama8b(%q) produces <150 tokens, p95 = 400, max = 1024> {label = "answer"} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}
fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 4 per_node 4 price #fleet.rental<dollars_per_hour = 2.99>
}
