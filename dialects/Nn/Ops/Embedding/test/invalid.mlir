// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @embedding(%t: tensor<10x2x4xf32>, %i: tensor<?xi64>) {
  // expected-error@+1 {{'nn.embedding' op table has rank 3, must have rank 2}}
  %0 = nn.embedding %t, %i : (tensor<10x2x4xf32>, tensor<?xi64>) -> tensor<?x4xf32>
  return
}

// -----

func.func @embedding(%t: tensor<0x4xf32>, %i: tensor<?xi64>) {
  // expected-error@+1 {{'nn.embedding' op table has no rows}}
  %0 = nn.embedding %t, %i : (tensor<0x4xf32>, tensor<?xi64>) -> tensor<?x4xf32>
  return
}

// -----

func.func @embedding(%t: tensor<10x4xf32>) {
  %i = arith.constant dense<[0, 9, 10]> : tensor<3xi64>
  // expected-error@+1 {{'nn.embedding' op index 10 is outside of the table, which has 10 rows}}
  %0 = nn.embedding %t, %i : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return
}
