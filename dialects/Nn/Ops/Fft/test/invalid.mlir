// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @axis(%x: tensor<4x6x2xf32>) {
  // expected-error@+1 {{'nn.fft' op has the axis 2, dimensions before the last of input are 0 to 1}}
  %0 = nn.fft %x {axis = 2} : (tensor<4x6x2xf32>) -> tensor<4x6x2xf32>
  return
}

// -----

func.func @parts(%x: tensor<4x6x3xf32>) {
  // expected-error@+1 {{'nn.fft' op input is 'tensor<4x6x3xf32>', its last dimension must be 1 or 2: real and imaginary parts}}
  %0 = nn.fft %x {axis = 1} : (tensor<4x6x3xf32>) -> tensor<4x6x2xf32>
  return
}

// -----

func.func @onesided(%x: tensor<4x6x2xf32>) {
  // expected-error@+1 {{'nn.fft' op is onesided, its input must be real}}
  %0 = nn.fft %x {axis = 1, onesided} : (tensor<4x6x2xf32>) -> tensor<4x4x2xf32>
  return
}

// -----

func.func @real(%x: tensor<4x6x1xf32>) {
  // expected-error@+1 {{'nn.fft' op is inverse and onesided, its input must be complex}}
  %0 = nn.fft %x {axis = 1, inverse, onesided} : (tensor<4x6x1xf32>) -> tensor<4x10x1xf32>
  return
}

// -----

func.func @length(%x: tensor<4x6x1xf32>) {
  // expected-error@+1 {{'nn.fft' op has a length, which only inverse onesided transforms have}}
  %0 = nn.fft %x {axis = 1, length = 6} : (tensor<4x6x1xf32>) -> tensor<4x6x2xf32>
  return
}

// -----

func.func @other_length(%x: tensor<4x6x2xf32>) {
  // expected-error@+1 {{'nn.fft' op has the length 12, for which axis 1 must have 7 elements and has 6}}
  %0 = nn.fft %x {axis = 1, inverse, onesided, length = 12} : (tensor<4x6x2xf32>) -> tensor<4x12x1xf32>
  return
}

// -----

func.func @nothing(%x: tensor<4x0x2xf32>) {
  // expected-error@+1 {{'nn.fft' op transforms 0 elements, possible are 1 to 4194304}}
  %0 = nn.fft %x {axis = 1} : (tensor<4x0x2xf32>) -> tensor<4x0x2xf32>
  return
}

// -----

func.func @too_many(%x: tensor<4194305x2xf32>) {
  // expected-error@+1 {{'nn.fft' op transforms 4194305 elements, possible are 1 to 4194304}}
  %0 = nn.fft %x {axis = 0} : (tensor<4194305x2xf32>) -> tensor<4194305x2xf32>
  return
}
