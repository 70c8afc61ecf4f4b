// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --fuse-canonicalize --fuse-layouts --cse | FileCheck %s
// RUN: intarsia-opt %s --target-declare-devices="targets=cuda:sm_90a" --fuse-canonicalize --fuse-layouts --cse | FileCheck %s --check-prefix=FIRST
// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --fuse-canonicalize --fuse-layouts="flip=fuse-layouts:large:dense:layout" --cse | FileCheck %s --check-prefix=FLIPPED
// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --intarsia-fuse | FileCheck %s --check-prefix=WHY

// A processor computes windows with channels last: what they read and give is copied once at each end, the kernel's
// constants lie as they are read, and a rectifier between two windows follows them.
// CHECK-LABEL: func.func @large(
// CHECK-SAME: nn.decisions = [{apart_us = {{[0-9.e+]+}} : f64, chosen = "inside", forced = false, id = "fuse-layouts:large:dense:layout", inside_us = {{[0-9.e+]+}} : f64
// CHECK-DAG: arith.constant dense<{{.*}}> : tensor<3x3x64x64xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x56x56x64xf32>) {{.*}}layout_why = "layout: {{[0-9.]+}} us inside, {{[0-9.]+}} apart"
// CHECK: nn.relu %{{.*}} : tensor<1x56x56x64xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x28x28x64xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<1x28x28x64xf32>) outs(%{{.*}} : tensor<1x64x28x28xf32>)
// FIRST-LABEL: func.func @large(
// FIRST-NOT: 56x56x64xf32
// FLIPPED-LABEL: func.func @large(
// FLIPPED-SAME: chosen = "apart", forced = true
// FLIPPED-NOT: 56x56x64xf32
// FLIPPED: return
// WHY-LABEL: func.func @large(
// WHY: nn.group generic{{.*}}why = "{{.*}}layout: {{[0-9.]+}} us inside, {{[0-9.]+}} apart
// WHY-NOT: layout_why
func.func @large(%x: tensor<1x64x58x58xf32>) -> tensor<1x64x28x28xf32> {
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %w = arith.constant dense<0.5> : tensor<64x64x3x3xf32>
  %e = tensor.empty() : tensor<1x64x56x56xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x64x58x58xf32>, tensor<64x64x3x3xf32>) outs(%f : tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32> loc("dense")
  %r = nn.relu %c : tensor<1x64x56x56xf32>
  %k = tensor.empty() : tensor<2x2xf32>
  %g = tensor.empty() : tensor<1x64x28x28xf32>
  %h = linalg.fill ins(%least : f32) outs(%g : tensor<1x64x28x28xf32>) -> tensor<1x64x28x28xf32>
  %p = linalg.pooling_nchw_max {strides = dense<2> : vector<2xi64>} ins(%r, %k : tensor<1x64x56x56xf32>, tensor<2x2xf32>) outs(%h : tensor<1x64x28x28xf32>) -> tensor<1x64x28x28xf32> loc("largest")
  return %p : tensor<1x64x28x28xf32>
}

// A window that takes less time than the copies around it stays as it is written; so does one over fewer channels than
// a vector has lanes.
// CHECK-LABEL: func.func @small(
// CHECK-SAME: chosen = "apart", forced = false, id = "fuse-layouts:small:little:layout"
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x64x4x4xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @small(%x: tensor<1x64x8x8xf32>) -> tensor<1x64x4x4xf32> {
  %least = arith.constant 0xFF800000 : f32
  %k = tensor.empty() : tensor<2x2xf32>
  %g = tensor.empty() : tensor<1x64x4x4xf32>
  %h = linalg.fill ins(%least : f32) outs(%g : tensor<1x64x4x4xf32>) -> tensor<1x64x4x4xf32>
  %p = linalg.pooling_nchw_max {strides = dense<2> : vector<2xi64>} ins(%x, %k : tensor<1x64x8x8xf32>, tensor<2x2xf32>) outs(%h : tensor<1x64x4x4xf32>) -> tensor<1x64x4x4xf32> loc("little")
  return %p : tensor<1x64x4x4xf32>
}

// CHECK-LABEL: func.func @three_channels(
// CHECK-NOT: nn.decisions
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x3x112x112xf32>)
// CHECK: return
func.func @three_channels(%x: tensor<1x3x224x224xf32>) -> tensor<1x3x112x112xf32> {
  %least = arith.constant 0xFF800000 : f32
  %k = tensor.empty() : tensor<2x2xf32>
  %g = tensor.empty() : tensor<1x3x112x112xf32>
  %h = linalg.fill ins(%least : f32) outs(%g : tensor<1x3x112x112xf32>) -> tensor<1x3x112x112xf32>
  %p = linalg.pooling_nchw_max {strides = dense<2> : vector<2xi64>} ins(%x, %k : tensor<1x3x224x224xf32>, tensor<2x2xf32>) outs(%h : tensor<1x3x112x112xf32>) -> tensor<1x3x112x112xf32>
  return %p : tensor<1x3x112x112xf32>
}
