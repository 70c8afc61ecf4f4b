// RUN: intarsia-opt %s --target-declare-devices=targets=cpu --fuse-quantize-results | FileCheck %s
// RUN: intarsia-opt %s --target-declare-devices=targets=reference --fuse-quantize-results | FileCheck %s --check-prefix=REFERENCE

#few = #nn.block_format<i8, f32, 256, axis = 1>
#channel = #nn.block_format<i8, f16, 0, axis = 1>
#row = #nn.block_format<i8, f32, 0, axis = 1>
#image = #nn.block_format<i8, f32, 0, axis = 3>
nn.archive @a {file = "model.safetensors"}

// What a linear of bytes reads next is quantized where it is computed. A device without such kernels keeps floats.
// CHECK-LABEL: func.func @between_linears
// REFERENCE-LABEL: func.func @between_linears
// REFERENCE: nn.group linear{{.*}} -> tensor<?x512xf32>
func.func @between_linears(%x: tensor<?x256xf32>, %u: tensor<512x256xi8>, %us: tensor<512x1xf16>, %d: tensor<256x512xi8>, %ds: tensor<256x1xf16>) -> tensor<?x256xf32> {
  %up = nn.dequantize %u, %us {format = #channel} : (tensor<512x256xi8>, tensor<512x1xf16>) -> tensor<512x256xf32>
  %down = nn.dequantize %d, %ds {format = #channel} : (tensor<256x512xi8>, tensor<256x1xf16>) -> tensor<256x512xf32>
  // CHECK: %[[H:.*]]:2 = nn.group linear({{.*}} -> (tensor<?x512xi8>, tensor<?x2xf32>)
  // CHECK:   %[[G:.*]] = nn.gelu
  // CHECK:   %[[V:.*]], %[[S:.*]] = nn.quantize %[[G]] {format = #nn.block_format<i8, f32, 256, axis = 1>}
  // CHECK:   nn.yield %[[V]], %[[S]]
  %h = nn.group linear(%a = %x, %w = %up) : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32> {
    %c, %s = nn.quantize %a {format = #few} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #few} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %w : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32>
    %g = nn.gelu %l {form = #nn.gelu_form<erf>} : tensor<?x512xf32>
    nn.yield %g : tensor<?x512xf32>
  }
  // CHECK: nn.group linear(%[[A:[a-z0-9]+]] = %[[H]]#0, {{.*}}, %[[B:[a-z0-9]+]] = %[[H]]#1)
  // CHECK-NOT: nn.quantize
  // CHECK:   nn.dequantize %[[A]], %[[B]]
  %y = nn.group linear(%a = %h, %w = %down) : (tensor<?x512xf32>, tensor<256x512xf32>) -> tensor<?x256xf32> {
    %c, %s = nn.quantize %a {format = #few} : (tensor<?x512xf32>) -> (tensor<?x512xi8>, tensor<?x2xf32>)
    %r = nn.dequantize %c, %s {format = #few} : (tensor<?x512xi8>, tensor<?x2xf32>) -> tensor<?x512xf32>
    %l = nn.linear %r, %w : (tensor<?x512xf32>, tensor<256x512xf32>) -> tensor<?x256xf32>
    nn.yield %l : tensor<?x256xf32>
  }
  return %y : tensor<?x256xf32>
}

// A result that something else reads too stays, and so does one with half a block of features at its end.
// CHECK-LABEL: func.func @read_as_it_is
// CHECK: nn.group linear{{.*}} -> tensor<?x512xf32>
func.func @read_as_it_is(%x: tensor<?x256xf32>, %u: tensor<512x256xi8>, %us: tensor<512x1xf16>, %d: tensor<256x512xi8>, %ds: tensor<256x1xf16>) -> (tensor<?x256xf32>, tensor<?x512xf32>) {
  %up = nn.dequantize %u, %us {format = #channel} : (tensor<512x256xi8>, tensor<512x1xf16>) -> tensor<512x256xf32>
  %down = nn.dequantize %d, %ds {format = #channel} : (tensor<256x512xi8>, tensor<256x1xf16>) -> tensor<256x512xf32>
  %h = nn.group linear(%a = %x, %w = %up) : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32> {
    %c, %s = nn.quantize %a {format = #few} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #few} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %w : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32>
    nn.yield %l : tensor<?x512xf32>
  }
  %y = nn.group linear(%a = %h, %w = %down) : (tensor<?x512xf32>, tensor<256x512xf32>) -> tensor<?x256xf32> {
    %c, %s = nn.quantize %a {format = #few} : (tensor<?x512xf32>) -> (tensor<?x512xi8>, tensor<?x2xf32>)
    %r = nn.dequantize %c, %s {format = #few} : (tensor<?x512xi8>, tensor<?x2xf32>) -> tensor<?x512xf32>
    %l = nn.linear %r, %w : (tensor<?x512xf32>, tensor<256x512xf32>) -> tensor<?x256xf32>
    nn.yield %l : tensor<?x256xf32>
  }
  return %y, %h : tensor<?x256xf32>, tensor<?x512xf32>
}

// CHECK-LABEL: func.func @half_a_block
// CHECK: nn.group linear{{.*}} -> tensor<?x384xf32>
func.func @half_a_block(%x: tensor<?x256xf32>, %u: tensor<384x256xi8>, %us: tensor<384x1xf16>, %d: tensor<256x384xi8>, %ds: tensor<256x1xf16>) -> tensor<?x256xf32> {
  %up = nn.dequantize %u, %us {format = #channel} : (tensor<384x256xi8>, tensor<384x1xf16>) -> tensor<384x256xf32>
  %down = nn.dequantize %d, %ds {format = #channel} : (tensor<256x384xi8>, tensor<256x1xf16>) -> tensor<256x384xf32>
  %h = nn.group linear(%a = %x, %w = %up) : (tensor<?x256xf32>, tensor<384x256xf32>) -> tensor<?x384xf32> {
    %c, %s = nn.quantize %a {format = #few} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #few} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %w : (tensor<?x256xf32>, tensor<384x256xf32>) -> tensor<?x384xf32>
    nn.yield %l : tensor<?x384xf32>
  }
  %y = nn.group linear(%a = %h, %w = %down) : (tensor<?x384xf32>, tensor<256x384xf32>) -> tensor<?x256xf32> {
    %c, %s = nn.quantize %a {format = #few} : (tensor<?x384xf32>) -> (tensor<?x384xi8>, tensor<?x2xf32>)
    %r = nn.dequantize %c, %s {format = #few} : (tensor<?x384xi8>, tensor<?x2xf32>) -> tensor<?x384xf32>
    %l = nn.linear %r, %w : (tensor<?x384xf32>, tensor<256x384xf32>) -> tensor<?x256xf32>
    nn.yield %l : tensor<?x256xf32>
  }
  return %y : tensor<?x256xf32>
}

// Groups that normalise before they quantize read floats.
// CHECK-LABEL: func.func @norm_between
// CHECK: nn.group linear{{.*}} -> tensor<?x256xf32>
func.func @norm_between(%x: tensor<?x256xf32>, %n: tensor<256xf32>, %u: tensor<256x256xi8>, %us: tensor<256x1xf16>, %d: tensor<256x256xi8>, %ds: tensor<256x1xf16>) -> tensor<?x256xf32> {
  %up = nn.dequantize %u, %us {format = #channel} : (tensor<256x256xi8>, tensor<256x1xf16>) -> tensor<256x256xf32>
  %down = nn.dequantize %d, %ds {format = #channel} : (tensor<256x256xi8>, tensor<256x1xf16>) -> tensor<256x256xf32>
  %h = nn.group linear(%a = %x, %w = %up) : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32> {
    %c, %s = nn.quantize %a {format = #few} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #few} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %w : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
    nn.yield %l : tensor<?x256xf32>
  }
  %y = nn.group linear(%a = %h, %g = %n, %w = %down) : (tensor<?x256xf32>, tensor<256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32> {
    %m = nn.rms_norm %a, %g {epsilon = 1.000000e-05 : f32} : (tensor<?x256xf32>, tensor<256xf32>) -> tensor<?x256xf32>
    %c, %s = nn.quantize %m {format = #few} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #few} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %w : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
    nn.yield %l : tensor<?x256xf32>
  }
  return %y : tensor<?x256xf32>
}

// With factors that are known a row has one scale, which is 1; the group that computes the result gets them.
// CHECK-LABEL: func.func @known_scales
func.func @known_scales(%x: tensor<?x256xf32>, %f: tensor<256xf32>, %g: tensor<512xf32>, %u: tensor<512x256xi8>, %us: tensor<512x1xf16>, %d: tensor<256x512xi8>, %ds: tensor<256x1xf16>) -> tensor<?x256xf32> {
  %up = nn.dequantize %u, %us {format = #channel} : (tensor<512x256xi8>, tensor<512x1xf16>) -> tensor<512x256xf32>
  %down = nn.dequantize %d, %ds {format = #channel} : (tensor<256x512xi8>, tensor<256x1xf16>) -> tensor<256x512xf32>
  // CHECK: %[[H:.*]]:2 = nn.group linear({{.*}}, %[[F:[a-z0-9]+]] = %arg2) : {{.*}} -> (tensor<?x512xi8>, tensor<?x1xf32>)
  // CHECK:   %[[V:.*]], %[[S:.*]] = nn.quantize %{{.*}} factors %[[F]] {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale}
  // CHECK:   nn.yield %[[V]], %[[S]]
  %h = nn.group linear(%a = %x, %w = %up, %k = %f) : (tensor<?x256xf32>, tensor<512x256xf32>, tensor<256xf32>) -> tensor<?x512xf32> {
    %c, %s = nn.quantize %a factors %k {format = #row, unit_scale} : (tensor<?x256xf32>, tensor<256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #row} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %w : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32>
    nn.yield %l : tensor<?x512xf32>
  }
  // CHECK: nn.group linear(%[[A:[a-z0-9]+]] = %[[H]]#0, {{.*}}, %[[B:[a-z0-9]+]] = %[[H]]#1)
  // CHECK-NOT: nn.quantize
  // CHECK:   nn.dequantize %[[A]], %[[B]] {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale}
  %y = nn.group linear(%a = %h, %w = %down, %k = %g) : (tensor<?x512xf32>, tensor<256x512xf32>, tensor<512xf32>) -> tensor<?x256xf32> {
    %c, %s = nn.quantize %a factors %k {format = #row, unit_scale} : (tensor<?x512xf32>, tensor<512xf32>) -> (tensor<?x512xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #row} : (tensor<?x512xi8>, tensor<?x1xf32>) -> tensor<?x512xf32>
    %l = nn.linear %r, %w : (tensor<?x512xf32>, tensor<256x512xf32>) -> tensor<?x256xf32>
    nn.yield %l : tensor<?x256xf32>
  }
  return %y : tensor<?x256xf32>
}

// One scale that is found at the call is that of the whole row, which no tile has.
// CHECK-LABEL: func.func @scales_of_rows
// CHECK: nn.group linear{{.*}} -> tensor<?x512xf32>
func.func @scales_of_rows(%x: tensor<?x256xf32>, %u: tensor<512x256xi8>, %us: tensor<512x1xf16>, %d: tensor<256x512xi8>, %ds: tensor<256x1xf16>) -> tensor<?x256xf32> {
  %up = nn.dequantize %u, %us {format = #channel} : (tensor<512x256xi8>, tensor<512x1xf16>) -> tensor<512x256xf32>
  %down = nn.dequantize %d, %ds {format = #channel} : (tensor<256x512xi8>, tensor<256x1xf16>) -> tensor<256x512xf32>
  %h = nn.group linear(%a = %x, %w = %up) : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32> {
    %c, %s = nn.quantize %a {format = #row} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #row} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %w : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32>
    nn.yield %l : tensor<?x512xf32>
  }
  %y = nn.group linear(%a = %h, %w = %down) : (tensor<?x512xf32>, tensor<256x512xf32>) -> tensor<?x256xf32> {
    %c, %s = nn.quantize %a {format = #row} : (tensor<?x512xf32>) -> (tensor<?x512xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #row} : (tensor<?x512xi8>, tensor<?x1xf32>) -> tensor<?x512xf32>
    %l = nn.linear %r, %w : (tensor<?x512xf32>, tensor<256x512xf32>) -> tensor<?x256xf32>
    nn.yield %l : tensor<?x256xf32>
  }
  return %y : tensor<?x256xf32>
}

// A residual reads floats, the convolution beside it bytes: with known scales the result is given both ways.
// CHECK-LABEL: func.func @residual
func.func @residual(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %g: tensor<32xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xf32> {
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: %[[H:.*]]:3 = nn.group conv({{.*}} -> (tensor<1x4x4x32xf32>, tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  // CHECK:   %[[C:.*]] = nn.conv
  // CHECK:   %[[V:.*]], %[[S:.*]] = nn.quantize %[[C]] factors
  // CHECK:   nn.yield %[[C]], %[[V]], %[[S]]
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    nn.yield %l : tensor<1x4x4x32xf32>
  }
  // CHECK: nn.group conv({{.*}} = %[[H]]#1, {{.*}} = %[[H]]#0, {{.*}} = %[[H]]#2)
  // CHECK-NOT: nn.quantize
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h) : (tensor<1x4x4x32xf32>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x32xf32>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %m = arith.addf %l, %b : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  return %y : tensor<1x4x4x32xf32>
}

// The residual reads the same bytes where that is permitted, times the factors.
// CHECK-LABEL: func.func @residual_of_bytes
func.func @residual_of_bytes(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xf32> {
  %g = arith.constant dense<0.25> : tensor<32xf32>
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK-DAG: %[[F:.*]] = arith.constant dense<4.000000e+00> : tensor<32xf32>
  // CHECK: %[[H:.*]]:2 = nn.group conv({{.*}} -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  // CHECK:   %[[C:.*]] = nn.conv
  // CHECK:   %[[V:.*]], %[[S:.*]] = nn.quantize %[[C]] factors
  // CHECK:   nn.yield %[[V]], %[[S]]
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    nn.yield %l : tensor<1x4x4x32xf32>
  }
  // CHECK: nn.group conv({{.*}} = %[[H]]#0, {{.*}}, %[[R:.*]] = %[[H]]#0, {{.*}} = %[[F]], {{.*}} = %[[H]]#1)
  // CHECK:   linalg.generic {{.*}} ins(%[[R]], %{{.*}} : tensor<1x4x4x32xi8>, tensor<32xf32>)
  // CHECK:     arith.sitofp
  // CHECK:     arith.mulf
  // CHECK-NOT: nn.quantize
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h) : (tensor<1x4x4x32xf32>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xf32>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %m = arith.addf %l, %b : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  return %y : tensor<1x4x4x32xf32>
}

// Without factors the bytes are the numbers themselves.
// CHECK-LABEL: func.func @residual_without_factors
func.func @residual_without_factors(%x: tensor<?x256xf32>, %u: tensor<256x256xi8>, %us: tensor<256x1xf16>) -> tensor<?x256xf32> {
  %w = nn.dequantize %u, %us {format = #channel} : (tensor<256x256xi8>, tensor<256x1xf16>) -> tensor<256x256xf32>
  // CHECK: %[[H:.*]]:2 = nn.group linear({{.*}} -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %h = nn.group linear(%a = %x, %b = %w) : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32> {
    %c, %s = nn.quantize %a {format = #row, unit_scale} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #row} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %b : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
    nn.yield %l : tensor<?x256xf32>
  }
  // CHECK: nn.group linear({{.*}} = %[[H]]#0, {{.*}}, %[[R:.*]] = %[[H]]#0, {{.*}} = %[[H]]#1)
  // CHECK:   linalg.generic {{.*}} ins(%[[R]] : tensor<?x256xi8>)
  // CHECK:     arith.sitofp
  // CHECK-NOT: arith.mulf
  // CHECK-NOT: nn.quantize
  %y = nn.group linear(%a = %h, %b = %w, %d = %h) : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32> {
    %c, %s = nn.quantize %a {format = #row, nn.replaces_input, unit_scale} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
    %r = nn.dequantize %c, %s {format = #row} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
    %l = nn.linear %r, %b : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
    %m = arith.addf %l, %d : tensor<?x256xf32>
    nn.yield %m : tensor<?x256xf32>
  }
  return %y : tensor<?x256xf32>
}
