// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @axis(%x: tensor<4x9xf32>, %i: tensor<4x3xi64>, %u: tensor<4x3xf32>) {
  // expected-error@+1 {{'nn.scatter' op has the axis 2, input has rank 2}}
  %0 = nn.scatter <add>, %x, %i, %u {axis = 2} : (tensor<4x9xf32>, tensor<4x3xi64>, tensor<4x3xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @rank(%x: tensor<4x9xf32>, %i: tensor<3xi64>, %u: tensor<4x3xf32>) {
  // expected-error@+1 {{'nn.scatter' op indices has rank 1, must have rank 2}}
  %0 = nn.scatter <add>, %x, %i, %u {axis = 1} : (tensor<4x9xf32>, tensor<3xi64>, tensor<4x3xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @element(%x: tensor<4x9xf32>, %i: tensor<4x3xi64>, %u: tensor<4x3xf16>) {
  // expected-error@+1 {{'nn.scatter' op updates holds 'f16', input holds 'f32'}}
  %0 = nn.scatter <add>, %x, %i, %u {axis = 1} : (tensor<4x9xf32>, tensor<4x3xi64>, tensor<4x3xf16>) -> tensor<4x9xf32>
  return
}

// -----

func.func @sizes(%x: tensor<4x9xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.scatter' op indices has the size 2 in dimension 0, input has 4}}
  %0 = nn.scatter <add>, %x, %i, %u {axis = 1} : (tensor<4x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @updates(%x: tensor<4x9xf32>, %i: tensor<4x3xi64>, %u: tensor<4x2xf32>) {
  // expected-error@+1 {{'nn.scatter' op updates has the size 2 in dimension 1, indices has 3}}
  %0 = nn.scatter <add>, %x, %i, %u {axis = 1} : (tensor<4x9xf32>, tensor<4x3xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @bits(%x: tensor<4x9xi1>, %i: tensor<4x3xi64>, %u: tensor<4x3xi1>) {
  // expected-error@+1 {{'nn.scatter' op has elements of i1, which only 'set' takes}}
  %0 = nn.scatter <add>, %x, %i, %u {axis = 1} : (tensor<4x9xi1>, tensor<4x3xi64>, tensor<4x3xi1>) -> tensor<4x9xi1>
  return
}

// -----

func.func @no_indices(%x: tensor<4x9x2xf32>, %i: tensor<3xi64>, %u: tensor<3xf32>) {
  // expected-error@+1 {{'nn.scatter_nd' op has no indices}}
  %0 = nn.scatter_nd <set>, %x[], %u : (tensor<4x9x2xf32>, tensor<3xf32>) -> tensor<4x9x2xf32>
  return
}

// -----

func.func @columns(%x: tensor<4x9x2xf32>, %i: tensor<3xi64>, %u: tensor<3xf32>) {
  // expected-error@+1 {{'nn.scatter_nd' op has indices of 4 dimensions, input has rank 3}}
  %0 = nn.scatter_nd <set>, %x[%i, %i, %i, %i], %u : (tensor<4x9x2xf32>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xf32>) -> tensor<4x9x2xf32>
  return
}

// -----

func.func @update_rank(%x: tensor<4x9x2xf32>, %i: tensor<3xi64>, %u: tensor<3xf32>) {
  // expected-error@+1 {{'nn.scatter_nd' op updates has rank 1, must have rank 2}}
  %0 = nn.scatter_nd <set>, %x[%i, %i], %u : (tensor<4x9x2xf32>, tensor<3xi64>, tensor<3xi64>, tensor<3xf32>) -> tensor<4x9x2xf32>
  return
}

// -----

func.func @count(%x: tensor<4x9x2xf32>, %i: tensor<3xi64>, %u: tensor<2x2xf32>) {
  // expected-error@+1 {{'nn.scatter_nd' op indices has 3 elements, updates has 2}}
  %0 = nn.scatter_nd <set>, %x[%i, %i], %u : (tensor<4x9x2xf32>, tensor<3xi64>, tensor<3xi64>, tensor<2x2xf32>) -> tensor<4x9x2xf32>
  return
}

// -----

func.func @slice(%x: tensor<4x9x2xf32>, %i: tensor<3xi64>, %u: tensor<3x5xf32>) {
  // expected-error@+1 {{'nn.scatter_nd' op input has the size 2 in dimension 2, updates has 5}}
  %0 = nn.scatter_nd <set>, %x[%i, %i], %u : (tensor<4x9x2xf32>, tensor<3xi64>, tensor<3xi64>, tensor<3x5xf32>) -> tensor<4x9x2xf32>
  return
}
