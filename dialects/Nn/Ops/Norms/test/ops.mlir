// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<?x?x384xf16>, %g: tensor<384xf16>) {
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 9.99999996E-13 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  %0 = nn.layer_norm %x, %g, %g {epsilon = 1.0e-12 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}} {epsilon
  %1 = nn.layer_norm %x, %g {epsilon = 1.0e-12 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.rms_norm %{{.*}}, %{{.*}} {epsilon = 9.99999997E-7 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  %2 = nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.group_norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 9.99999974E-6 : f32, groups = 6 : i64} : (tensor<?x?x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  %4 = nn.group_norm %x, %g, %g {epsilon = 1.0e-5 : f32, groups = 6} : (tensor<?x?x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.group_norm %{{.*}}, %{{.*}} {epsilon
  %5 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 384} : (tensor<?x?x384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  return
}
