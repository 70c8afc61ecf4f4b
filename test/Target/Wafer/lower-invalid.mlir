// RUN: intarsia-opt %s --split-input-file --wafer-lower-functions --verify-diagnostics

func.func @chain(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>) -> tensor<8x8xf16> {
  // expected-error@+1 {{'wafer.dist_gemm' op gives a matrix that another op multiplies: its tiles would have to be aligned first, which is not supported; make it an argument of the function}}
  %c = wafer.dist_gemm mesh %a, %b on 4 : tensor<8x8xf16>, tensor<8x8xf16> -> tensor<8x8xf16>
  %d = wafer.dist_gemm mesh %c, %b on 4 : tensor<8x8xf16>, tensor<8x8xf16> -> tensor<8x8xf16>
  return %d : tensor<8x8xf16>
}

// -----

func.func @exp(%x: tensor<1x9xf32>) -> tensor<1x9xf32> {
  %e = wafer.dist_map exp %x on 4 : tensor<1x9xf32>
  // expected-error@+1 {{'wafer.dist_norm' op follows an exp of a vector that fills no whole tiles}}
  %n = wafer.dist_norm rms %e, %x on 4 {epsilon = 1.0e-6 : f32} : tensor<1x9xf32>
  return %n : tensor<1x9xf32>
}

// -----

// expected-error@+1 {{'func.func' op is on a grid of 751 by 751, wse-2 has 750 by 994 cores}}
func.func @large(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>) -> tensor<8x8xf16> {
  %c = wafer.dist_gemm mesh %a, %b on 751 : tensor<8x8xf16>, tensor<8x8xf16> -> tensor<8x8xf16>
  return %c : tensor<8x8xf16>
}

// -----

func.func @grids(%x: tensor<1x8xf16>, %w: tensor<8x8xf16>) -> tensor<1x8xf16> {
  %y = wafer.dist_gemv ring %x, %w on 4 : tensor<1x8xf16>, tensor<8x8xf16> -> tensor<1x8xf16>
  // expected-error@+1 {{'wafer.dist_gemv' op is on a grid of 8, an op before on one of 4; changing the grid is not supported}}
  %z = wafer.dist_gemv ring %y, %w on 8 : tensor<1x8xf16>, tensor<8x8xf16> -> tensor<1x8xf16>
  return %z : tensor<1x8xf16>
}

// -----

func.func @other(%x: tensor<1x8xf16>, %w: tensor<8x8xf16>) -> tensor<1x8xf16> {
  %y = wafer.dist_gemv ring %x, %w on 4 : tensor<1x8xf16>, tensor<8x8xf16> -> tensor<1x8xf16>
  // expected-error@+1 {{'arith.addf' op is not supported on wafers: wafer.dist_gemm, wafer.dist_gemv, wafer.dist_map, wafer.dist_norm, wafer.dist_decode, wafer.dist_attention, wafer.dist_append, wafer.dist_relayout and return are}}
  %z = arith.addf %y, %x : tensor<1x8xf16>
  return %z : tensor<1x8xf16>
}

// -----

func.func @axes(%x: tensor<1x8xf16>, %w: tensor<8x8xf16>) -> tensor<1x8xf16> {
  %y = wafer.dist_gemv ring %x, %w on 4 : tensor<1x8xf16>, tensor<8x8xf16> -> tensor<1x8xf16>
  // expected-error@+1 {{'wafer.dist_map' op has one input that is split along y and one along x; products exchange the axes}}
  %z = wafer.dist_map add %x, %y on 4 : tensor<1x8xf16>
  return %z : tensor<1x8xf16>
}
