// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<5x32xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{'nn.recurrent' op gates has rank 2, must have rank 3}}
  %y, %h = "nn.recurrent"(%x, %r) <{kind = #nn.recurrent_kind<rnn>, direction = #nn.direction<forward>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>}> : (tensor<5x32xf32>, tensor<32x8xf32>) -> (tensor<5x8xf32>, tensor<1x5x8xf32>)
  return
}

// -----

func.func @rows(%x: tensor<2x5x32xf32>, %r: tensor<24x8xf32>) {
  // expected-error@+1 {{recurrent is 'tensor<24x8xf32>': 1 directions of 4 gates and a hidden state of 8 need 32 rows}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r : (tensor<2x5x32xf32>, tensor<24x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @directions(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{recurrent is 'tensor<32x8xf32>': 2 directions of 4 gates and a hidden state of 8 need 64 rows}}
  %y:3 = nn.recurrent <lstm>, <bidirectional>, %x, %r : (tensor<2x5x32xf32>, tensor<32x8xf32>) -> (tensor<2x5x16xf32>, tensor<2x2x8xf32>, tensor<2x2x8xf32>)
  return
}

// -----

func.func @unknown_features(%x: tensor<2x5x?xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{gates is 'tensor<2x5x?xf32>', recurrent has 32 rows: gates needs as many features}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r : (tensor<2x5x?xf32>, tensor<32x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @features(%x: tensor<2x5x31xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{gates is 'tensor<2x5x31xf32>', recurrent has 32 rows: gates needs as many features}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r : (tensor<2x5x31xf32>, tensor<32x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @dynamic(%x: tensor<2x5x32xf32>, %r: tensor<?x8xf32>) {
  // expected-error@+1 {{needs recurrent weights of static sizes, they are 'tensor<?x8xf32>'}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r : (tensor<2x5x32xf32>, tensor<?x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @wide(%x: tensor<2x5x32xbf16>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{recurrent holds 'f32', gates holds 'bf16'}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r : (tensor<2x5x32xbf16>, tensor<32x8xf32>) -> (tensor<2x5x8xbf16>, tensor<1x2x8xbf16>, tensor<1x2x8xbf16>)
  return
}

// -----

func.func @order(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{has the gate order [0, 1, 1, 2], which does not name each of 0 to 3 once}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r  {gate_order = array<i64: 0, 1, 1, 2>} : (tensor<2x5x32xf32>, tensor<32x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @bias(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>, %b: tensor<8xf32>) {
  // expected-error@+1 {{bias is 'tensor<8xf32>', 1 directions of 4 gates and a hidden state of 8 need 32 elements}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r bias %b  : (tensor<2x5x32xf32>, tensor<32x8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @hidden(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>, %h: tensor<1x3x8xf32>) {
  // expected-error@+1 {{hidden has 3 sequences, gates has 2}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r hidden %h  : (tensor<2x5x32xf32>, tensor<32x8xf32>, tensor<1x3x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @cell(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>, %h: tensor<2x2x8xf32>) {
  // expected-error@+1 {{cell has 2 directions, the layer has 1}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r cell %h  : (tensor<2x5x32xf32>, tensor<32x8xf32>, tensor<2x2x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @peepholes(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>, %p: tensor<32xf32>) {
  // expected-error@+1 {{peepholes is 'tensor<32xf32>', 1 directions of 3 gates and a hidden state of 8 need 24 elements}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r peepholes %p  : (tensor<2x5x32xf32>, tensor<32x8xf32>, tensor<32xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @lengths(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>, %n: tensor<5xi32>) {
  // expected-error@+1 {{lengths has 5 sequences, gates has 2}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r lengths %n  : (tensor<2x5x32xf32>, tensor<32x8xf32>, tensor<5xi32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @activations(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{has 1 activations, 1 directions of this kind have 3}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r  {activations = [#nn.recurrent_activation<tanh>]} : (tensor<2x5x32xf32>, tensor<32x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @alphas(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{has no alphas, which 'elu' needs}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r  {activations = [#nn.recurrent_activation<sigmoid>, #nn.recurrent_activation<elu>, #nn.recurrent_activation<tanh>]} : (tensor<2x5x32xf32>, tensor<32x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @betas(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{has no betas, which 'affine' needs}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r  {activations = [#nn.recurrent_activation<sigmoid>, #nn.recurrent_activation<affine>, #nn.recurrent_activation<tanh>], alphas = array<f32: 0.0, 1.0, 0.0>} : (tensor<2x5x32xf32>, tensor<32x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @clip(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{has a clip of 0.000000e+00, which must be positive}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r {clip = 0.0 : f32} : (tensor<2x5x32xf32>, tensor<32x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @coupled(%x: tensor<2x5x24xf32>, %r: tensor<24x8xf32>) {
  // expected-error@+1 {{is of the kind 'gru', which has no coupled gates}}
  %y:2 = nn.recurrent <gru>, <forward>, %x, %r {coupled} : (tensor<2x5x24xf32>, tensor<24x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>)
  return
}

// -----

func.func @reset(%x: tensor<2x5x32xf32>, %r: tensor<32x8xf32>) {
  // expected-error@+1 {{is of the kind 'lstm', which has no reset gate}}
  %y:3 = nn.recurrent <lstm>, <forward>, %x, %r  {linear_before_reset} : (tensor<2x5x32xf32>, tensor<32x8xf32>) -> (tensor<2x5x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  return
}
