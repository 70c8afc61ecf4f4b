// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @strides(%x: tensor<1x9x8xf32>) {
  // expected-error@+1 {{'nn.pool' op has -2 among its strides, the least is 1}}
  %0 = nn.pool <max>, %x {window = array<i64: 3>, strides = array<i64: -2>} : (tensor<1x9x8xf32>) -> tensor<1x7x8xf32>
  return
}

// -----

func.func @window(%x: tensor<1x9x8xf32>) {
  // expected-error@+1 {{'nn.pool' op has 0 among its window sizes, the least is 1}}
  %0 = nn.pool <max>, %x {window = array<i64: 0>} : (tensor<1x9x8xf32>) -> tensor<1x11x8xf32>
  return
}

// -----

func.func @entries(%x: tensor<1x9x9x8xf32>) {
  // expected-error@+1 {{'nn.pool' op has 1 window sizes for 2 spatial dimensions}}
  %0 = nn.pool <max>, %x {window = array<i64: 3>} : (tensor<1x9x9x8xf32>) -> tensor<1x7x9x8xf32>
  return
}

// -----

func.func @pads(%x: tensor<1x9x8xf32>) {
  // expected-error@+1 {{'nn.pool' op has a pad of 3, a window of 3 would lie outside of its input}}
  %0 = nn.pool <max>, %x {window = array<i64: 3>, pads_high = array<i64: 3>} : (tensor<1x9x8xf32>) -> tensor<1x10x8xf32>
  return
}

// -----

func.func @result_size(%x: tensor<1x2x8xf32>) {
  // expected-error@+1 {{'nn.pool' op has a result of size 0 in spatial dimension 0: its input has 2 positions and pads of 0 and 0, a window reaches over 3}}
  %0 = nn.pool <max>, %x {window = array<i64: 3>} : (tensor<1x2x8xf32>) -> tensor<1x0x8xf32>
  return
}

// -----

func.func @indices(%x: tensor<1x9x8xf32>) {
  // expected-error@+1 {{'nn.pool' op has indices of the kind 'average', only 'max' has them}}
  %0, %1 = nn.pool <average>, %x {window = array<i64: 3>, with_indices} : (tensor<1x9x8xf32>) -> (tensor<1x7x8xf32>, tensor<1x7x8xi64>)
  return
}

// -----

func.func @p(%x: tensor<1x9x8xf32>) {
  // expected-error@+1 {{'nn.pool' op attribute 'p' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = nn.pool <lp>, %x {window = array<i64: 3>, p = 0} : (tensor<1x9x8xf32>) -> tensor<1x7x8xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4xf32>) -> tensor<1x?x4xf32> {
  // expected-error@+1 {{'nn.pool' op has 9223372036854775807 among its strides, the most is 2147483647}}
  %0 = nn.pool <max>, %x {window = array<i64: 3>, strides = array<i64: 9223372036854775807>} : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  return %0 : tensor<1x?x4xf32>
}
