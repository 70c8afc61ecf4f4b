// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.linear' op has the precision 'f64': f16, bf16 and tf32 are possible}}
  %0 = nn.linear %x, %w {precision = f64} : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<f32>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.linear' op input has rank 0, must have at least rank 1}}
  %0 = nn.linear %x, %w : (tensor<f32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// -----

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x8x1xf32>) {
  // expected-error@+1 {{'nn.linear' op weight has rank 3, must have rank 2}}
  %0 = nn.linear %x, %w : (tensor<?x8xf32>, tensor<4x8x1xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<?x768xf32>, %w: tensor<4x384xf32>) {
  // expected-error@+1 {{'nn.linear' op weight has 384 input features, input has 768}}
  %0 = nn.linear %x, %w : (tensor<?x768xf32>, tensor<4x384xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<?x8xbf16>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.linear' op weight holds 'f32', input holds 'bf16'}}
  %0 = nn.linear %x, %w : (tensor<?x8xbf16>, tensor<4x8xf32>) -> tensor<?x4xbf16>
  return
}

// -----

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>, %b: tensor<5xf32>) {
  // expected-error@+1 {{'nn.linear' op bias has 5 output features, weight has 4}}
  %0 = nn.linear %x, %w, %b : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<5xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.linear' op failed to infer returned types}}
  // expected-error@+1 {{'nn.linear' op inferred type(s) 'tensor<?x4xf32>' are incompatible with return type(s) of operation 'tensor<?x5xf32>'}}
  %0 = nn.linear %x, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x5xf32>
  return
}
