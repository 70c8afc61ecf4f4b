// A device by its own file, as --probe writes it: of a processor that computes in f32 alone, and whose power is not known.
// RUN: intarsia-plan %s --why=false | FileCheck %s
// RUN: not intarsia-plan %s --why=false --objective=energy 2>&1 | FileCheck %s --check-prefix=WATTS
// RUN: sed 's#Inputs/small#Inputs/smaller#' %s > %t.mlir
// RUN: not intarsia-plan %t.mlir 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: rm -rf %t.d && mkdir -p %t.d/Inputs && cp %s %t.d/plan.mlir && mkfifo %t.d/Inputs/small-processor.yaml
// RUN: not timeout 10 intarsia-plan %t.d/plan.mlir 2>&1 | FileCheck %s --check-prefix=PIPE

// 22.7 million parameters of 4 bytes at 4.5 GB/s and 84 % are 24 ms.
// CHECK: embed {{ *}}@all {{ *}}f32 {{.*}} 2{{[4-9]\.[0-9]}} {{ *}}0.0
// CHECK: here/small-processor: no figure of its watts, so power and energy are without it
// WATTS: here/small-processor: the catalogue has no figure 'watts' for it (Inputs/small-processor.yaml)
// FILE: device @here: cannot read '{{.*}}Inputs/smaller-processor.yaml'
// PIPE: device @here: '{{.*}}Inputs/small-processor.yaml' is not a regular file

fleet.system @mine {
  fleet.device @here {file = "Inputs/small-processor.yaml"}
  fleet.pool @all of @here count 1 price #fleet.rental<dollars_per_hour = 0.1>
}
agent.model @minilm {parameters = 22700000.0}
agent.graph @embed(%text: !agent.text {agent.size = #agent.amount<10 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 2000, requests_per_second = 0.01>} {
  %vector = agent.infer @minilm(%text) produces <1 tokens> {label = "embed"} : (!agent.text) -> !agent.text
  agent.return %vector : !agent.text
}
