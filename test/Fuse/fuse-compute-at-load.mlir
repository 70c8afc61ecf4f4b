// RUN: intarsia-opt %s --target-declare-devices --fuse-compute-at-load --split-input-file | FileCheck %s

nn.archive @weights {file = "w.safetensors"}

// Two functions read the same; the sines are worth a pass over memory.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<64x64xf32>, %[[T:.*]]: tensor<64x64xf32> {nn.global = "constants_at_load.0"
// CHECK-SAME: nn.decisions = [{
// CHECK-SAME: chosen = "inside"
// CHECK-SAME: op = "constants_at_load"
// CHECK-SAME: reason = "16.4 KB are kept"
// CHECK: arith.mulf %[[X]], %[[T]]
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = nn.weight @weights["positions"] : tensor<64x64xf32>
  %s = math.sin %w : tensor<64x64xf32>
  %y = arith.mulf %x, %s : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// CHECK-LABEL: func.func @other(
// CHECK-SAME: %[[X:.*]]: tensor<64x64xf32>, %[[T:.*]]: tensor<64x64xf32> {nn.global = "constants_at_load.0"
// CHECK: arith.addf %[[X]], %[[T]]
func.func @other(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = nn.weight @weights["positions"] : tensor<64x64xf32>
  %s = math.sin %w : tensor<64x64xf32>
  %y = arith.addf %x, %s : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// What is cheap to compute stays: a broadcast reads less than its result, a weight as it is and what is made of it at
// compile time are no work. Quantized weights are read as they are stored.
// CHECK-LABEL: func.func @stays(
// CHECK-NOT: nn.global
// CHECK: return
func.func @stays(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %row = nn.weight @weights["row"] : tensor<64xf32>
  %e = tensor.empty() : tensor<64x64xf32>
  %b = linalg.broadcast ins(%row : tensor<64xf32>) outs(%e : tensor<64x64xf32>) dimensions = [0]
  %y = arith.addf %x, %b : tensor<64x64xf32>
  %q = nn.weight @weights["q"] : tensor<64x64xi8>
  %s = nn.weight @weights["s"] : tensor<64x1xf32>
  %w = nn.dequantize %q, %s {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<64x64xi8>, tensor<64x1xf32>) -> tensor<64x64xf32>
  %z = nn.linear %y, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y, %z : tensor<64x64xf32>, tensor<64x64xf32>
}

// A mask is read as it is stored: no kernel of attention computes it.
// CHECK-LABEL: func.func @mask(
// CHECK-SAME: tensor<1x2x64x64xf32> {nn.global = "constants_at_load.1"
// CHECK: nn.attention
func.func @mask(%x: tensor<64x64x2x8xf32>) -> tensor<64x64x2x8xf32> {
  %row = nn.weight @weights["mask"] : tensor<2x64xf32>
  %e = tensor.empty() : tensor<1x2x64x64xf32>
  %m = linalg.broadcast ins(%row : tensor<2x64xf32>) outs(%e : tensor<1x2x64x64xf32>) dimensions = [0, 2]
  %y = nn.attention %x, %x, %x mask %m {scale = 1.0 : f32} : (tensor<64x64x2x8xf32>, tensor<64x64x2x8xf32>,
      tensor<64x64x2x8xf32>, tensor<1x2x64x64xf32>) -> tensor<64x64x2x8xf32>
  return %y : tensor<64x64x2x8xf32>
}

// Tensors without elements, and what others are written to, are no work.
// CHECK-LABEL: func.func @nothing(
// CHECK-NOT: nn.global
// CHECK: return
func.func @nothing(%x: tensor<6x0xf32>, %y: tensor<4x6xf32>) -> (tensor<0x6xf32>, tensor<6x4xf32>) {
  %e = tensor.empty() : tensor<0x6xf32>
  %r = linalg.transpose ins(%x : tensor<6x0xf32>) outs(%e : tensor<0x6xf32>) permutation = [1, 0]
  %f = tensor.empty() : tensor<6x4xf32>
  %s = linalg.transpose ins(%y : tensor<4x6xf32>) outs(%f : tensor<6x4xf32>) permutation = [1, 0]
  return %r, %s : tensor<0x6xf32>, tensor<6x4xf32>
}

// CHECK-LABEL: func.func @constants_at_load() -> (tensor<64x64xf32> {nn.global = "constants_at_load.0"}, tensor<1x2x64x64xf32> {nn.global = "constants_at_load.1"})
// CHECK-SAME: nn.runs_at_load
// CHECK-NEXT: %[[W:.*]] = nn.weight @weights["positions"]
// CHECK-NEXT: %[[S:.*]] = math.sin %[[W]]
// CHECK: return %[[S]], %{{.*}} : tensor<64x64xf32>, tensor<1x2x64x64xf32>
