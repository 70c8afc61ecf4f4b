// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @norm(%x: tensor<?x8xf32>, %g: tensor<9xf32>) {
  // expected-error@+1 {{'nn.layer_norm' op scale has 9 features, input has 8}}
  %0 = nn.layer_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<?x8xf32>, tensor<9xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf16>, %g: tensor<8xf16>, %b: tensor<8xf32>) {
  // expected-error@+1 {{'nn.layer_norm' op bias holds 'f32', input holds 'f16'}}
  %0 = nn.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f32} : (tensor<?x8xf16>, tensor<8xf16>, tensor<8xf32>) -> tensor<?x8xf16>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) {
  // expected-error@+1 {{'nn.rms_norm' op epsilon is -1.000000e+00, must be finite and not negative}}
  %0 = nn.rms_norm %x, %g {epsilon = -1.0 : f32} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x10xf32>, %g: tensor<10xf32>) {
  // expected-error@+1 {{'nn.group_norm' op input has 10 features, no multiple of the 4 groups}}
  %0 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<?x10xf32>, tensor<10xf32>) -> tensor<?x10xf32>
  return
}

// -----

func.func @norm(%x: tensor<4x?xf32>, %g: tensor<?xf32>) {
  // expected-error@+1 {{'nn.group_norm' op number of input features is dynamic, must be static}}
  %0 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<4x?xf32>, tensor<?xf32>) -> tensor<4x?xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) {
  // expected-error@+1 {{'nn.group_norm' op attribute 'groups' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 0} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{'nn.group_norm' op bias has 4 features, input has 8}}
  %0 = nn.group_norm %x, %g, %b {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<?x8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<?x8xf32>
  return
}
