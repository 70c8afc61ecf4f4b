// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @attention(%q: tensor<?x?x12x64xf32>) {
  // expected-error@+1 {{'nn.attention' op has the precision 'f32': f16, bf16, i8 and tf32 are possible}}
  %0 = nn.attention %q, %q, %q {precision = f32, scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x?x768xf32>) {
  // expected-error@+1 {{'nn.attention' op key has rank 3, must have rank 4}}
  %0 = nn.attention %q, %k, %q {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x768xf32>, tensor<?x?x12x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x?x12x32xf32>) {
  // expected-error@+1 {{'nn.attention' op key has 32 features a head, query has 64}}
  %0 = nn.attention %q, %k, %q {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x32xf32>, tensor<?x?x12x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<2x?x12x64xf32>, %k: tensor<3x?x12x64xf32>) {
  // expected-error@+1 {{'nn.attention' op key has 3 batch entries, query has 2}}
  %0 = nn.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<2x?x12x64xf32>, tensor<3x?x12x64xf32>, tensor<3x?x12x64xf32>) -> tensor<2x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x7x12x64xf32>, %v: tensor<?x9x12x64xf32>) {
  // expected-error@+1 {{'nn.attention' op value has 9 positions, key has 7}}
  %0 = nn.attention %q, %k, %v {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x7x12x64xf32>, tensor<?x9x12x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x?x5x64xf32>) {
  // expected-error@+1 {{'nn.attention' op query has 12 heads, no multiple of the 5 heads of key}}
  %0 = nn.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x5x64xf32>, tensor<?x?x5x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{'nn.attention' op number of heads is dynamic, must be static}}
  %0 = nn.attention %q, %q, %q {scale = 1.0 : f32} : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %m: tensor<?x3x1x?xi1>) {
  // expected-error@+1 {{'nn.attention' op mask has size 3 in dimension 1 (heads), the scores have 12}}
  %0 = nn.attention %q, %q, %q mask %m {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x3x1x?xi1>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x8x12x64xf32>, %m: tensor<?x1x1x1xi1>) {
  // expected-error@+1 {{'nn.attention' op mask has size 1 in dimension 3 (keys), the scores have 8}}
  %0 = nn.attention %q, %q, %q mask %m {scale = 1.0 : f32} : (tensor<?x8x12x64xf32>, tensor<?x8x12x64xf32>, tensor<?x8x12x64xf32>, tensor<?x1x1x1xi1>) -> tensor<?x8x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %v: tensor<?x?x6x64xf32>) {
  // expected-error@+1 {{'nn.attention' op value has 6 heads, key has 12}}
  %0 = nn.attention %q, %q, %v {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?x6x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<2x?x12x64xf32>, %v: tensor<3x?x12x64xf32>) {
  // expected-error@+1 {{'nn.attention' op value has 3 batch entries, query has 2}}
  %0 = nn.attention %q, %q, %v {scale = 1.0 : f32} : (tensor<2x?x12x64xf32>, tensor<2x?x12x64xf32>, tensor<3x?x12x64xf32>) -> tensor<2x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %m: tensor<?x?xi1>) {
  // expected-error@+1 {{'nn.attention' op mask has rank 2, must have rank 4}}
  %0 = nn.attention %q, %q, %q mask %m {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?xi1>) -> tensor<?x?x12x64xf32>
  return
}
