// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @axis(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.top_k' op has the axis 2, input has rank 2}}
  %0, %1 = nn.top_k %x {axis = 2, k = 1} : (tensor<2x8xf32>) -> (tensor<2x1xf32>, tensor<2x1xi64>)
  return
}

// -----

func.func @negative(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.top_k' op has a k of -1, the least is 0}}
  %0, %1 = nn.top_k %x {axis = 1, k = -1} : (tensor<2x8xf32>) -> (tensor<2x0xf32>, tensor<2x0xi64>)
  return
}

// -----

func.func @too_many(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.top_k' op has a k of 9, axis 1 has 8 elements}}
  %0, %1 = nn.top_k %x {axis = 1, k = 9} : (tensor<2x8xf32>) -> (tensor<2x9xf32>, tensor<2x9xi64>)
  return
}

// -----

func.func @sort_axis(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.sort' op has the axis -1, input has rank 2}}
  %0, %1 = nn.sort %x {axis = -1} : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xi64>)
  return
}

// -----

func.func @scalar(%x: tensor<f32>) {
  // expected-error@+1 {{'nn.sort' op input has rank 0, must have at least rank 1}}
  %0, %1 = nn.sort %x {axis = 0} : (tensor<f32>) -> (tensor<f32>, tensor<i64>)
  return
}
