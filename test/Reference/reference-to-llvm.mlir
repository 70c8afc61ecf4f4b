// RUN: intarsia-opt %s --reference-to-llvm | FileCheck %s

// No small float is left, for which a baseline processor would call the compiler's library.
// CHECK-NOT: {{bf16|f16|f8E|unrealized}}

// Arithmetic of small floats is done in f64 and rounded.
// CHECK-LABEL: llvm.func @add
// CHECK-SAME: (%{{.*}}: i16, %{{.*}}: i16) -> i16
// CHECK: llvm.fadd %{{.*}} : f64
func.func @add(%x: bf16, %y: bf16) -> bf16 {
  %r = arith.addf %x, %y : bf16
  return %r : bf16
}

// An integer is rounded once.
// CHECK-LABEL: llvm.func @from_integer
// CHECK: llvm.sitofp %{{.*}} : i64 to f64
func.func @from_integer(%x: i64) -> f16 {
  %r = arith.sitofp %x : i64 to f16
  return %r : f16
}

// CHECK-LABEL: llvm.func @f8
// CHECK: llvm.fcmp "olt" %{{.*}} : f64
func.func @f8(%x: f8E5M2, %y: f8E5M2) -> i1 {
  %r = arith.cmpf olt, %x, %y : f8E5M2
  return %r : i1
}

// CHECK-LABEL: llvm.func @power
// CHECK: llvm.fmul %{{.*}} : f64
// CHECK: llvm.fptrunc %{{.*}} : f64 to f32
func.func @power(%x: f32) -> f32 {
  %c3 = arith.constant 3 : i32
  %r = math.fpowi %x, %c3 : f32, i32
  return %r : f32
}
