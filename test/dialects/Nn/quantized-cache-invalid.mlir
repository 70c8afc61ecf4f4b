// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

func.func @append(%c: tensor<?x64x16xi8>, %q: tensor<?x2x2x64xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op codes has rank 3, must have rank 4}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t tail %l : (tensor<?x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64x32xf16>) -> (tensor<?x64x16xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x2x64x8xi8>, %q: tensor<?x2x2x64xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op codes has 8 bytes for 32 slots, must have 32 for 8 bits or 16 for 4 bits}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t tail %l : (tensor<?x2x64x8xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64x32xf16>) -> (tensor<?x2x64x8xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x2x48x16xi8>, %q: tensor<?x2x2x64xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op rows has 64 features, codes has 48}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t tail %l : (tensor<?x2x48x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64x32xf16>) -> (tensor<?x2x48x16xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x2x64x16xi8>, %q: tensor<?x2x3x64xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op parameters has 3 rows, must have 2: scales and zeros}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t tail %l : (tensor<?x2x64x16xi8>, tensor<?x2x3x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64x32xf16>) -> (tensor<?x2x64x16xi8>, tensor<?x2x3x64xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x32xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op parameters has 32 groups, codes has 64}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t tail %l : (tensor<?x2x64x16xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64x32xf16>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x32xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x64xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x2x64x?xf16>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op tail is 'tensor<?x2x64x?xf16>': only the number of sequences may be dynamic}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t tail %l : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64x?xf16>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x64xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x3x64x32xf16>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op rows has 2 heads, tail has 3}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t tail %l : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x3x64x32xf16>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x3x32x32xi8>, %q: tensor<?x2x2x32xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op rows has 2 heads, codes has 3}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t : (tensor<?x3x32x32xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x3x32x32xi8>, tensor<?x2x2x32xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x2x32x24xi8>, %q: tensor<?x2x2x32xi8>, %r: tensor<?x2x48xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op codes has 24 bytes for 48 features, must have 48 for 8 bits; 4 bits need a multiple of 32}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t : (tensor<?x2x32x24xi8>, tensor<?x2x2x32xi8>, tensor<?x2x48xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x32x24xi8>, tensor<?x2x2x32xi8>)
  return
}

// -----

func.func @append(%c: tensor<?x2x32x32xi8>, %q: tensor<?x2x2x32xi8>, %r: tensor<?x2x?xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op number of features of rows must be static}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t : (tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>, tensor<?x2x?xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>)
  return
}

// -----

func.func @append(%c: tensor<5x2x32x32xi8>, %q: tensor<4x2x2x32xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append_quantized' op parameters has 4 pages, codes has 5}}
  %0, %1 = nn.cache_append_quantized %c, %q, %r, %p, %s, %t : (tensor<5x2x32x32xi8>, tensor<4x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<5x2x32x32xi8>, tensor<4x2x2x32xi8>)
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xf16>, %v: tensor<?x2x32x32xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %kp: tensor<?x2x2x64xi8>, %vp: tensor<?x2x2x32xi8>, %r: tensor<?x2x64xf32>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cached_attention' op keys holds 'f16', codes are 'i8'}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t quantized(%kp, %vp, %r, %l) {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xf16>, tensor<?x2x32x32xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x2x64xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?x2x64x32xf16>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x8xi8>, %v: tensor<?x2x32x16xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %kp: tensor<?x2x2x64xi8>, %vp: tensor<?x2x2x32xi8>, %r: tensor<?x2x64xf32>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cached_attention' op keys has 8 bytes for 32 slots, must have 32 for 8 bits or 16 for 4 bits}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t quantized(%kp, %vp, %r, %l) {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x8xi8>, tensor<?x2x32x16xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x2x64xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?x2x64x32xf16>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %v: tensor<?x2x16x32xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %kp: tensor<?x2x2x64xi8>, %vp: tensor<?x2x2x32xi8>, %r: tensor<?x2x64xf32>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cached_attention' op values has 16 slots a page, tail has 32}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t quantized(%kp, %vp, %r, %l) {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x16x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x2x64xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?x2x64x32xf16>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %v: tensor<?x2x32x32xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %kp: tensor<?x2x2x32xi8>, %vp: tensor<?x2x2x32xi8>, %r: tensor<?x2x64xf32>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cached_attention' op key_parameters has 32 groups, keys has 64}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t quantized(%kp, %vp, %r, %l) {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x32x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x2x32xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?x2x64x32xf16>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %v: tensor<?x2x32x32xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %kp: tensor<?x2x2x64xi8>, %vp: tensor<?x3x2x32xi8>, %r: tensor<?x2x64xf32>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cached_attention' op value_parameters has 3 heads, values has 2}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t quantized(%kp, %vp, %r, %l) {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x32x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x2x64xi8>, tensor<?x3x2x32xi8>, tensor<?x2x64xf32>, tensor<?x2x64x32xf16>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %v: tensor<?x2x32x32xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %kp: tensor<?x2x2x64xi8>, %vp: tensor<?x2x2x32xi8>, %r: tensor<?x2x32xf32>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cached_attention' op rows has 32 features, tail has 64}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t quantized(%kp, %vp, %r, %l) {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x32x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x2x64xi8>, tensor<?x2x2x32xi8>, tensor<?x2x32xf32>, tensor<?x2x64x32xf16>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @tail(%l: tensor<?x2x64x32xf16>, %r: tensor<5x2x64xf32>, %p: tensor<4xi64>, %s: tensor<?xi64>) {
  // expected-error@+1 {{'nn.tail_append' op positions has 4 tokens, rows has 5}}
  %0 = nn.tail_append %l, %r, %p, %s : (tensor<?x2x64x32xf16>, tensor<5x2x64xf32>, tensor<4xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @tail(%l: tensor<?x2x64x32xf16>, %r: tensor<?x2x48xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>) {
  // expected-error@+1 {{'nn.tail_append' op rows has 48 features, tail has 64}}
  %0 = nn.tail_append %l, %r, %p, %s : (tensor<?x2x64x32xf16>, tensor<?x2x48xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @some(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xi8>, %v: tensor<?x2x32x64xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cached_attention' op has 1 of key_parameters, value_parameters, rows and tail, which codes need all four of}}
  %0 = "nn.cached_attention"(%q, %k, %v, %p, %s, %t, %l) <{scale = 0.125 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1>}> : (tensor<?x4x64xf32>, tensor<?x2x64x32xi8>, tensor<?x2x32x64xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64x32xf16>) -> tensor<?x4x64xf32>
  return
}
