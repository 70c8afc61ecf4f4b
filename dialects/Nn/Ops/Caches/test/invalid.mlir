// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

func.func @f(%c: tensor<?x2x64x16xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op cache are 1 tensors, #nn.cache_format<keys, ui4, page = 32, transposed> has 3}}
  %0 = nn.cache_append(%c) <keys, ui4, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x16xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x16xi8>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %q: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op cache are 2 tensors, #nn.cache_format<keys, f16, page = 32, transposed> has 1}}
  %0 = nn.cache_append(%c, %q) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache has rank 3, must have rank 4}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op rows has rank 2, must have rank 3}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x?xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op number of heads and features a head of rows must be static}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x2x?xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x?xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache is 'tensor<?x2x64x?xf16>', #nn.cache_format<keys, f16, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x64x32xf16>'}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x?xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x?xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x3x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache is 'tensor<?x2x64x32xf16>', #nn.cache_format<keys, f16, page = 32, transposed> with 3 heads of 64 features needs 'tensor<?x3x64x32xf16>'}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x3x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache is 'tensor<?x2x64x32xf16>', #nn.cache_format<values, f16, page = 32> with 2 heads of 64 features needs 'tensor<?x2x32x64xf16>'}}
  %0 = nn.cache_append(%c) <values, f16, page = 32>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf32>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache is 'tensor<?x2x64x32xf32>', #nn.cache_format<keys, f16, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x64x32xf16>'}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf32>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache is 'tensor<?x2x64x32xf16>', #nn.cache_format<keys, f8E4M3FN, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x64x32xi8>'}}
  %0 = nn.cache_append(%c) <keys, f8E4M3FN, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x32x64xf32>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache is 'tensor<?x2x32x64xf32>', #nn.cache_format<keys, f32> with 2 heads of 64 features needs 'tensor<?x2x?x64xf32>'}}
  %0 = nn.cache_append(%c) <keys, f32>, %r, %p, %s, %t : (tensor<?x2x32x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x64xf32>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x8xi8>, %q: tensor<?x2x2x64xi8>, %l: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache is 'tensor<?x2x64x8xi8>', #nn.cache_format<keys, ui4, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x64x16xi8>'}}
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui4, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x8xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x8xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @f(%c: tensor<?x2x64x16xi8>, %q: tensor<?x2x3x64xi8>, %l: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 1 of cache is 'tensor<?x2x3x64xi8>', #nn.cache_format<keys, ui4, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x2x64xi8>'}}
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui4, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x16xi8>, tensor<?x2x3x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x3x64xi8>)
  return
}

// -----

func.func @f(%c: tensor<?x2x32x32xi8>, %q: tensor<?x2x2x64xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 1 of cache is 'tensor<?x2x2x64xi8>', #nn.cache_format<values, ui4, page = 32> with 2 heads of 64 features needs 'tensor<?x2x2x32xi8>'}}
  %0, %1 = nn.cache_append(%c, %q) <values, ui4, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x32xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x32x32xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @f(%c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x64xi8>, %l: tensor<?x2x64x32xf32>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 2 of cache is 'tensor<?x2x64x32xf32>', #nn.cache_format<keys, ui4, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x64x32xf16>'}}
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui4, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @f(%c: tensor<?x2x32x24xi8>, %q: tensor<?x2x2x32xi8>, %r: tensor<?x2x48xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op cache have 4 bits and heads of 48 features, which must be a multiple of 32}}
  %0, %1 = nn.cache_append(%c, %q) <values, ui4, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x24xi8>, tensor<?x2x2x32xi8>, tensor<?x2x48xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x32x24xi8>, tensor<?x2x2x32xi8>)
  return
}

// -----

func.func @f(%c: tensor<5x2x32x32xi8>, %q: tensor<4x2x2x32xi8>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 1 of cache has 4 pages, tensor 0 has 5}}
  %0, %1 = nn.cache_append(%c, %q) <values, ui4, page = 32>, %r, %p, %s, %t : (tensor<5x2x32x32xi8>, tensor<4x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<5x2x32x32xi8>, tensor<4x2x2x32xi8>)
  return
}

// -----

func.func @f(%c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x64xi8>, %l: tensor<3x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<2x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op the tail of cache has 3 sequences, page_table has 2}}
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui4, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<3x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<2x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<5x2x64xf32>, %p: tensor<4xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op positions has 4 tokens, rows has 5}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<5x2x64xf32>, tensor<4xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<5x2x64xf32>, %p: tensor<?xi64>, %s: tensor<4xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op sequences has 4 tokens, rows has 5}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<5x2x64xf32>, tensor<?xi64>, tensor<4xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?x?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op positions has rank 2, must have rank 1}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?x?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op page_table has rank 1, must have rank 2}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op has no page_table, which pages need}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op updates a tail and has a page_table, which only pages need}}
  %0 = nn.cache_append(%c) <keys, ui4, page = 32, transposed>, %r, %p, %s, %t {tail} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x32x64xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op updates the tail of #nn.cache_format<values, ui4, page = 32>, which has none}}
  %0 = nn.cache_append(%c) <values, ui4, page = 32>, %r, %p, %s {tail} : (tensor<?x2x32x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x32x64xf16>
  return
}

// -----

func.func @f(%c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x64xi8>, %l: tensor<?x2x64x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op cache are 3 tensors, #nn.cache_format<keys, ui4, page = 32, transposed> has 1 tail}}
  %0 = nn.cache_append(%c, %q, %l) <keys, ui4, page = 32, transposed>, %r, %p, %s {tail} : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x16xi8>
  return
}

// -----

func.func @f(%c: tensor<?x2x48x32xf16>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>) {
  // expected-error@+1 {{'nn.cache_append' op tensor 0 of cache is 'tensor<?x2x48x32xf16>', #nn.cache_format<keys, ui4, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x64x32xf16>'}}
  %0 = nn.cache_append(%c) <keys, ui4, page = 32, transposed>, %r, %p, %s {tail} : (tensor<?x2x48x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x48x32xf16>
  return
}

// -----

func.func @f(%q: tensor<?x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op query has rank 2, must have rank 3}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op has the precision 'i8': f16, bf16 and tf32 are possible}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {precision = i8, scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x?x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op number of heads and features a head of query must be static}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x?x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x32x64xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op key_format is #nn.cache_format<values, f16, page = 32>, must be of keys}}
  %0 = nn.cached_attention %q, (%k) <values, f16, page = 32>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x32x64xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op value_format is #nn.cache_format<keys, f16, page = 32>, must be of values}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <keys, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x16x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op key_format is #nn.cache_format<keys, f16, page = 32, transposed>, value_format is #nn.cache_format<values, f16, page = 16>: both must have pages of one size}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 16>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x16x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %kt: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op has no rows of new keys, which the tail of keys needs; key_format is #nn.cache_format<keys, ui4, page = 32, transposed>}}
  %0 = nn.cached_attention %q, (%k, %kp, %kt) <keys, ui4, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %r: tensor<?x2x64xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op has rows, which only keys with a tail need; key_format is #nn.cache_format<keys, f16, page = 32, transposed>}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %r: tensor<?x2x64xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op keys are 2 tensors, #nn.cache_format<keys, ui4, page = 32, transposed> has 3}}
  %0 = nn.cached_attention %q, (%k, %kp) <keys, ui4, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x32xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op values are 1 tensors, #nn.cache_format<values, ui4, page = 32> has 2}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, ui4, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op tensor 0 of keys has rank 3, must have rank 4}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x?x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op number of heads of keys must be static}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x?x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x32x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op tensor 0 of keys is 'tensor<?x2x32x32xf16>', #nn.cache_format<keys, f16, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x64x32xf16>'}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x32x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x4x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op tensor 0 of values is 'tensor<?x4x32x64xf16>', #nn.cache_format<values, f16, page = 32> with 2 heads of 64 features needs 'tensor<?x2x32x64xf16>'}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x4x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x32xi8>, %kt: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %r: tensor<?x2x64xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op tensor 1 of keys is 'tensor<?x2x2x32xi8>', #nn.cache_format<keys, ui4, page = 32, transposed> with 2 heads of 64 features needs 'tensor<?x2x2x64xi8>'}}
  %0 = nn.cached_attention %q, (%k, %kp, %kt) <keys, ui4, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x32xi8>, %vp: tensor<?x3x2x32xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op tensor 1 of values is 'tensor<?x3x2x32xi8>', #nn.cache_format<values, ui4, page = 32> with 2 heads of 64 features needs 'tensor<?x2x2x32xi8>'}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v, %vp) <values, ui4, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x32xi8>, tensor<?x3x2x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<5x2x64x32xf16>, %v: tensor<4x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op values has 4 pages, keys has 5}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<5x2x64x32xf16>, tensor<4x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %kt: tensor<3x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<2x?xi64>, %r: tensor<?x2x64xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op the tail of keys has 3 sequences, page_table has 2}}
  %0 = nn.cached_attention %q, (%k, %kp, %kt) <keys, ui4, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<3x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<2x?xi64>, tensor<?x2x64xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %kt: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %r: tensor<?x64xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op rows has rank 2, must have rank 3}}
  %0 = nn.cached_attention %q, (%k, %kp, %kt) <keys, ui4, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x64xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<4x4x64xf32>, %k: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %kt: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %r: tensor<5x2x64xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op rows has 5 tokens, query has 4}}
  %0 = nn.cached_attention %q, (%k, %kp, %kt) <keys, ui4, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<4x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<5x2x64xf32>) -> tensor<4x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %kt: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %r: tensor<?x3x64xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op rows has 3 heads, keys has 2}}
  %0 = nn.cached_attention %q, (%k, %kp, %kt) <keys, ui4, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x3x64xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x16xi8>, %kp: tensor<?x2x2x64xi8>, %kt: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %r: tensor<?x2x32xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op rows has 32 features a head, query has 64}}
  %0 = nn.cached_attention %q, (%k, %kp, %kt) <keys, ui4, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x32xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x3x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op query has 3 heads, no multiple of the 2 heads of keys}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x3x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x3x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op window is 0, must be at least 1}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32, window = 0 : i64} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op soft_cap is 0.000000e+00, must be positive}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32, soft_cap = 0.0 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %z: tensor<1x4xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op sinks has rank 2, must have rank 1}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t sinks %z {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<1x4xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %z: tensor<3xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op sinks has 3 heads, query has 4}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t sinks %z {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<3xf32>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<?x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op page_table has rank 1, must have rank 2}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x4x64xf32>
  return
}

// -----

func.func @f(%q: tensor<5x4x64xf32>, %k: tensor<?x2x64x32xf16>, %v: tensor<?x2x32x64xf16>, %p: tensor<4xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) {
  // expected-error@+1 {{'nn.cached_attention' op positions has 4 tokens, query has 5}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<5x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<4xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<5x4x64xf32>
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

// -----

// expected-error@+1 {{nn.page_tokens is 0 : i64, must be a positive i64}}
func.func @page_tokens() attributes {nn.page_tokens = 0 : i64} {
  return
}

// -----

func.func @no_frequencies(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x64xi8>, %l: tensor<?x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cache_append' op has no frequencies, which unrotated keys are turned by; the format is #nn.cache_format<keys, ui4, unrotated, page = 32, transposed>}}
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui4, unrotated, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @needless_frequencies(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %c: tensor<?x2x64x32xf16>, %f: tensor<32xf32>) {
  // expected-error@+1 {{'nn.cache_append' op has frequencies, which only pages of unrotated keys need; the format is #nn.cache_format<keys, f16, page = 32, transposed>}}
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t frequencies %f : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<32xf32>) -> tensor<?x2x64x32xf16>
  return
}

// -----

func.func @many_frequencies(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x64xi8>, %l: tensor<?x2x64x32xf16>, %f: tensor<33xf32>) {
  // expected-error@+1 {{'nn.cache_append' op has 33 frequencies, heads of 64 features have at most 32 pairs}}
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui4, unrotated, page = 32, transposed>, %r, %p, %s, %t frequencies %f : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<33xf32>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  return
}

// -----

func.func @type_of_frequencies(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %c: tensor<?x2x64x16xi8>, %q: tensor<?x2x2x64xi8>, %l: tensor<?x2x64x32xf16>, %f: tensor<?xf32>) {
  // expected-error@+1 {{'nn.cache_append' op type of frequencies is 'tensor<?xf32>', must be f32 of rank 1 and of static size}}
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui4, unrotated, page = 32, transposed>, %r, %p, %s, %t frequencies %f : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?xf32>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  return
}
