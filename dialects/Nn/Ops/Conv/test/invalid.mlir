// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<4x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.conv' op input has rank 2, must have at least rank 3}}
  %0 = "nn.conv"(%x, %w) <{window = array<i64>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @spatial_rank(%x: tensor<1x2x2x2x2x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.conv' op input has 4 spatial dimensions, the most are 3}}
  %0 = nn.conv %x, %w {window = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x2x2x8xf32>, tensor<4x8xf32>) -> tensor<1x2x2x2x2x4xf32>
  return
}

// -----

func.func @window(%x: tensor<1x9x8xf32>, %w: tensor<4x0xf32>) {
  // expected-error@+1 {{'nn.conv' op has 0 among its window sizes, the least is 1}}
  %0 = nn.conv %x, %w {window = array<i64: 0>} : (tensor<1x9x8xf32>, tensor<4x0xf32>) -> tensor<1x9x4xf32>
  return
}

// -----

func.func @strides(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has 0 among its strides, the least is 1}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, strides = array<i64: 0>} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x7x4xf32>
  return
}

// -----

func.func @dilations(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has -1 among its dilations, the least is 1}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, dilations = array<i64: -1>} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x11x4xf32>
  return
}

// -----

func.func @pads(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has -1 among its low pads, the least is 0}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, pads_low = array<i64: -1>} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x6x4xf32>
  return
}

// -----

func.func @entries(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has 2 high pads for 1 spatial dimensions}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, pads_high = array<i64: 1, 1>} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x8x4xf32>
  return
}

// -----

func.func @groups(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has 3 groups, which do not divide 8 input channels and 4 output channels}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, groups = 3} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x7x4xf32>
  return
}

// -----

func.func @no_groups(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has 0 groups, the least is 1}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, groups = 0} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x7x4xf32>
  return
}

// -----

func.func @columns(%x: tensor<1x9x8xf32>, %w: tensor<4x25xf32>) {
  // expected-error@+1 {{'nn.conv' op weight has 25 columns, a window of channels, a window of its input has 24}}
  %0 = nn.conv %x, %w {window = array<i64: 3>} : (tensor<1x9x8xf32>, tensor<4x25xf32>) -> tensor<1x7x4xf32>
  return
}

// -----

func.func @channels(%x: tensor<1x9x?xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op needs numbers of channels that are known: its input is 'tensor<1x9x?xf32>', its weight 'tensor<4x24xf32>'}}
  %0 = nn.conv %x, %w {window = array<i64: 3>} : (tensor<1x9x?xf32>, tensor<4x24xf32>) -> tensor<1x7x4xf32>
  return
}

// -----

func.func @result_size(%x: tensor<1x2x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has a result of size 0 in spatial dimension 0: its input has 2 positions and pads of 0 and 0, a window reaches over 3}}
  %0 = nn.conv %x, %w {window = array<i64: 3>} : (tensor<1x2x8xf32>, tensor<4x24xf32>) -> tensor<1x0x4xf32>
  return
}

// -----

func.func @output_pads(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has output pads, which are for transposed convolutions}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, output_pads = array<i64: 1>} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x8x4xf32>
  return
}

// -----

func.func @output_pad(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) {
  // expected-error@+1 {{'nn.conv' op has an output pad of 2, which must be below the stride 2 or the dilation 1}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, strides = array<i64: 2>, transposed, output_pads = array<i64: 2>} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x21x4xf32>
  return
}

// -----

func.func @bias(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>, %b: tensor<5xf32>) {
  // expected-error@+1 {{'nn.conv' op bias has 5 output channels, weight has 4}}
  %0 = nn.conv %x, %w, %b {window = array<i64: 3>} : (tensor<1x9x8xf32>, tensor<4x24xf32>, tensor<5xf32>) -> tensor<1x7x4xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4xf32>, %w: tensor<4x12xf32>) -> tensor<1x?x4xf32> {
  // expected-error@+1 {{'nn.conv' op has 4611686018427387904 among its low pads, the most is 2147483647}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, pads_low = array<i64: 4611686018427387904>} : (tensor<1x?x4xf32>, tensor<4x12xf32>) -> tensor<1x?x4xf32>
  return %0 : tensor<1x?x4xf32>
}

// -----

func.func @f(%x: tensor<1x?x?x?x4xf32>, %w: tensor<4x0xf32>) -> tensor<1x?x?x?x4xf32> {
  // expected-error@+1 {{'nn.conv' op has a window whose elements cannot be counted with 64 bits}}
  %0 = nn.conv %x, %w {window = array<i64: 2147483647, 2147483647, 4>} : (tensor<1x?x?x?x4xf32>, tensor<4x0xf32>) -> tensor<1x?x?x?x4xf32>
  return %0 : tensor<1x?x?x?x4xf32>
}

// -----

func.func @f(%x: tensor<1x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x0x4xf32> {
  // expected-error@+1 {{'nn.conv' op has a result of size 0 in spatial dimension 0: its input has 2 positions and pads of 1 and 1, a window reaches over 1}}
  %0 = nn.conv %x, %w {window = array<i64: 1>, pads_low = array<i64: 1>, pads_high = array<i64: 1>, transposed} : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x0x4xf32>
  return %0 : tensor<1x0x4xf32>
}

// -----

func.func @f(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) -> tensor<1x7x4xf32> {
  // expected-error@+1 {{'nn.conv' op has -2 groups, the least is 1}}
  %0 = nn.conv %x, %w {window = array<i64: 3>, groups = -2} : (tensor<1x9x8xf32>, tensor<4x24xf32>) -> tensor<1x7x4xf32>
  return %0 : tensor<1x7x4xf32>
}
