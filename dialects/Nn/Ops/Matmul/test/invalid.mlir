// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @matmul(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.matmul' op has the precision 'f8E4M3FN': f16, bf16 and tf32 are possible}}
  %0 = nn.matmul %a, %a {precision = f8E4M3FN, transpose_rhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<1x8x4xf32>) {
  // expected-error@+1 {{'nn.matmul' op lhs has rank 2, rhs has rank 3}}
  %0 = nn.matmul %a, %b : (tensor<4x8xf32>, tensor<1x8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul(%a: tensor<8xf32>) {
  // expected-error@+1 {{'nn.matmul' op lhs has rank 1, must have at least rank 2}}
  %0 = nn.matmul %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @matmul(%a: tensor<2x4x8xf32>, %b: tensor<3x8x4xf32>) {
  // expected-error@+1 {{'nn.matmul' op batch dimension 0 of lhs is 2, of rhs is 3}}
  %0 = nn.matmul %a, %b : (tensor<2x4x8xf32>, tensor<3x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<9x4xf32>) {
  // expected-error@+1 {{'nn.matmul' op sums over 8 elements of lhs, 9 of rhs}}
  %0 = nn.matmul %a, %b : (tensor<4x8xf32>, tensor<9x4xf32>) -> tensor<4x4xf32>
  return
}
