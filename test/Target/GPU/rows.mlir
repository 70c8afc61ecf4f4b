// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s --check-prefixes=CHECK,NVIDIA
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 | FileCheck %s --check-prefixes=CHECK,AMD

// A warp computes a row: lanes take its elements in turn and add up by shuffles. Powers are in shared memory, a cache line
// aligned part for each warp of the block.

// NVIDIA-LABEL: gpu.func @itx_k0_0(%arg0: !llvm.ptr<1>, %arg1: !llvm.ptr<1>, %arg2: i64, %arg3: !llvm.ptr<1>)
// NVIDIA-SAME: itx.grid = "rows ceildiv 8", itx.scratch = "0", itx.shared = "512", known_block_size = array<i32: 256, 1, 1>
// AMD-LABEL: gpu.func @itx_k0_0
// AMD-SAME: itx.grid = "rows ceildiv 4", itx.scratch = "0", itx.shared = "256", known_block_size = array<i32: 256, 1, 1>
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[INDEX:.*]] = arith.index_castui %[[THREAD]]
// NVIDIA: %[[LANE:.*]] = arith.remui %[[INDEX]], %c32_i64
// AMD: %[[LANE:.*]] = arith.remui %[[INDEX]], %c64_i64
// CHECK: %[[ISROW:.*]] = arith.cmpi slt, %{{.*}}, %arg2
// CHECK: scf.if %[[ISROW]]
// NVIDIA: scf.for %{{.*}} = %[[LANE]] to %c10_i64 step %c32_i64 iter_args
// AMD: scf.for %{{.*}} = %[[LANE]] to %c10_i64 step %c64_i64 iter_args
// CHECK: arith.maximumf
// AMD: gpu.shuffle xor %{{.*}}, %c32_i32
// CHECK: gpu.shuffle xor %{{.*}}, %c16_i32
// CHECK: gpu.shuffle xor %{{.*}}, %c1_i32
// NVIDIA: llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"
// AMD: llvm.fence syncscope("wavefront") acq_rel
// AMD: llvm.call_intrinsic "llvm.amdgcn.wave.barrier"
// CHECK: llvm.store %{{.*}} : f32, !llvm.ptr<3>
// CHECK: llvm.store %{{.*}} : f32, !llvm.ptr<1>
rt.kernel @softmax(%x: tensor<?x10xf32> {nn.sizes = ["rows", ""]}) -> (tensor<?x10xf32> {nn.sizes = ["rows", ""]})
    attributes {root = #nn.root<rows>, sizes = ["rows"]} {
  %0 = nn.softmax %x : tensor<?x10xf32>
  rt.yield %0 : tensor<?x10xf32>
}

// Results whose rows are others have a launch of their own. A row is cut into pieces where there are few. A scalar is
// written by one lane.

// CHECK-LABEL: gpu.func @itx_k1_0
// CHECK-SAME: itx.grid = "(n ceildiv 512) ceildiv {{[48]}}"
// CHECK-SAME: itx.shared = "0"
// CHECK: arith.muli %{{.*}}, %c512_i64
// CHECK-LABEL: gpu.func @itx_k1_1
// CHECK-SAME: itx.grid = "1"
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK: scf.if %[[FIRST]]
// CHECK: llvm.store
rt.kernel @two(%x: tensor<?xf32> {nn.sizes = ["n"]}) -> (tensor<?xf32> {nn.sizes = ["n"]}, tensor<f32>)
    attributes {root = #nn.root<rows>, sizes = ["n"]} {
  %0 = nn.relu %x : tensor<?xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<?xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%a: f32, %sum: f32):
    %next = arith.addf %a, %sum : f32
    linalg.yield %next : f32
  } -> tensor<f32>
  rt.yield %0, %1 : tensor<?xf32>, tensor<f32>
}

// Powers of a long row, or of one whose length the call decides, are in global memory: a part for each warp of the grid.

// NVIDIA-LABEL: gpu.func @itx_k2_0
// NVIDIA-SAME: itx.grid = "rows ceildiv 8", itx.scratch = "(rows ceildiv 8) * (((n * 4) ceildiv 64) * 64) * 8", itx.shared = "0"
// NVIDIA: scf.if
// NVIDIA-NOT: !llvm.ptr<3>
rt.kernel @long(%x: tensor<?x?xf32> {nn.sizes = ["rows", "n"]}) -> (tensor<?x?xf32> {nn.sizes = ["rows", "n"]})
    attributes {root = #nn.root<rows>, sizes = ["rows", "n"]} {
  %0 = nn.softmax %x : tensor<?x?xf32>
  rt.yield %0 : tensor<?x?xf32>
}

// A sum of a row is a warp's, whose lanes share it; the results are one after the other.

// CHECK-LABEL: gpu.func @itx_k3_0
// CHECK-SAME: itx.grid = "(rows * 3) ceildiv {{[48]}}"
// CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: gpu.shuffle xor %{{.*}}, %c1_i32
// CHECK: scf.if
// CHECK: llvm.store %{{.*}} : f32, !llvm.ptr<1>
rt.kernel @sums(%x: tensor<?x3x512xf32> {nn.sizes = ["rows", "", ""]}) -> (tensor<?x3xf32> {nn.sizes = ["rows", ""]})
    attributes {root = #nn.root<generic>, sizes = ["rows"]} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x3x512xf32>
  %e = tensor.empty(%n) : tensor<?x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x3x512xf32>) outs(%f : tensor<?x3xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %next = arith.addf %a, %sum : f32
    linalg.yield %next : f32
  } -> tensor<?x3xf32>
  rt.yield %y : tensor<?x3xf32>
}
