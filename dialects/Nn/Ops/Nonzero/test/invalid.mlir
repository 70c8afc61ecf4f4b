// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @scalar(%x: tensor<f32>) {
  // expected-error@+1 {{'nn.nonzero' op input has rank 0, must have at least rank 1}}
  %0:2 = nn.nonzero %x : (tensor<f32>) -> (tensor<1x0xi64>, tensor<i64>)
  return
}

// -----

func.func @bound(%x: tensor<4x2xf32>) {
  // expected-error@+2 {{inferred type(s) 'tensor<8x2xi64>', 'tensor<i64>' are incompatible}}
  // expected-error@+1 {{'nn.nonzero' op failed to infer returned types}}
  %0:2 = nn.nonzero %x : (tensor<4x2xf32>) -> (tensor<4x2xi64>, tensor<i64>)
  return
}
