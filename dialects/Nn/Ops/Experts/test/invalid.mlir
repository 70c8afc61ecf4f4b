// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

func.func @route(%l: tensor<4x?x8xf32>) {
  // expected-error@+1 {{'nn.route' op logits has rank 3, must have rank 2}}
  %i, %w = nn.route %l {top_k = 2 : i64} : (tensor<4x?x8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @route(%l: tensor<?x8xf32>) {
  // expected-error@+1 {{'nn.route' op top_k is 0, logits are of 8 experts}}
  %i, %w = nn.route %l {top_k = 0 : i64} : (tensor<?x8xf32>) -> (tensor<?x0xi32>, tensor<?x0xf32>)
  return
}

// -----

func.func @route(%l: tensor<?x?xf32>) {
  // expected-error@+1 {{'nn.route' op logits is 'tensor<?x?xf32>': only the number of tokens may be dynamic}}
  %i, %w = nn.route %l {top_k = 2 : i64} : (tensor<?x?xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @route(%l: tensor<?x8xf32>) {
  // expected-error@+1 {{'nn.route' op top_k is 9, logits are of 8 experts}}
  %i, %w = nn.route %l {top_k = 9 : i64} : (tensor<?x8xf32>) -> (tensor<?x9xi32>, tensor<?x9xf32>)
  return
}

// -----

func.func @experts(%x: tensor<1x?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op input has rank 3, must have rank 2}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<1x?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<1x?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op indices has rank 1, must have rank 2}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op weights has rank 1, must have rank 2}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x256x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op gate_up has rank 3, must have rank 4}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x256x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op down has rank 2, must have rank 3}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x?x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op gate_up is 'tensor<8x2x?x64xf32>', sizes of weights must be static}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x?x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<?x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op down is 'tensor<?x64x128xf32>', sizes of weights must be static}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<?x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x3x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op gate_up has 3 matrices an expert, must have 2}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x3x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<5x64xf32>, %i: tensor<4x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op indices has 4 tokens, input has 5}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<5x64xf32>, tensor<4x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<5x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<5x64xf32>, %i: tensor<?x2xi32>, %w: tensor<4x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op weights has 4 tokens, input has 5}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<5x64xf32>, tensor<?x2xi32>, tensor<4x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<5x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x3xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op weights has 3 experts a token, indices has 2}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x3xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x32xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op gate_up has 32 input features, input has 64}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x32xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<7x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op down has 7 experts, gate_up has 8}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<7x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x32x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op down has 32 output features, input has 64}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x32x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x96xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op down has 96 input features, gate_up has 128}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x96xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x256xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op gate_up_bias has rank 2, must have rank 3}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x256xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x64xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op gate_up_bias is 'tensor<8x2x64xf32>', gate_up is 'tensor<8x2x128x64xf32>'}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x64xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<64xf32>) {
  // expected-error@+1 {{'nn.experts' op down_bias has rank 1, must have rank 2}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x128xf32>) {
  // expected-error@+1 {{'nn.experts' op down_bias is 'tensor<8x128xf32>', down is 'tensor<8x64x128xf32>'}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x128xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op limit is 0.000000e+00, must be positive}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>, limit = 0.0 : f32} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op intermediate_format is #nn.block_format<i8, f32, 32, axis = 0>, must be along axis 1 and have no scale for the whole tensor}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 0>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>, %b: tensor<8x2x128xf32>, %c: tensor<8x64xf32>) {
  // expected-error@+1 {{'nn.experts' op intermediate_format is #nn.block_format<e2m1, e4m3, 16, axis = 1>, must be along axis 1 and have no scale for the whole tensor}}
  %y = nn.experts %x, %i, %w, %g, %d gate_up_bias %b down_bias %c {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<8x2x128x64xf32>, %d: tensor<8x64x128xf32>) {
  // expected-error@+1 {{'nn.experts' op has the precision 'f64': f16, bf16 and tf32 are possible}}
  %y = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>, precision = f64} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>) -> tensor<?x64xf32>
  return
}

// -----

nn.archive @w {file = "w.safetensors"}
func.func @weight() {
  // expected-error@+1 {{'nn.weight' op archive @v is not defined}}
  %0 = nn.weight @v["b"] : tensor<4x32xi4>
  return
}
