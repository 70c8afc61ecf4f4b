// Devices, models, pools and figures that are not there: what, where, and the nearest names. Nothing stands in for them.
// RUN: sed 's#nvidia/h100-sxm#nvidia/h100-smx#' %s > %t.device.mlir
// RUN: not intarsia-plan %t.device.mlir 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: sed 's#llama-3.1-8b#llama-3.1-8#' %s > %t.shape.mlir
// RUN: not intarsia-plan %t.shape.mlir 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: sed 's#"bf16"#"fp4"#' %s > %t.figure.mlir
// RUN: not intarsia-plan %t.figure.mlir 2>&1 | FileCheck %s --check-prefix=FIGURE
// RUN: sed 's#, precisions = \["bf16"\]##' %s > %t.bits.mlir
// RUN: intarsia-plan %t.bits.mlir --why=false 2>&1 | FileCheck %s --check-prefix=BITS
// RUN: not intarsia-plan %s --without=@fas:1 2>&1 | FileCheck %s --check-prefix=POOL
// RUN: not intarsia-plan %s --without=@fast 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: sed '/^fleet.system/,$d' %s > %t.nofleet.mlir
// RUN: not intarsia-plan %t.nofleet.mlir 2>&1 | FileCheck %s --check-prefix=NOFLEET
// RUN: sed -n '/^fleet.system/,$p' %s > %t.fleet.mlir
// RUN: not intarsia-plan %t.fleet.mlir 2>&1 | FileCheck %s --check-prefix=NOAGENT
// RUN: intarsia-plan %t.nofleet.mlir --fleet=%t.fleet.mlir --why=false | FileCheck %s --check-prefix=BOTH

// DEVICE: device.mlir:{{[0-9]+}}:3: error: device @h100: the catalogue has no device 'nvidia/h100-smx'; did you mean {{.*}}'nvidia/h100-sxm'
// SHAPE: task 'answer.prefill': model 'llama8b': the catalogue has no model 'llama-3.1-8'; did you mean 'llama-3.1-8b'
// FIGURE: has no pool that computes in its precisions
// FIGURE-NEXT: on @fast: nvidia/h100-sxm: the catalogue has no figure 'peak_tflops.fp4'
// Formats of 4 bits are taken only by name.
// BITS: answer.decode {{ *}}@fast {{ *}}{{bf16|fp8}}
// POOL: the fleet has no pool @fas; did you mean 'fast'?
// COUNT: --without=@fast: write --without=@pool:3
// NOFLEET: has no fleet.system: write one there, or name its file with --fleet
// NOAGENT: has no agent.graph to plan
// BOTH: answer.decode {{ *}}@fast

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
