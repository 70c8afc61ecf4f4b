// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'nn.cumulate' op input has rank 0, must have at least rank 1}}
  %y = nn.cumulate <add>, %x : tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @bits_of_floats(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{'nn.cumulate' op combines elements by 'xor', which is not for 'f32'}}
  %y = nn.cumulate <xor>, %x : tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

func.func @floats_of_integers(%x: tensor<3xi32>) -> tensor<3xi32> {
  // expected-error@+1 {{'nn.cumulate' op combines elements by 'maximumf', which is not for 'i32'}}
  %y = nn.cumulate <maximumf>, %x : tensor<3xi32>
  return %y : tensor<3xi32>
}
