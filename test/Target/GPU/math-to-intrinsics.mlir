// RUN: intarsia-opt %s --pass-pipeline='builtin.module(gpu.module(target-gpu-math-to-intrinsics,convert-gpu-to-nvvm))' | FileCheck %s

// Without the pass the conversion calls libdevice: __nv_sqrtf, __nv_floorf.

// CHECK-LABEL: llvm.func @functions
// CHECK: llvm.call_intrinsic "llvm.sqrt"
// CHECK: llvm.call_intrinsic "llvm.floor"
// CHECK: llvm.call_intrinsic "llvm.fma"
// CHECK-NOT: __nv_
gpu.module @module {
  gpu.func @functions(%x: f32, %to: !llvm.ptr<1>) kernel {
    %0 = math.sqrt %x : f32
    %1 = math.floor %0 : f32
    %2 = math.fma %0, %1, %x : f32
    llvm.store %2, %to : f32, !llvm.ptr<1>
    gpu.return
  }
}
