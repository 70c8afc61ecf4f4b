// RUN: intarsia-opt %s --target-declare-devices=targets=cuda:sm_80 --fuse-narrow-results | FileCheck %s
// RUN: intarsia-opt %s --target-declare-devices=targets=cpu --fuse-narrow-results | FileCheck %s --check-prefix=CPU

// What only linears with one precision read is stored in it, also behind a view; a device that multiplies values as they
// are gets them as they are.
// CHECK-LABEL: func.func @read_by_linears
// CPU-LABEL: func.func @read_by_linears
// CPU-NOT: arith.truncf
func.func @read_by_linears(%x: tensor<4x2x32xf32>, %w: tensor<8x32xf16>) -> tensor<8x8xf32> {
  // CHECK: %[[R:.*]] = nn.group rows
  // CHECK-SAME: -> tensor<4x2x32xf16>
  // CHECK: %[[T:.*]] = arith.truncf %{{.*}} : tensor<4x2x32xf32> to tensor<4x2x32xf16>
  // CHECK: nn.yield %[[T]]
  %r = nn.group rows(%a = %x) : (tensor<4x2x32xf32>) -> tensor<4x2x32xf32> {
    %n = arith.negf %a : tensor<4x2x32xf32>
    nn.yield %n : tensor<4x2x32xf32>
  }
  // CHECK: tensor.collapse_shape %[[R]] {{.*}} : tensor<4x2x32xf16> into tensor<8x32xf16>
  %v = tensor.collapse_shape %r [[0, 1], [2]] : tensor<4x2x32xf32> into tensor<8x32xf32>
  // CHECK: nn.group linear(%[[A:[a-z0-9]+]] = %{{.*}},
  // CHECK: %[[E:.*]] = arith.extf %[[A]] : tensor<8x32xf16> to tensor<8x32xf32>
  // CHECK: nn.linear %[[E]]
  %y = nn.group linear(%a = %v, %b = %w) : (tensor<8x32xf32>, tensor<8x32xf16>) -> tensor<8x8xf32> {
    %l = nn.linear %a, %b {precision = f16} : (tensor<8x32xf32>, tensor<8x32xf16>) -> tensor<8x8xf32>
    nn.yield %l : tensor<8x8xf32>
  }
  return %y : tensor<8x8xf32>
}

// A result that something else reads, too, stays.
// CHECK-LABEL: func.func @read_as_it_is
// CHECK-NOT: arith.truncf
func.func @read_as_it_is(%x: tensor<8x32xf32>, %w: tensor<8x32xf16>) -> (tensor<8x8xf32>, tensor<8x32xf32>) {
  %r = nn.group rows(%a = %x) : (tensor<8x32xf32>) -> tensor<8x32xf32> {
    %n = arith.negf %a : tensor<8x32xf32>
    nn.yield %n : tensor<8x32xf32>
  }
  %y = nn.group linear(%a = %r, %b = %w) : (tensor<8x32xf32>, tensor<8x32xf16>) -> tensor<8x8xf32> {
    %l = nn.linear %a, %b {precision = f16} : (tensor<8x32xf32>, tensor<8x32xf16>) -> tensor<8x8xf32>
    nn.yield %l : tensor<8x8xf32>
  }
  return %y, %r : tensor<8x8xf32>, tensor<8x32xf32>
}
