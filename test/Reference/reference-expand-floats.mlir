// RUN: intarsia-opt %s --split-input-file --reference-expand-floats | FileCheck %s

// Values and memory of small floats are integers, as code generators may convert a small float even to move it.
// CHECK-NOT: {{[^a-zA-Z_]}}{{bf16|f16|f8E}}

// CHECK-LABEL: func.func @widen_bf16
// CHECK-SAME: (%[[X:.*]]: i16) -> f32
func.func @widen_bf16(%x: bf16) -> f32 {
  // CHECK-NEXT: %[[WIDE:.*]] = arith.extui %[[X]] : i16 to i32
  // CHECK: %[[BITS:.*]] = arith.shli %[[WIDE]]
  // CHECK: arith.bitcast %[[BITS]] : i32 to f32
  // CHECK-NOT: arith.extf
  %r = arith.extf %x : bf16 to f32
  return %r : f32
}

// CHECK-LABEL: func.func @widen_f8
// CHECK-SAME: (%{{.*}}: i8) -> f64
func.func @widen_f8(%x: f8E4M3FN) -> f64 {
  // CHECK-NOT: arith.bitcast {{.*}} : i8
  // CHECK: arith.extf %{{.*}} : f32 to f64
  %r = arith.extf %x : f8E4M3FN to f64
  return %r : f64
}

// CHECK-LABEL: func.func @narrow_f16
// CHECK-SAME: (%{{.*}}: f32) -> i16
func.func @narrow_f16(%x: f32) -> f16 {
  // CHECK-NOT: arith.truncf
  // CHECK: %[[R:.*]] = arith.trunci %{{.*}} : i32 to i16
  // CHECK-NEXT: return %[[R]] : i16
  %r = arith.truncf %x : f32 to f16
  return %r : f16
}

// Of the two f32 beside an f64 the one whose last bit is 1 leaves the next rounding what it needs.
// CHECK-LABEL: func.func @narrow_once
func.func @narrow_once(%x: f64) -> bf16 {
  // CHECK: %[[NEAREST:.*]] = arith.truncf %{{.*}} : f64 to f32
  // CHECK: %[[BACK:.*]] = arith.extf %[[NEAREST]] : f32 to f64
  // CHECK: %[[BITS:.*]] = arith.bitcast %[[NEAREST]] : f32 to i32
  // CHECK: arith.cmpf ueq, %[[BACK]]
  // CHECK: arith.subi %[[BITS]]
  // CHECK: arith.addi %[[BITS]]
  // CHECK-NOT: arith.truncf
  %r = arith.truncf %x : f64 to bf16
  return %r : bf16
}

// CHECK-LABEL: func.func @from_float_to_float
func.func @from_float_to_float(%x: f8E5M2) -> bf16 {
  // CHECK-NOT: arith.extf
  %r = arith.extf %x : f8E5M2 to bf16
  return %r : bf16
}

// CHECK-LABEL: func.func @round
func.func @round(%x: f32) -> f32 {
  // CHECK: arith.constant 0x4B000000 : f32
  // CHECK-NOT: math.roundeven
  %r = math.roundeven %x : f32
  return %r : f32
}

// -----

// Constants, memory, loops and branches hold bits.
// CHECK: memref.global "private" constant @table : memref<2xi16> = dense<[15360, 16384]>
memref.global "private" constant @table : memref<2xf16> = dense<[1.0, 2.0]>
// CHECK-LABEL: func.func @moves
// CHECK-SAME: (%{{.*}}: memref<?xi16>, %{{.*}}: i1) -> i16
func.func @moves(%m: memref<?xf16>, %c: i1) -> f16 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: arith.constant 15360 : i16
  %one = arith.constant 1.0 : f16
  // CHECK: memref.get_global @table : memref<2xi16>
  %t = memref.get_global @table : memref<2xf16>
  // CHECK: memref.alloc() : memref<4xi16>
  %a = memref.alloc() : memref<4xf16>
  // CHECK: scf.for {{.*}} -> (i16)
  %r = scf.for %i = %c0 to %c1 step %c1 iter_args(%x = %one) -> f16 {
    %l = memref.load %m[%i] : memref<?xf16>
    %k = memref.load %t[%i] : memref<2xf16>
    // CHECK: arith.select %{{.*}} : i16
    %s = arith.select %c, %x, %l : f16
    memref.store %k, %a[%i] : memref<4xf16>
    scf.yield %s : f16
  }
  memref.dealloc %a : memref<4xf16>
  // CHECK: return %{{.*}} : i16
  return %r : f16
}
