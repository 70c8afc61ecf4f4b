// RUN: intarsia-compile %s --target=cpu,reference --stop-after=partition -o %t.mlir 2>&1 | FileCheck %s --check-prefix=NAMES
// RUN: FileCheck %s --check-prefix=IR --input-file=%t.mlir
// RUN: intarsia-compile %s --target=cpu,reference --place='layers.1.*=@cpu' --stop-after=partition -o %t.mlir 2>&1 | FileCheck %s --check-prefix=PLACED
// RUN: intarsia-compile %s --world=2 --stop-after=partition -o %t.mlir 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: intarsia-compile %s --world=2 --partition=data --stop-after=partition -o %t.mlir 2>&1 | FileCheck %s --check-prefix=DATA

// Nodes are on the devices that the model names, and of those that are not each reason is said: 'gone' became no op.
// NAMES: remark: devices that the model names: followed for 2 of 11 nodes
// NAMES-DAG: overruled for 1: nothing is computed for it when the model runs
// NAMES-DAG: overruled for 1: the configuration names no device 7
// NAMES-DAG: overruled for 7: configuration 'names' is followed
// IR: nn.linear {{.*}}rt.device = @reference
// IR-NOT: rt.device_configurations

// --place holds, and the report says so.
// PLACED: remark: devices that the model names: followed for 1 of 11 nodes
// PLACED-DAG: overruled for 1: --place=layers.1.*=@cpu places it
// PLACED-DAG: overruled for 1: nothing is computed for it when the model runs
// PLACED-DAG: overruled for 1: the configuration names no device 7
// PLACED-DAG: overruled for 7: configuration 'names' is followed

// A stage is one of those that ranks can have.
// STAGES: remark: devices that the model names: followed for 2 of 11 nodes
// STAGES-DAG: overruled for 1: there is no stage 9223372036854775807: --world=2 has at most the stages 0 to 1
// STAGES-DAG: overruled for 1: there is no stage -1: --world=2 has at most the stages 0 to 1
// STAGES-DAG: overruled for 1: nothing is computed for it when the model runs
// STAGES-DAG: overruled for 2: --partition=pipeline divides layers by its own rules
// STAGES-DAG: overruled for 4: configuration 'stages' is followed

// A node whose examples are divided among all ranks is followed, one on a part of the ranks is not.
// DATA: remark: devices that the model names: followed for 1 of 11 nodes
// DATA-DAG: overruled for 1: --partition=data computes a part of it on each of 2 devices
// DATA-DAG: overruled for 2: --partition=data has no stages
// DATA-DAG: overruled for 1: nothing is computed for it when the model runs

module attributes {rt.device_configurations = [
    {name = "stages", count = 2 : i64, devices = [], nodes = [
        {node = "layers.0.dense", devices = array<i64>, axes = array<i64>, stage = 0 : i64},
        {node = "layers.1.dense", devices = array<i64>, axes = array<i64>, stage = 1 : i64},
        {node = "layers.0.dense", devices = array<i64>, axes = array<i64>, stage = 9223372036854775807 : i64},
        {node = "layers.1.dense", devices = array<i64>, axes = array<i64>, stage = -1 : i64},
        {node = "gone", devices = array<i64>, axes = array<i64>, stage = 1 : i64},
        {node = "layers.1.dense", devices = array<i64: 0, 1>, axes = array<i64: 0>},
        {node = "layers.1.dense", devices = array<i64: 1>, axes = array<i64: 0>}]},
    {name = "names", count = 4 : i64, devices = ["cpu", "reference"], nodes = [
        {node = "layers.0.dense", devices = array<i64: 0>, axes = array<i64>},
        {node = "layers.1.dense", devices = array<i64: 1>, axes = array<i64>},
        {node = "gone", devices = array<i64: 1>, axes = array<i64>},
        {node = "layers.0.dense", devices = array<i64: 7>, axes = array<i64>}]}]} {
  nn.archive @weights {file = "model.safetensors"}
  func.func @main(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["n", ""]}) -> (tensor<?x64xf32> {nn.name = "y"}) {
    %v = nn.weight @weights["v"] : tensor<64x64xf32> loc("layers.0.dense")
    %w = nn.weight @weights["w"] : tensor<64x64xf32> loc("layers.1.dense")
    %0 = nn.linear %x, %v : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.dense")
    %1 = nn.linear %0, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.1.dense")
    return %1 : tensor<?x64xf32>
  }
}
