// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @amounts(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.pad' op has 1 entries of 'low', input has rank 2}}
  %0 = nn.pad <edge>, %x {low = array<i64: 1>, high = array<i64: 1, 1>} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @negative(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.pad' op has the amount -1, only 'constant' takes elements away}}
  %0 = nn.pad <wrap>, %x {low = array<i64: 0, -1>, high = array<i64: 0, 0>} : (tensor<2x8xf32>) -> tensor<2x7xf32>
  return
}

// -----

func.func @less_than_nothing(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.pad' op takes 9 elements away in dimension 1, which has 8}}
  %0 = nn.pad <constant>, %x {low = array<i64: 0, -4>, high = array<i64: 0, -5>} : (tensor<2x8xf32>) -> tensor<2x0xf32>
  return
}

// -----

func.func @nothing(%x: tensor<2x0xf32>) {
  // expected-error@+1 {{'nn.pad' op has no elements in dimension 1 to pad with}}
  %0 = nn.pad <reflect>, %x {low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<2x0xf32>) -> tensor<2x1xf32>
  return
}

// -----

func.func @value(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.pad' op has a value, which is not for 'edge'}}
  %0 = nn.pad <edge>, %x {low = array<i64: 0, 1>, high = array<i64: 0, 0>, value = 1.0 : f32} : (tensor<2x8xf32>) -> tensor<2x9xf32>
  return
}

// -----

func.func @type(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.pad' op has a value of 'i32', input holds 'f32'}}
  %0 = nn.pad <constant>, %x {low = array<i64: 0, 1>, high = array<i64: 0, 0>, value = 1 : i32} : (tensor<2x8xf32>) -> tensor<2x9xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?xf32>) -> tensor<4x?xf32> {
  // expected-error@+2 {{'nn.pad' op has the amount 9223372036854775807, possible are -2147483647 to 2147483647}}
  // expected-error@+1 {{'nn.pad' op failed to infer returned types}}
  %0 = nn.pad <edge>, %x {low = array<i64: 0, 9223372036854775807>, high = array<i64: 0, 0>} : (tensor<4x?xf32>) -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
