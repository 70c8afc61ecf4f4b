// RUN: intarsia-opt %s --pass-pipeline='builtin.module(gpu.module(convert-gpu-to-nvvm,target-gpu-finish-functions{architecture=sm_90a}))' \
// RUN:   | sed '/^module {$/d; /^}$/d; s/gpu.module @module/module/' | mlir-translate --mlir-to-llvmir | llc -mtriple=nvptx64-nvidia-cuda -mcpu=sm_90a -mattr=+ptx80 | FileCheck %s
// RUN: intarsia-opt %s --pass-pipeline='builtin.module(gpu.module(convert-gpu-to-nvvm))' \
// RUN:   | sed '/^module {$/d; /^}$/d; s/gpu.module @module/module/' | mlir-translate --mlir-to-llvmir | llc -mtriple=nvptx64-nvidia-cuda -mcpu=sm_90a -mattr=+ptx80 | FileCheck %s --check-prefix=BUG

// Without the pass, dynamic shared memory is a variable of one byte beside what the launch adds, a launch with fewer threads
// than the kernel is made for is accepted, a parameter by value is copied to local memory, and tensor maps, of which
// convert-gpu-to-nvvm drops that they are passed by value, are pointers.

// CHECK: .extern .shared .align 64 .b8 itx_shared[];
// CHECK: .entry shares
// CHECK: .reqntid 256, 1, 1
// CHECK: ld.shared.b32 %{{.*}}, [itx_shared]
// CHECK: .entry takes_map
// CHECK: .reqntid 256, 1, 1
// CHECK-NOT: .local
// CHECK: prefetch.tensormap
// CHECK: .entry takes_maps
// CHECK: .param .align 64 .b8 takes_maps_param_1[128],
// CHECK: .param .align 64 .b8 takes_maps_param_2[128]
// CHECK-NOT: .local
// CHECK: cvta.param.u64 [[RIGHT:%.*]],
// CHECK-NOT: ld.param.{{.*}}takes_maps_param_2
// CHECK: prefetch.tensormap

// BUG: .entry shares
// BUG: .maxntid 256, 1, 1
// BUG: .shared .align 1 .b8 shared;
// BUG: .entry takes_map
// BUG: .local .align 64 .b8 __local_depot1[128];
// BUG: prefetch.tensormap
// BUG: .entry takes_maps
// BUG: .param .u64 .ptr .align {{[0-9]+}} takes_maps_param_2
gpu.module @module {
  llvm.mlir.global internal @shared() {addr_space = 3 : i32} : !llvm.array<0 x i8>
  gpu.func @shares(%to: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %0 = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %1 = llvm.load %0 : !llvm.ptr<3> -> i32
    llvm.store %1, %to : i32, !llvm.ptr<1>
    gpu.return
  }
  llvm.func @takes_map(%map: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>})
      attributes {gpu.kernel, gpu.known_block_size = array<i32: 256, 1, 1>, nvvm.kernel} {
    llvm.inline_asm has_side_effects "prefetch.tensormap [$0];", "l" %map : (!llvm.ptr) -> ()
    llvm.return
  }
  gpu.func @takes_maps(%to: !llvm.ptr<1>, %left: !llvm.ptr, %right: !llvm.ptr)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>, itx.tensor_maps = [{}, {}]} {
    llvm.inline_asm has_side_effects "prefetch.tensormap [$0];", "l" %right : (!llvm.ptr) -> ()
    gpu.return
  }
}
