// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @softmax(%x: tensor<f32>) {
  // expected-error@+1 {{'nn.softmax' op input has rank 0, must have at least rank 1}}
  %0 = nn.softmax %x : tensor<f32>
  return
}

// -----

func.func @softmax(%x: tensor<?xf32>) {
  // expected-error@+2 {{'nn.softmax' op failed to infer returned types}}
  // expected-error@+1 {{'nn.softmax' op inferred type(s) 'tensor<?xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'}}
  %0 = "nn.softmax"(%x) : (tensor<?xf32>) -> tensor<4xf32>
  return
}
