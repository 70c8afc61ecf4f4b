// RUN: split-file %s %t
// RUN: intarsia-plan --parallel=%t/search.yaml | FileCheck %s --check-prefix=SEARCH
// RUN: intarsia-plan --parallel=%t/search.yaml > %t/again; intarsia-plan --parallel=%t/search.yaml | diff - %t/again
// RUN: intarsia-plan --parallel=%t/listed.yaml | FileCheck %s --check-prefix=LISTED
// RUN: intarsia-plan --parallel=%t/sharded.yaml | FileCheck %s --check-prefix=SHARDED
// RUN: not intarsia-plan --parallel=%t/small.yaml 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not intarsia-plan --parallel=%t/heads.yaml 2>&1 | FileCheck %s --check-prefix=HEADS
// RUN: not intarsia-plan --parallel=%t/key.yaml 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not intarsia-plan --parallel=%t/word.yaml 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not intarsia-plan --parallel=%t/batch.yaml 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not intarsia-plan --parallel=%t/model.yaml 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: not intarsia-plan --parallel=%t/nowhere.yaml 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: intarsia-plan --parallel=%source_dir/examples/parallel/weak-fleet.yaml | FileCheck %s --check-prefix=FLEET
// RUN: intarsia-plan --parallel=%t/experts.yaml | FileCheck %s --check-prefix=EXPERTS
// RUN: not intarsia-plan --parallel=%t/heavy.yaml 2>&1 | FileCheck %s --check-prefix=HEAVY
// RUN: not intarsia-plan --parallel=%t/fleet.yaml 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not intarsia-plan --parallel=%t/format.yaml 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not intarsia-plan --parallel=%t/empty.yaml 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not intarsia-plan --parallel=%t/level.yaml 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not intarsia-plan --parallel=%t/huge.yaml 2>&1 | FileCheck %s --check-prefix=HUGE
// RUN: not intarsia-plan --parallel=%t/chunks.yaml 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not intarsia-plan --parallel=%t/search.yaml --why 2>&1 | FileCheck %s --check-prefix=ALONE

// The best of each kind, with the reason why the others lost; the first one is the best.
// SEARCH: llama-3.1-8b on 8 devices, 64 sequences of 4096 tokens a step
// SEARCH-NEXT: step tokens/s MFU compute exchanges bubble other memory configuration
// SEARCH-NEXT: s {{.*}} GB {{[a-z0-9A-Z, -]*$}}
// SEARCH: pipeline 8{{.*}} % slower, most of it
// SEARCH: configurations, {{.*}} of them costed; each row is the best of its kind

// LISTED: s {{.*}} GB tensor 8, sequence, micro-batch 1, full recomputation{{$}}
// LISTED-NEXT: s {{.*}} GB data 8, micro-batch 1: does not fit

// Over hundreds of devices ZeRO 3 is three times as slow as other splits (arXiv 2104.04473, Table 2), unless rings leave a
// node by all adapters.
// SHARDED: {{^ *[67][0-9]}}.{{[0-9]+}} s {{.*}} data 1536, ZeRO 3, micro-batch 1, full recomputation
// SHARDED-NEXT: {{^ *[12][0-9]}}.{{[0-9]+}} s {{.*}} tensor 8, data 16, pipeline 12, micro-batch 1, full recomputation

// SMALL: needs {{.*}} GB of 1.0 GB
// SMALL: error: {{.*}}small.yaml: no configuration fits; the smallest needs {{[0-9]+}} GB of each device ({{.*}}): give more devices
// HEADS: heads.yaml:6: tensor degree 64: 32 heads are not divided by it; 32 is the largest that works
// KEY: key.yaml:4: run: unknown key 'batch'; it has sequence, global_batch
// WORD: word.yaml:6: recompute: 'some' is none of none, selective, full
// BATCH: batch.yaml: no degrees divide the model and the batch over 37 devices
// MODEL: model.yaml:1: {{.*}}'llama-3.1-9b'{{.*}}did you mean
// NOWHERE: --parallel={{.*}}nowhere.yaml: No such file or directory
// FORMAT: format.yaml:{{[0-9]+}}: {{.*}}nvidia/h100-sxm{{.*}}f12
// EMPTY: empty.yaml:{{[0-9]+}}: parallel configuration: 'format' is missing
// ALONE: --parallel costs one model and plans no agents; leave '--why' away

// All on one device is read from the disk for each token; on several it fits.
// FLEET: llama-3.1-70b, 80 layers of 0.535 GB
// FLEET-NEXT: layers a token alone device
// FLEET-NEXT: {{[0-9]+}} {{[0-9.]+}} ms {{[0-9]+}}.{{[0-9]}} ms Mac M1
// FLEET: {{[2-9][0-9]}} {{[0-9.]+}} ms {{1[0-9][0-9][0-9][0-9]}}.{{[0-9]}} ms desktop with RTX 2080 Ti
// FLEET: a token in {{[4-9][0-9][0-9]}}.{{[0-9]}} ms
// FLEET-NOT: bounds nothing
// A token of a mixture reads 5.1 of 117 billion parameters, at less than 4 GB of 60; whose arithmetic is not known is said.
// EXPERTS: gpt-oss-120b, 36 layers of 1.{{[0-9]+}} GB, of which a token reads 0.{{[01][0-9]+}} GB
// EXPERTS: 36 {{[3-9][0-9]}}.{{[0-9]}} ms {{.*}} workstation
// EXPERTS: the arithmetic of some processors is not known and bounds nothing: give accelerator_tflops and host_tflops of workstation
// HEAVY: heavy.yaml: the devices cannot hold the model, 17 GB: add a device
// DEVICE: fleet.yaml:3: device of a fleet: unknown key 'gbps'; it has name, accelerator_gbps

// LEVEL: level.yaml:5: most_zero: there are levels 0 to 3
// HUGE: huge.yaml:6: tensor, context and pipeline degrees need 1000000000000 devices of 8
// CHUNKS: chunks.yaml:6: 8 stages of 1000000 chunks: the model has 32 layers

//--- level.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 8
run: {sequence: 4096, global_batch: 64}
search: {most_zero: 5}
//--- huge.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 8
run: {sequence: 4096, global_batch: 64}
configurations:
  - {tensor: 1000000, pipeline: 1000000}
//--- chunks.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 8
run: {sequence: 4096, global_batch: 64}
configurations:
  - {pipeline: 8, chunks: 1000000}
//--- experts.yaml
model: gpt-oss-120b
weight_bits: 4.25
fleet: [{name: workstation, host_gbps: 90, host_gb: 96}, {name: laptop, host_gbps: 40, host_gb: 4, host_tflops: 0.5}]
//--- heavy.yaml
model: llama-3.1-8b
fleet: [{name: small, host_gbps: 50, host_gb: 4}]
//--- fleet.yaml
model: llama-3.1-8b
fleet:
  - {name: small, gbps: 50}
//--- search.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 8
run: {sequence: 4096, global_batch: 64}
//--- listed.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 8
run: {sequence: 4096, global_batch: 64}
configurations:
  - {tensor: 8, sequence: true, recompute: full}
  - {micro_batch: 1}
//--- sharded.yaml
model: bloom-176b
device: nvidia/a100-sxm
devices: 1536
network_gbps: 25
run: {sequence: 2048, global_batch: 1536, fused_attention: false, gradient_bytes: 2}
configurations:
  - {zero: 3, micro_batch: 1, recompute: full}
  - {tensor: 8, pipeline: 12, micro_batch: 1, recompute: full}
//--- small.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 8
run: {sequence: 4096, global_batch: 64}
search: {memory_gb: 1}
//--- heads.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 64
run: {sequence: 4096, global_batch: 64}
configurations:
  - {tensor: 64}
//--- key.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 8
run: {sequence: 4096, global_batch: 64, batch: 3}
//--- word.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 8
run: {sequence: 4096, global_batch: 64}
configurations:
  - {tensor: 8, recompute: some}
//--- batch.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
devices: 37
run: {sequence: 4096, global_batch: 64}
//--- model.yaml
model: llama-3.1-9b
device: nvidia/h100-sxm
devices: 7
run: {sequence: 4096, global_batch: 64}
//--- format.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
format: f12
run: {sequence: 4096, global_batch: 64}
//--- empty.yaml
model: llama-3.1-8b
device: nvidia/h100-sxm
format: ""
run: {sequence: 4096, global_batch: 64}
