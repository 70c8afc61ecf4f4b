// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --fuse-epilogues | FileCheck %s --check-prefix=ATTRIBUTE
// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --fuse-epilogues --fuse-record-decisions="file=%t.json" | FileCheck %s --check-prefix=TAKEN-OFF
// RUN: FileCheck %s --check-prefix=JSON < %t.json
// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --fuse-epilogues="flip=*:nn.gelu" --fuse-record-decisions="file=%t.json" -o /dev/null
// RUN: FileCheck %s --check-prefix=FLIPPED < %t.json
// RUN: not intarsia-opt %s --target-declare-devices --fuse-record-decisions="file=%t.missing/decisions.json" 2>&1 | FileCheck %s --check-prefix=UNWRITABLE
// RUN: not intarsia-opt %s --target-declare-devices --intarsia-fuse="flip=fuse-epilogues:main:none:nn.gelu" 2>&1 | FileCheck %s --check-prefix=UNUSED

// ATTRIBUTE: nn.decisions = [{apart_us = {{.*}} : f64, chosen = "inside", forced = false, id = "fuse-epilogues:main:intermediate.dense:nn.gelu", inside_us =
// TAKEN-OFF-NOT: nn.decisions
// TAKEN-OFF: why = "nn.gelu: {{[0-9.]+}} us inside, {{[0-9.]+}} apart"

// JSON: "format": 1,
// JSON-NEXT: "device": "cpu-x86-64-v4",
// JSON-NEXT: "expected_sizes": {
// JSON-NEXT: "main": {
// JSON-NEXT: "batch": 4,
// JSON-NEXT: "sequence": 128
// JSON: "id": "fuse-epilogues:main:intermediate.dense:nn.gelu",
// JSON-NEXT: "pass": "fuse-epilogues",
// JSON-NEXT: "function": "main",
// JSON-NEXT: "location": "intermediate.dense",
// JSON-NEXT: "root": "linear",
// JSON-NEXT: "op": "nn.gelu",
// JSON-NEXT: "chosen": "inside",
// JSON-NEXT: "inside_us": {{[0-9]+\.[0-9][0-9]}},
// JSON-NEXT: "apart_us": {{[0-9]+\.[0-9][0-9]}},
// JSON-NEXT: "reason": "apart: one more kernel launch, and what lies between is written and read again",
// JSON-NEXT: "forced": false

// FLIPPED: "chosen": "apart",
// FLIPPED: "forced": true

// UNWRITABLE: error: cannot write decisions: {{.*}}decisions.json: cannot be written: folder
// UNUSED: error: no decision has the id 'fuse-epilogues:main:none:nn.gelu', which is to be flipped; the file of --explain lists the ids

nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<?x?x384xf32> {nn.sizes = ["batch", "sequence", ""]}) -> tensor<?x?x1536xf32>
    attributes {nn.expected_sizes = {batch = 4 : i64}} {
  %w = nn.weight @weights["w"] : tensor<1536x384xf32>
  %h = nn.linear %x, %w : (tensor<?x?x384xf32>, tensor<1536x384xf32>) -> tensor<?x?x1536xf32> loc("intermediate.dense")
  %g = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x?x1536xf32>
  return %g : tensor<?x?x1536xf32>
}
