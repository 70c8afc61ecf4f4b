// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

func.func @append(%c: tensor<?x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op cache has rank 3, must have rank 4}}
  %0 = nn.cache_append %c, %r, %p, %s, %t {transposed} : (tensor<?x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x64x32xf16>
  return
}

// -----

func.func @append(%c: tensor<?x2x64x32xf16>, %r: tensor<?x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op rows has rank 2, must have rank 3}}
  %0 = nn.cache_append %c, %r, %p, %s, %t {transposed} : (tensor<?x2x64x32xf16>, tensor<?x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @append(%c: tensor<?x2x64x?xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op cache is 'tensor<?x2x64x?xf16>': only the number of pages may be dynamic}}
  %0 = nn.cache_append %c, %r, %p, %s, %t {transposed} : (tensor<?x2x64x?xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x?xf16>
  return
}

// -----

func.func @append(%c: tensor<?x2x64x32xf16>, %r: tensor<?x3x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op rows has 3 heads, cache has 2}}
  %0 = nn.cache_append %c, %r, %p, %s, %t {transposed} : (tensor<?x2x64x32xf16>, tensor<?x3x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @append(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op rows has 64 features, cache has 32}}
  %0 = nn.cache_append %c, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @append(%c: tensor<?x2x64x32xf16>, %r: tensor<5x2x64xf32>, %p: tensor<4xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op positions has 4 tokens, rows has 5}}
  %0 = nn.cache_append %c, %r, %p, %s, %t {transposed} : (tensor<?x2x64x32xf16>, tensor<5x2x64xf32>, tensor<4xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @append(%c: tensor<?x2x64x32xf16>, %r: tensor<5x2x64xf32>, %p: tensor<?xi64>, %s: tensor<4xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op sequences has 4 tokens, rows has 5}}
  %0 = nn.cache_append %c, %r, %p, %s, %t {transposed} : (tensor<?x2x64x32xf16>, tensor<5x2x64xf32>, tensor<?xi64>, tensor<4xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @append(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?x?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op positions has rank 2, must have rank 1}}
  %0 = nn.cache_append %c, %r, %p, %s, %t {transposed} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?x?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @append(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op page_table has rank 1, must have rank 2}}
  %0 = nn.cache_append %c, %r, %p, %s, %t {transposed} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @attend(%q: tensor<?x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op query has rank 2, must have rank 3}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op values holds 'f32', keys holds 'f16'}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x4x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op values has 4 heads, keys has 2}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x4x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x16x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op values has 16 slots a page, keys has 32}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x16x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x32x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op keys has 32 features a head, query has 64}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x32x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x?x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op number of heads and features a head of query must be static}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x?x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x3x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op query has 3 heads, no multiple of the 2 heads of keys}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x3x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x3x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op window is 0, must be at least 1}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32, window = 0 : i64} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op soft_cap is 0.000000e+00, must be positive}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t {scale = 0.125 : f32, soft_cap = 0.0 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @attend(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %z: tensor<3xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op sinks has 3 heads, query has 4}}
  %0 = nn.cached_attention %q, %k, %v, %p, %s, %t sinks %z {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<3xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

// expected-error@+1 {{'func.func' op nn.state of argument 0 is unit on 'i64', must be a unit attribute on a tensor}}
func.func @state(%x: i64 {nn.state}) {
  return
}

// -----

// expected-error@+1 {{'func.func' op nn.state of result 0 is 0 : i64, must be the number of an argument with nn.state}}
func.func @state(%x: tensor<4xf32>) -> (tensor<4xf32> {nn.state = 0 : i64}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{nn.below of argument 0 is [0, "pages"] on 'tensor<4xi64>', must be [factor, "size"] on integers}}
func.func @below(%x: tensor<4xi64> {nn.below = [0 : i64, "pages"]}) {
  return
}
