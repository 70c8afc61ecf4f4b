// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @step
func.func @step(%query: tensor<?x4x64xf32> {nn.sizes = ["tokens", "", ""]}, %rows: tensor<?x2x64xf32>,
                %positions: tensor<?xi64>, %sequences: tensor<?xi64>, %pages: tensor<?x?xi32>, %sinks: tensor<4xbf16>,
                %keys: tensor<?x2x64x32xf16> {nn.state}, %values: tensor<?x2x32x64xf16> {nn.state})
    -> (tensor<?x4x64xf32>, tensor<?x2x64x32xf16> {nn.state = 6 : i64}, tensor<?x2x32x64xf16> {nn.state = 7 : i64}) {
  // CHECK: nn.cache_append(%{{.*}}) <keys, f16, page = 32, transposed>, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>) -> tensor<?x2x64x32xf16>
  %k = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>) -> tensor<?x2x64x32xf16>
  // CHECK: nn.cache_append(%{{.*}}) <values, f16, page = 32>, %{{.*}} : (tensor<?x2x32x64xf16>,
  %v = nn.cache_append(%values) <values, f16, page = 32>, %rows, %positions, %sequences, %pages : (tensor<?x2x32x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>) -> tensor<?x2x32x64xf16>
  // CHECK: nn.cached_attention %{{.*}}, (%{{.*}}) <keys, f16, page = 32, transposed>, (%{{.*}}) <values, f16, page = 32>, %{{.*}} sinks %{{.*}} {scale = 1.250000e-01 : f32, soft_cap = 3.000000e+01 : f32, window = 7 : i64} :
  %0 = nn.cached_attention %query, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %positions, %sequences, %pages sinks %sinks {scale = 0.125 : f32, soft_cap = 30.0 : f32, window = 7 : i64} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>, tensor<4xbf16>) -> tensor<?x4x64xf32>
  return %0, %k, %v : tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>
}

// CHECK-LABEL: func.func @quantized
func.func @quantized(%query: tensor<?x4x64xf32>, %rows: tensor<?x2x64xf32>, %positions: tensor<?xi64>,
                     %sequences: tensor<?xi64>, %pages: tensor<?x?xi32>, %sinks: tensor<4xf32>,
                     %keys: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %values: tensor<?x2x32x32xi8>,
                     %vp: tensor<?x2x2x32xi8>, %tail: tensor<?x2x64x32xf16>) -> (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>) {
  // CHECK: %{{.*}}:2 = nn.cache_append(%{{.*}}, %{{.*}}, %{{.*}}) <keys, ui4, page = 32, transposed>, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  %k, %kp1 = nn.cache_append(%keys, %kp, %tail) <keys, ui4, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  // CHECK: nn.cache_append(%{{.*}}, %{{.*}}) <values, ui4, page = 32>, %{{.*}} : (tensor<?x2x32x32xi8>,
  %v, %vp1 = nn.cache_append(%values, %vp) <values, ui4, page = 32>, %rows, %positions, %sequences, %pages : (tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>) -> (tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>)
  // CHECK: nn.cached_attention %{{.*}}, (%{{.*}}, %{{.*}}, %{{.*}}) <keys, ui4, page = 32, transposed>, (%{{.*}}, %{{.*}}) <values, ui4, page = 32>, %{{.*}}, %{{.*}}, %{{.*}} rows %{{.*}} sinks %{{.*}} {scale = 1.250000e-01 : f32} :
  %0 = nn.cached_attention %query, (%k, %kp1, %tail) <keys, ui4, page = 32, transposed>, (%v, %vp1) <values, ui4, page = 32>, %positions, %sequences, %pages rows %rows sinks %sinks {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>, tensor<?x2x64xf32>, tensor<4xf32>) -> tensor<?x4x64xf32>
  // CHECK: nn.cache_append(%{{.*}}) <keys, ui4, page = 32, transposed>, %{{.*}}, %{{.*}}, %{{.*}} {tail} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  %t = nn.cache_append(%tail) <keys, ui4, page = 32, transposed>, %rows, %positions, %sequences {tail} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return %0, %t : tensor<?x4x64xf32>, tensor<?x2x64x32xf16>
}

// Pages may hold keys as before their rotary embedding, which rows and tail have.
// CHECK-LABEL: func.func @unrotated
func.func @unrotated(%query: tensor<?x4x64xf32>, %rows: tensor<?x2x64xf32>, %positions: tensor<?xi64>,
                     %sequences: tensor<?xi64>, %pages: tensor<?x?xi32>, %f: tensor<32xf32>,
                     %keys: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %values: tensor<?x2x32x64xf16>,
                     %tail: tensor<?x2x64x32xf16>) -> (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>) {
  // CHECK: nn.cache_append(%{{.*}}, %{{.*}}, %{{.*}}) <keys, ui4, unrotated, page = 32, transposed>, %{{.*}} frequencies %arg5 {interleaved} : (
  %k, %kp1 = nn.cache_append(%keys, %kp, %tail) <keys, ui4, unrotated, page = 32, transposed>, %rows, %positions, %sequences, %pages frequencies %f {interleaved} : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>, tensor<32xf32>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  // CHECK: nn.cached_attention %{{.*}} <keys, ui4, unrotated, page = 32, transposed>, {{.*}} rows %{{.*}} frequencies %arg5 {interleaved, scale = 1.250000e-01 : f32} :
  %0 = nn.cached_attention %query, (%k, %kp1, %tail) <keys, ui4, unrotated, page = 32, transposed>, (%values) <values, f16, page = 32>, %positions, %sequences, %pages rows %rows frequencies %f {interleaved, scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi32>, tensor<?x2x64xf32>, tensor<32xf32>) -> tensor<?x4x64xf32>
  // CHECK: nn.cache_append(%{{.*}}) <keys, ui4, unrotated, page = 32, transposed>, %{{.*}} {tail}
  %t = nn.cache_append(%tail) <keys, ui4, unrotated, page = 32, transposed>, %rows, %positions, %sequences {tail} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return %0, %t : tensor<?x4x64xf32>, tensor<?x2x64x32xf16>
}

// CHECK: test.open = #nn.cache_format<keys, ui8, unrotated>
func.func private @open() attributes {test.open = #nn.cache_format<keys, ui8, unrotated>}

// Keys and values may have formats of their own, and pages whose size is open.
// CHECK-LABEL: func.func @mixed
func.func @mixed(%query: tensor<?x4x64xf32>, %rows: tensor<?x2x64xf32>, %positions: tensor<?xi64>,
                 %sequences: tensor<?xi64>, %pages: tensor<?x?xi64>, %keys: tensor<?x2x?x64xi8>,
                 %values: tensor<?x2x?x64xi8>, %vp: tensor<?x2x2x?xi8>) -> tensor<?x4x64xf32> {
  // CHECK: nn.cache_append(%{{.*}}) <keys, f8E4M3FN>, %{{.*}} : (tensor<?x2x?x64xi8>,
  %k = nn.cache_append(%keys) <keys, f8E4M3FN>, %rows, %positions, %sequences, %pages : (tensor<?x2x?x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xi8>
  // CHECK: nn.cached_attention %{{.*}}, (%{{.*}}) <keys, f8E4M3FN>, (%{{.*}}, %{{.*}}) <values, ui8>, %{{.*}}, %{{.*}}, %{{.*}} {scale
  %0 = nn.cached_attention %query, (%k) <keys, f8E4M3FN>, (%values, %vp) <values, ui8>, %positions, %sequences, %pages {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x?x64xi8>, tensor<?x2x?x64xi8>, tensor<?x2x2x?xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  // CHECK: nn.cached_attention %{{.*}}, %{{.*}}, %{{.*}} {precision = bf16, scale
  %1 = nn.cached_attention %query, (%k) <keys, f8E4M3FN>, (%values, %vp) <values, ui8>, %positions, %sequences, %pages {precision = bf16, scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x?x64xi8>, tensor<?x2x?x64xi8>, tensor<?x2x2x?xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return %0 : tensor<?x4x64xf32>
}
