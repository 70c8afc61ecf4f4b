// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<2x8x8x4xf32>, %g: tensor<2x5x2xf32>) {
  // expected-error@+1 {{'nn.grid_sample' op grid has rank 3, must have rank 4}}
  %0 = nn.grid_sample <linear>, <zeros>, %x, %g : (tensor<2x8x8x4xf32>, tensor<2x5x2xf32>) -> tensor<2x5x5x4xf32>
  return
}

// -----

func.func @spatial(%x: tensor<2x1x1x1x1x4xf32>, %g: tensor<2x1x1x1x1x4xf32>) {
  // expected-error@+1 {{'nn.grid_sample' op input has 4 spatial dimensions, the most are 3}}
  %0 = nn.grid_sample <linear>, <zeros>, %x, %g : (tensor<2x1x1x1x1x4xf32>, tensor<2x1x1x1x1x4xf32>) -> tensor<2x1x1x1x1x4xf32>
  return
}

// -----

func.func @batch(%x: tensor<2x8x8x4xf32>, %g: tensor<3x5x5x2xf32>) {
  // expected-error@+1 {{'nn.grid_sample' op grid has 3 images, input has 2}}
  %0 = nn.grid_sample <linear>, <zeros>, %x, %g : (tensor<2x8x8x4xf32>, tensor<3x5x5x2xf32>) -> tensor<2x5x5x4xf32>
  return
}

// -----

func.func @coordinates(%x: tensor<2x8x8x4xf32>, %g: tensor<2x5x5x3xf32>) {
  // expected-error@+1 {{'nn.grid_sample' op grid is 'tensor<2x5x5x3xf32>', whose last dimension must have the 2 coordinates of the input's spatial dimensions}}
  %0 = nn.grid_sample <linear>, <zeros>, %x, %g : (tensor<2x8x8x4xf32>, tensor<2x5x5x3xf32>) -> tensor<2x5x5x4xf32>
  return
}

// -----

func.func @nothing(%x: tensor<2x8x0x4xf32>, %g: tensor<2x5x5x2xf32>) {
  // expected-error@+1 {{'nn.grid_sample' op input has no elements in dimension 2}}
  %0 = nn.grid_sample <linear>, <zeros>, %x, %g : (tensor<2x8x0x4xf32>, tensor<2x5x5x2xf32>) -> tensor<2x5x5x4xf32>
  return
}
