// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

func.func @candidates(%l: tensor<4x?x8xf32>, %t: tensor<?x2xf32>) {
  // expected-error@+1 {{'nn.candidates' op logits has rank 3, must have rank 2}}
  %v, %i, %s = nn.candidates %l, %t {count = 2 : i64} : (tensor<4x?x8xf32>, tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @candidates(%l: tensor<?x8xf32>, %t: tensor<2xf32>) {
  // expected-error@+1 {{'nn.candidates' op temperatures has rank 1, must have rank 2}}
  %v, %i, %s = nn.candidates %l, %t {count = 2 : i64} : (tensor<?x8xf32>, tensor<2xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @candidates(%l: tensor<?x?xf32>, %t: tensor<?x2xf32>) {
  // expected-error@+1 {{'nn.candidates' op logits is 'tensor<?x?xf32>': only the number of rows may be dynamic}}
  %v, %i, %s = nn.candidates %l, %t {count = 2 : i64} : (tensor<?x?xf32>, tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @candidates(%l: tensor<?x8xf32>, %t: tensor<?x?xf32>) {
  // expected-error@+1 {{'nn.candidates' op temperatures is 'tensor<?x?xf32>': a row has 1 to 4}}
  %v, %i, %s = nn.candidates %l, %t {count = 2 : i64} : (tensor<?x8xf32>, tensor<?x?xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x?xf32>)
  return
}

// -----

func.func @candidates(%l: tensor<?x8xf32>, %t: tensor<?x5xf32>) {
  // expected-error@+1 {{'nn.candidates' op temperatures is 'tensor<?x5xf32>': a row has 1 to 4}}
  %v, %i, %s = nn.candidates %l, %t {count = 2 : i64} : (tensor<?x8xf32>, tensor<?x5xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x5xf32>)
  return
}

// -----

func.func @candidates(%l: tensor<?x8xf32>, %t: tensor<?x2xf32>) {
  // expected-error@+1 {{'nn.candidates' op count is 0, a row has 8 logits}}
  %v, %i, %s = nn.candidates %l, %t {count = 0 : i64} : (tensor<?x8xf32>, tensor<?x2xf32>) -> (tensor<?x0xf32>, tensor<?x0xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @candidates(%l: tensor<?x8xf32>, %t: tensor<?x2xf32>) {
  // expected-error@+1 {{'nn.candidates' op count is 9, a row has 8 logits}}
  %v, %i, %s = nn.candidates %l, %t {count = 9 : i64} : (tensor<?x8xf32>, tensor<?x2xf32>) -> (tensor<?x9xf32>, tensor<?x9xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @candidates(%l: tensor<?x99xf32>, %t: tensor<?x2xf32>) {
  // expected-error@+1 {{'nn.candidates' op count is 65, at most 64 are possible}}
  %v, %i, %s = nn.candidates %l, %t {count = 65 : i64} : (tensor<?x99xf32>, tensor<?x2xf32>) -> (tensor<?x65xf32>, tensor<?x65xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @candidates(%l: tensor<3x8xf32>, %t: tensor<4x2xf32>) {
  // expected-error@+1 {{'nn.candidates' op temperatures has 4 rows, logits has 3}}
  %v, %i, %s = nn.candidates %l, %t {count = 2 : i64} : (tensor<3x8xf32>, tensor<4x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>, tensor<3x2xf32>)
  return
}
