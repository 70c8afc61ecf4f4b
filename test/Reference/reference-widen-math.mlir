// RUN: intarsia-opt %s --reference-widen-math | FileCheck %s

// CHECK: func.func private @expm1(f64) -> f64
// CHECK: func.func private @log1p(f64) -> f64

// CHECK-LABEL: func.func @exp
func.func @exp(%x: f32) -> f32 {
  // CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : f32 to f64
  // CHECK: %[[EXP:.*]] = math.exp %[[WIDE]] : f64
  // CHECK: %[[R:.*]] = arith.truncf %[[EXP]] : f64 to f32
  // CHECK: return %[[R]]
  %r = math.exp %x : f32
  return %r : f32
}

// What is exact in f32 stays; there is none of that for smaller floats.
// CHECK-LABEL: func.func @exact
func.func @exact(%x: f32, %h: f16) -> (f32, f32, f16) {
  // CHECK: math.absf %{{.*}} : f32
  // CHECK: math.sqrt %{{.*}} : f32
  // CHECK: math.sqrt %{{.*}} : f64
  %a = math.absf %x : f32
  %b = math.sqrt %x : f32
  %c = math.sqrt %h : f16
  return %a, %b, %c : f32, f32, f16
}

// CHECK-LABEL: func.func @near_zero
func.func @near_zero(%x: f32) -> (f32, f32) {
  // CHECK: call @log1p(%{{.*}}) : (f64) -> f64
  // CHECK: call @expm1(%{{.*}}) : (f64) -> f64
  %a = math.log1p %x : f32
  %b = math.expm1 %x : f32
  return %a, %b : f32, f32
}
