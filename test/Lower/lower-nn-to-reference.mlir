// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// CHECK-DAG: #[[$INPUT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[$WEIGHT:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>

// CHECK-LABEL: func.func @linear
// CHECK-SAME: %[[X:.*]]: tensor<?x?x384xbf16>, %[[W:.*]]: tensor<1536x384xbf16>
func.func @linear(%x: tensor<?x?x384xbf16>, %w: tensor<1536x384xbf16>, %b: tensor<1536xbf16>) -> tensor<?x?x1536xbf16> {
  // Sums are f32, from zero.
  // CHECK: %[[ZERO:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<?x?x1536xf32>)
  // CHECK: linalg.generic {indexing_maps = [#[[$INPUT]], #[[$WEIGHT]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]]
  // CHECK: arith.extf %{{.*}} : bf16 to f32
  // The bias joins before the one rounding to bf16.
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f32
  // CHECK: arith.truncf %{{.*}} : f32 to bf16
  // CHECK-NOT: = nn.
  %0 = nn.linear %x, %w, %b : (tensor<?x?x384xbf16>, tensor<1536x384xbf16>, tensor<1536xbf16>) -> tensor<?x?x1536xbf16>
  return %0 : tensor<?x?x1536xbf16>
}

// -----

// Grouped heads: three query heads read one head of key and value.
// CHECK-DAG: #{{.*}} = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d1 floordiv 3, d4)>
// CHECK-DAG: #{{.*}} = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2 floordiv 3, d3)>

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x?x4x64xf32>, %m: tensor<?x1x1x?xi1>) -> tensor<?x?x12x64xf32> {
  // CHECK: linalg.generic
  // CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
  // CHECK: linalg.index 3
  // CHECK: arith.cmpi sle
  // CHECK: arith.maximumf
  // CHECK: math.exp
  // CHECK: arith.divf
  // CHECK-NOT: = nn.
  %0 = nn.attention %q, %k, %k mask %m {causal, scale = 0.125 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x4x64xf32>, tensor<?x?x4x64xf32>, tensor<?x1x1x?xi1>) -> tensor<?x?x12x64xf32>
  return %0 : tensor<?x?x12x64xf32>
}

// -----

// Groups are inlined; weights stay.
// CHECK-LABEL: func.func @group
nn.archive @weights {file = "model.safetensors"}
func.func @group(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // CHECK: nn.weight @weights["g"]
  // CHECK-NOT: = nn.
  // CHECK: math.sqrt
  %g = nn.weight @weights["g"] : tensor<4xf32>
  %r = nn.group rows(%a = %x, %b = %g) : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32> {
    %n = nn.rms_norm %a, %b {epsilon = 1.0e-6 : f32} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    nn.yield %n : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}

// -----

// A result that is declared less static than what is computed is cast.
// CHECK-LABEL: func.func @cast
func.func @cast(%t: tensor<8x4xf32>, %i: tensor<3xi64>) -> tensor<?x4xf32> {
  // CHECK: %[[E:.*]] = linalg.generic
  // CHECK: tensor.extract
  // CHECK: tensor.cast %[[E]] : tensor<3x4xf32> to tensor<?x4xf32>
  %0 = nn.embedding %t, %i : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

// The numbers of the format are a table; rounding is to even.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<?x40xf32>) -> tensor<?x40xf32> {
  // CHECK: tensor.empty(%{{.*}}) : tensor<?x2xi8>
  // CHECK: math.roundeven
  // CHECK: arith.constant dense<[0.000000e+00, 5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 6.000000e+00, -0.000000e+00, {{.*}}]> : tensor<16xf32>
  // CHECK-NOT: = nn.
  %c, %s = nn.quantize %x {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<?x40xf32>) -> (tensor<?x40xi4>, tensor<?x2xi8>)
  %0 = nn.dequantize %c, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<?x40xi4>, tensor<?x2xi8>) -> tensor<?x40xf32>
  return %0 : tensor<?x40xf32>
}
