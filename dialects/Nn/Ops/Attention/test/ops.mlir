// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x?x12x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x32xbf16>,
                     %m: tensor<?x1x1x?xi1>, %s: tensor<1x12x?x?xf32>) -> tensor<?x?x12x32xbf16> {
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {scale = 1.250000e-01 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>, tensor<?x1x1x?xi1>) -> tensor<?x?x12x32xbf16>
  %0 = nn.attention %q, %k, %v mask %m {scale = 0.125 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>, tensor<?x1x1x?xi1>) -> tensor<?x?x12x32xbf16>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {scale
  %1 = nn.attention %q, %k, %v mask %s {scale = 0.125 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>, tensor<1x12x?x?xf32>) -> tensor<?x?x12x32xbf16>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, scale = 1.250000e-01 : f32}
  %2 = nn.attention %q, %k, %v {causal, scale = 0.125 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>) -> tensor<?x?x12x32xbf16>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {precision = f16, scale = 1.250000e-01 : f32}
  %3 = nn.attention %q, %k, %v {precision = f16, scale = 0.125 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>) -> tensor<?x?x12x32xbf16>
  return %2 : tensor<?x?x12x32xbf16>
}
