// RUN: intarsia-opt %s --pass-pipeline='builtin.module(gpu.module(target-gpu-finish-functions{architecture=sm_90a}))' | FileCheck %s --check-prefixes=CHECK,NVIDIA
// RUN: intarsia-opt %s --pass-pipeline='builtin.module(gpu.module(target-gpu-finish-functions{architecture=gfx942}))' | FileCheck %s --check-prefixes=CHECK,AMD

// Arrays without elements are the memory that the launch adds: one for all, external, with the largest alignment. Those
// with elements stay as they are.
// CHECK: llvm.mlir.global external @itx_shared() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<0 x i8>
// CHECK-NEXT: llvm.mlir.global internal @fixed() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x i8>
// CHECK-NEXT: llvm.mlir.global internal @global() {addr_space = 1 : i32} : !llvm.array<0 x i8>
// CHECK-NOT: llvm.mlir.global
gpu.module @module {
  llvm.mlir.global internal @__dynamic_shmem__0() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  llvm.mlir.global internal @fixed() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x i8>
  llvm.mlir.global internal @global() {addr_space = 1 : i32} : !llvm.array<0 x i8>
  llvm.mlir.global internal @__dynamic_shmem__1() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<0 x f32>

  // CHECK-LABEL: llvm.func @kernel
  // NVIDIA-SAME: %{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant}
  // AMD-SAME: %{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>}
  // CHECK-SAME: %{{.*}}: !llvm.ptr<1> {llvm.align = 64 : i64}
  // NVIDIA-NOT: nvvm.maxntid
  // NVIDIA-SAME: nvvm.reqntid = array<i32: 64, 4, 1>
  // NVIDIA-SAME: target_cpu = "sm_90a", target_features = #llvm.target_features<["+ptx80"]>
  // AMD-SAME: rocdl.flat_work_group_size = "256,256"
  // AMD-SAME: rocdl.reqd_work_group_size = array<i32: 64, 4, 1>
  // AMD-SAME: target_cpu = "gfx942"
  // CHECK: llvm.mlir.addressof @itx_shared : !llvm.ptr<3>
  // CHECK: llvm.mlir.addressof @itx_shared : !llvm.ptr<3>
  llvm.func @kernel(%map: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>}, %to: !llvm.ptr<1>)
      attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 4, 1>, nvvm.kernel, nvvm.maxntid = array<i32: 1024, 1, 1>} {
    %0 = llvm.mlir.addressof @__dynamic_shmem__0 : !llvm.ptr<3>
    %1 = llvm.mlir.addressof @__dynamic_shmem__1 : !llvm.ptr<3>
    %2 = llvm.load %0 : !llvm.ptr<3> -> f32
    llvm.store %2, %1 : f32, !llvm.ptr<3>
    llvm.return
  }

  // The last arguments of a function with tensor maps are those, by value: conversions to the LLVM dialect have dropped
  // what said so. In other spaces than that of arguments, or as a thread's own copies, copies would not find them.
  // CHECK-LABEL: llvm.func @with_tensor_maps
  // CHECK-SAME: (%{{.*}}: !llvm.ptr<1> {llvm.align = 64 : i64}
  // NVIDIA-SAME: %arg1: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant}
  // NVIDIA-SAME: %arg2: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant})
  llvm.func @with_tensor_maps(%to: !llvm.ptr<1>, %left: !llvm.ptr, %right: !llvm.ptr)
      attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 1, 1>, nvvm.kernel, itx.tensor_maps = [{}, {}]} {
    llvm.return
  }

  // A function that kernels call has a target, so that it can be inlined, and no launch.
  // CHECK-LABEL: llvm.func @called
  // CHECK-NOT: work_group_size
  // CHECK-NOT: reqntid
  // CHECK-SAME: target_cpu
  llvm.func @called() {
    llvm.return
  }

  // CHECK: llvm.func @declared()
  // CHECK-NOT: target_cpu
  llvm.func @declared()
}
