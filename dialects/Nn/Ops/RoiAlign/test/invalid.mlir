// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<2x8x4xf32>, %b: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{'nn.roi_align' op input has rank 3, must have rank 4}}
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 5>, samples = 2} : (tensor<2x8x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x7x5x4xf32>
  return
}

// -----

func.func @box(%x: tensor<2x8x8x4xf32>, %b: tensor<3x5xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{'nn.roi_align' op boxes is 'tensor<3x5xf32>', a box has 4 numbers}}
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 5>, samples = 2} : (tensor<2x8x8x4xf32>, tensor<3x5xf32>, tensor<3xi64>) -> tensor<3x7x5x4xf32>
  return
}

// -----

func.func @regions(%x: tensor<2x8x8x4xf32>, %b: tensor<3x4xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'nn.roi_align' op boxes has 3 regions, images has 2}}
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 5>, samples = 2} : (tensor<2x8x8x4xf32>, tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x7x5x4xf32>
  return
}

// -----

func.func @size(%x: tensor<2x8x8x4xf32>, %b: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{'nn.roi_align' op has the size 0, the least is 1}}
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 0>, samples = 2} : (tensor<2x8x8x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x7x0x4xf32>
  return
}

// -----

func.func @samples(%x: tensor<2x8x8x4xf32>, %b: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{'nn.roi_align' op has 0 samples, the least is 1}}
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 5>, samples = 0} : (tensor<2x8x8x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x7x5x4xf32>
  return
}

// -----

func.func @scale(%x: tensor<2x8x8x4xf32>, %b: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{'nn.roi_align' op has a spatial scale that is not finite}}
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 5>, samples = 2, spatial_scale = 0x7F800000 : f32} : (tensor<2x8x8x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x7x5x4xf32>
  return
}

// -----

func.func @nothing(%x: tensor<2x0x8x4xf32>, %b: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{'nn.roi_align' op input has no elements in dimension 1}}
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 5>, samples = 2} : (tensor<2x0x8x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x7x5x4xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x4x2xf32>, %b: tensor<3x4xf32>, %i: tensor<3xi64>) -> tensor<3x4294967296x3x2xf32> {
  // expected-error@+1 {{'nn.roi_align' op has 2147483648 samples in each of 4294967296 cells, the most are 2147483647 in all}}
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 4294967296, 3>, samples = 2147483648} : (tensor<1x4x4x2xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4294967296x3x2xf32>
  return %0 : tensor<3x4294967296x3x2xf32>
}
