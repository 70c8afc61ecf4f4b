// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @rope(%x: tensor<?x?x8x64xf32>, %p: tensor<?x?xi64>, %f: tensor<33xf32>) {
  // expected-error@+1 {{'nn.rope' op rotates 66 features, input has 64 a head}}
  %0 = nn.rope %x, %p, %f : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<33xf32>) -> tensor<?x?x8x64xf32>
  return
}

// -----

func.func @rope(%x: tensor<?x5x8x64xf32>, %p: tensor<?x4xi64>, %f: tensor<32xf32>) {
  // expected-error@+1 {{'nn.rope' op positions has 4 entries in dimension 1, input has 5}}
  %0 = nn.rope %x, %p, %f : (tensor<?x5x8x64xf32>, tensor<?x4xi64>, tensor<32xf32>) -> tensor<?x5x8x64xf32>
  return
}

// -----

func.func @rope(%x: tensor<?x5x8x?xf32>, %p: tensor<?x5xi64>, %f: tensor<32xf32>) {
  // expected-error@+1 {{'nn.rope' op number of features a head and of frequencies must be static}}
  %0 = nn.rope %x, %p, %f : (tensor<?x5x8x?xf32>, tensor<?x5xi64>, tensor<32xf32>) -> tensor<?x5x8x?xf32>
  return
}

// -----

func.func @rope(%x: tensor<?x?x8x64xf32>, %p: tensor<?xi64>, %f: tensor<32xf32>) {
  // expected-error@+1 {{'nn.rope' op positions has rank 1, must have rank 2}}
  %0 = nn.rope %x, %p, %f : (tensor<?x?x8x64xf32>, tensor<?xi64>, tensor<32xf32>) -> tensor<?x?x8x64xf32>
  return
}
