// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @axis(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has the axis 3, input has rank 3}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 3>, sizes = array<i64: 4>}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @negative_axis(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has the axis -1, input has rank 3}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: -1>, sizes = array<i64: 4>}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @same_axis(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has the axis 1 twice}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1, 1>, sizes = array<i64: 4, 4>}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @both(%x: tensor<2x8x4xf32>, %like: tensor<4xf32>) {
  // expected-error@+1 {{'nn.resize' op has sizes and a tensor like which its result is}}
  %0 = "nn.resize"(%x, %like) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>}> : (tensor<2x8x4xf32>, tensor<4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @size(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has the size -2, the least is 0}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: -2>}> : (tensor<2x8x4xf32>) -> tensor<2x0x4xf32>
  return
}

// -----

func.func @zero_scale(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has the scale 0.000000e+00, scales are positive and finite}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>, scales = array<f32: 0.0>}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @nan_scale(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has the scale nan, scales are positive and finite}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>, scales = array<f32: 0x7FC00000>}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @offset(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has the shift or offset INF, which is not finite}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>, offsets = array<f32: 0x7F800000>}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @scales(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has 2 scales for 1 axes}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>, scales = array<f32: 1.0, 2.0>}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @corners(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has scales and corners, which say the same}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>, scales = array<f32: 2.0>, corners}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @integers(%x: tensor<2x8x4xi8>) {
  // expected-error@+1 {{'nn.resize' op has elements of 'i8', only 'nearest' takes others than floats}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>}> : (tensor<2x8x4xi8>) -> tensor<2x4x4xi8>
  return
}

// -----

func.func @antialias(%x: tensor<2x8x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has 'antialias', which is not for 'nearest'}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<nearest>, axes = array<i64: 1>, sizes = array<i64: 4>, antialias}> : (tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @nothing(%x: tensor<2x0x4xf32>) {
  // expected-error@+1 {{'nn.resize' op input has no elements along axis 1, from which others could be made}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>}> : (tensor<2x0x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @dynamic(%x: tensor<2x?x4xf32>) {
  // expected-error@+1 {{'nn.resize' op has 'antialias' without scales along axis 1, whose size is dynamic}}
  %0 = "nn.resize"(%x) <{kind = #nn.interpolation<linear>, axes = array<i64: 1>, sizes = array<i64: 4>, antialias}> : (tensor<2x?x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x5x3xf32>) -> tensor<2x4x3xf32> {
  // expected-error@+1 {{'nn.resize' op has the scale -5.000000e-01, scales are positive and finite}}
  %0 = nn.resize <linear>, %x {axes = array<i64: 1>, sizes = array<i64: 4>, scales = array<f32: -0.5>} : (tensor<2x5x3xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}
