// Other figures instead of the measured ones: a roofline is faster, and the plan says whose times it has.
// RUN: intarsia-plan %s --why=false | FileCheck %s --check-prefix=MEASURED
// RUN: intarsia-plan %s --why=false --efficiency=%source_dir/examples/paper/roofline.yaml | FileCheck %s
// RUN: not intarsia-plan %s --efficiency=%t.none.yaml 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: sed 's/dense_bandwidth: 1/dense_bandwidth: 84/' %source_dir/examples/paper/roofline.yaml > %t.percent.yaml
// RUN: not intarsia-plan %s --efficiency=%t.percent.yaml 2>&1 | FileCheck %s --check-prefix=PERCENT
// RUN: not intarsia-plan %s --efficiency=%source_dir/examples/paper/roofline.yaml --engine=sglang 2>&1 | FileCheck %s --check-prefix=ENGINE

// MEASURED: first token {{[6-9][0-9]|[1-9][0-9][0-9]}} of 400 ms
// MEASURED-NOT: times: by the figures
// 400 tokens through 8 billion parameters at 990 TFLOP/s take 7 ms, 900 take 15, two prompts at once 29, and they wait
// for steps of the decode and for its slots.
// CHECK: first token {{[1-9]|[1-5][0-9]}} of 400 ms
// CHECK: times: by the figures of '{{.*}}roofline.yaml', not by measured ones
// FILE: cannot read '{{.*}}none.yaml'
// PERCENT: percent.yaml:{{[0-9]+}}: figures: dense_bandwidth 84{{.*}}: an efficiency is at most 1
// ENGINE: roofline.yaml' has no figures of the engine sglang, which --engine asks for

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
