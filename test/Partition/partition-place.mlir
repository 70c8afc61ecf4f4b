// RUN: intarsia-opt %s --partition-place='places=layer.[01].*=@reference,layer.1.up=@cpu' | FileCheck %s
// RUN: not intarsia-opt %s --partition-place='places=layre.0.up=@reference' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not intarsia-opt %s --partition-place='places=layer.*=@cuda' 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not intarsia-opt %s --partition-place='places=layer.*' 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not intarsia-opt %s --partition-place='places=layer.[=@cpu' 2>&1 | FileCheck %s --check-prefix=GLOB

// NAME: error: the placement 'layre.0.up=@reference' matches no op; did you mean 'layer.0.up'
// DEVICE: error: the placement 'layer.*=@cuda' is on a device that the module is not compiled for; its devices are @cpu, @reference: name it in --target too
// FORM: error: the placement 'layer.*' is not GLOB=@device, for instance encoder.layer.0.*=@cpu
// GLOB: error: the placement 'layer.[=@cpu' has an invalid glob

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}
nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // A weight is wherever it is read.
  // CHECK: nn.weight @weights["layer.0.up.weight"] :
  %w = nn.weight @weights["layer.0.up.weight"] : tensor<64x64xf32> loc("layer.0.up")
  // CHECK: nn.linear {{.*}} {rt.device = @reference}
  %0 = nn.linear %x, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layer.0.up")
  // The last placement that matches holds.
  // CHECK: nn.linear {{.*}} {rt.device = @cpu}
  %1 = nn.linear %0, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layer.1.up")
  // CHECK: nn.relu %{{[0-9a-z]+}} : tensor<?x64xf32>
  %2 = nn.relu %1 : tensor<?x64xf32> loc("layer.2.act")
  return %2 : tensor<?x64xf32>
}
