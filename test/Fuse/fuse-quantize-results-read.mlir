// RUN: intarsia-opt %s --fuse-quantize-results | FileCheck %s

// What else reads a result that is quantized: it reads the integers where it may, else the result stays beside them.

#channel = #nn.block_format<i8, f16, 0, axis = 1>
#image = #nn.block_format<i8, f32, 0, axis = 3>
rt.device @cpu {target = #rt.target<"cpu", ["native"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}
nn.archive @a {file = "model.safetensors"}

// A group that reads the result twice beside the convolution reads the integers twice.
// CHECK-LABEL: func.func @read_twice
func.func @read_twice(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xf32> {
  %g = arith.constant dense<0.25> : tensor<32xf32>
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: %[[H:.*]]:2 = nn.group conv({{.*}} -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  // CHECK: nn.group conv({{.*}} = %[[H]]#0, {{.*}} = %[[H]]#0, {{.*}} = %[[H]]#0, {{.*}} = %[[H]]#1)
  // CHECK-COUNT-2: arith.sitofp
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    nn.yield %l : tensor<1x4x4x32xf32>
  }
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h, %b2 = %h) : (tensor<1x4x4x32xf32>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xf32>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %m0 = arith.addf %l, %b : tensor<1x4x4x32xf32>
    %m = arith.mulf %m0, %b2 : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  return %y : tensor<1x4x4x32xf32>
}

// The integers times the factors are f32: who reads bf16 reads the result.
// CHECK-LABEL: func.func @read_as_bf16
func.func @read_as_bf16(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xbf16> {
  %g = arith.constant dense<0.25> : tensor<32xf32>
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: nn.group conv({{.*}} -> (tensor<1x4x4x32xbf16>, tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xbf16> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    %n = arith.truncf %l : tensor<1x4x4x32xf32> to tensor<1x4x4x32xbf16>
    nn.yield %n : tensor<1x4x4x32xbf16>
  }
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h) : (tensor<1x4x4x32xbf16>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xbf16>) -> tensor<1x4x4x32xbf16> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xbf16>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %lE = arith.truncf %l : tensor<1x4x4x32xf32> to tensor<1x4x4x32xbf16>
    %m = arith.addf %lE, %b : tensor<1x4x4x32xbf16>
    nn.yield %m : tensor<1x4x4x32xbf16>
  }
  return %y : tensor<1x4x4x32xbf16>
}

// The integers times the factors are f32: who reads f16 reads the result.
// CHECK-LABEL: func.func @read_as_f16
func.func @read_as_f16(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xf16> {
  %g = arith.constant dense<0.25> : tensor<32xf32>
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: nn.group conv({{.*}} -> (tensor<1x4x4x32xf16>, tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf16> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    %n = arith.truncf %l : tensor<1x4x4x32xf32> to tensor<1x4x4x32xf16>
    nn.yield %n : tensor<1x4x4x32xf16>
  }
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h) : (tensor<1x4x4x32xf16>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xf16>) -> tensor<1x4x4x32xf16> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xf16>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %lE = arith.truncf %l : tensor<1x4x4x32xf32> to tensor<1x4x4x32xf16>
    %m = arith.addf %lE, %b : tensor<1x4x4x32xf16>
    nn.yield %m : tensor<1x4x4x32xf16>
  }
  return %y : tensor<1x4x4x32xf16>
}

// The reciprocal of a factor is a finite number, or the result stays.
// CHECK-LABEL: func.func @factor_of_zero
func.func @factor_of_zero(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xf32> {
  %g = arith.constant dense<0.0> : tensor<32xf32>
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: nn.group conv({{.*}} -> (tensor<1x4x4x32xf32>, tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    nn.yield %l : tensor<1x4x4x32xf32>
  }
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h) : (tensor<1x4x4x32xf32>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xf32>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %m = arith.addf %l, %b : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  return %y : tensor<1x4x4x32xf32>
}

// A factor that is not finite stands for no number.
// CHECK-LABEL: func.func @factor_without_end
func.func @factor_without_end(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xf32> {
  %g = arith.constant dense<0x7F800000> : tensor<32xf32>
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: nn.group conv({{.*}} -> (tensor<1x4x4x32xf32>, tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    nn.yield %l : tensor<1x4x4x32xf32>
  }
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h) : (tensor<1x4x4x32xf32>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xf32>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %m = arith.addf %l, %b : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  return %y : tensor<1x4x4x32xf32>
}

// Nor has a factor that is too small a reciprocal in f32.
// CHECK-LABEL: func.func @factor_too_small
func.func @factor_too_small(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xf32> {
  %g = arith.constant dense<1.0e-44> : tensor<32xf32>
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: nn.group conv({{.*}} -> (tensor<1x4x4x32xf32>, tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    nn.yield %l : tensor<1x4x4x32xf32>
  }
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h) : (tensor<1x4x4x32xf32>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xf32>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %m = arith.addf %l, %b : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  return %y : tensor<1x4x4x32xf32>
}

// On another device the result is read as it is.
// CHECK-LABEL: func.func @on_another_device
func.func @on_another_device(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> (tensor<1x4x4x32xf32>, tensor<1x4x4x32xf32>) {
  %g = arith.constant dense<0.25> : tensor<32xf32>
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: nn.group conv({{.*}} -> (tensor<1x4x4x32xf32>, tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    nn.yield %l : tensor<1x4x4x32xf32>
  }
  %y = nn.group conv(%a = %h, %w = %window, %k = %g) : (tensor<1x4x4x32xf32>, tensor<32x288xf32>, tensor<32xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xf32>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %m = arith.addf %l, %l : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  // CHECK: nn.group conv{{.*}} {rt.device = @reference}
  // CHECK-NEXT: nn.conv
  %z = nn.group conv(%a = %x, %w = %point, %b = %h) {rt.device = @reference} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x32xf32> {
    %l = nn.conv %a, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    %m = arith.addf %l, %b : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  return %y, %z : tensor<1x4x4x32xf32>, tensor<1x4x4x32xf32>
}

// Factors that are made behind the group cannot be its operands.
// CHECK-LABEL: func.func @factors_behind
func.func @factors_behind(%x: tensor<1x4x4x64xf32>, %f: tensor<64xf32>, %u: tensor<32x64xi8>, %us: tensor<32x1xf16>, %d: tensor<32x288xi8>, %ds: tensor<32x1xf16>) -> tensor<1x4x4x32xf32> {
  %point = nn.dequantize %u, %us {format = #channel} : (tensor<32x64xi8>, tensor<32x1xf16>) -> tensor<32x64xf32>
  %window = nn.dequantize %d, %ds {format = #channel} : (tensor<32x288xi8>, tensor<32x1xf16>) -> tensor<32x288xf32>
  // CHECK: nn.group conv({{.*}} -> tensor<1x4x4x32xf32>
  // CHECK: nn.group conv
  // CHECK: nn.quantize
  %h = nn.group conv(%a = %x, %w = %point, %k = %f) : (tensor<1x4x4x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, unit_scale} : (tensor<1x4x4x64xf32>, tensor<64xf32>) -> (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x64xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x64xf32>
    %l = nn.conv %r, %w {window = array<i64: 1, 1>} : (tensor<1x4x4x64xf32>, tensor<32x64xf32>) -> tensor<1x4x4x32xf32>
    nn.yield %l : tensor<1x4x4x32xf32>
  }
  %g = arith.constant dense<0.25> : tensor<32xf32>
  %y = nn.group conv(%a = %h, %w = %window, %k = %g, %b = %h) : (tensor<1x4x4x32xf32>, tensor<32x288xf32>, tensor<32xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x32xf32> {
    %c, %s = nn.quantize %a factors %k {format = #image, nn.replaces_input, unit_scale} : (tensor<1x4x4x32xf32>, tensor<32xf32>) -> (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>)
    %r = nn.dequantize %c, %s {format = #image} : (tensor<1x4x4x32xi8>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x32xf32>
    %l = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x4x4x32xf32>, tensor<32x288xf32>) -> tensor<1x4x4x32xf32>
    %m = arith.addf %l, %b : tensor<1x4x4x32xf32>
    nn.yield %m : tensor<1x4x4x32xf32>
  }
  return %y : tensor<1x4x4x32xf32>
}

