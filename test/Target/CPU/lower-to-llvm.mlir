// RUN: intarsia-opt %s --target-cpu-lower-to-llvm | FileCheck %s
// RUN: intarsia-opt %s --target-cpu-split-fused-multiply-add --target-cpu-lower-to-llvm | FileCheck %s --check-prefix=SPLIT

// Loops become branches, vectors those of LLVM; nothing but the LLVM dialect is left.
// CHECK-NOT: func.func
// CHECK-LABEL: llvm.func @sum
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[END:.*]]: i64) -> vector<8xf32>
// CHECK-NOT:     {{(scf|vector|arith|cf|math|builtin)\.[a-z_]}}
// CHECK:         %[[IS_INSIDE:.*]] = llvm.icmp "slt" %{{.*}}, %[[END]] : i64
// CHECK:         llvm.cond_br %[[IS_INSIDE]]
// CHECK:         llvm.load %{{.*}} : !llvm.ptr -> vector<8xf32>
// CHECK:         llvm.intr.fmuladd
// CHECK-NOT:     {{(scf|vector|arith|cf|math|builtin)\.[a-z_]}}
// CHECK:         llvm.return
// SPLIT-LABEL: llvm.func @sum
// SPLIT-NOT:     fma
// SPLIT-NOT:     fmuladd
// SPLIT:         llvm.fmul
// SPLIT:         llvm.fadd
// SPLIT-NOT:     fmuladd
func.func @sum(%from: !llvm.ptr, %end: i64) -> vector<8xf32> {
  %c0 = arith.constant 0 : i64
  %c8 = arith.constant 8 : i64
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %0 = scf.for %i = %c0 to %end step %c8 iter_args(%sum = %zero) -> (vector<8xf32>) : i64 {
    %p = llvm.getelementptr %from[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
    %next = vector.fma %x, %x, %sum : vector<8xf32>
    scf.yield %next : vector<8xf32>
  }
  return %0 : vector<8xf32>
}
