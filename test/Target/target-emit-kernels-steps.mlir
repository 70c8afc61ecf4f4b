// RUN: intarsia-opt %s --target-emit-kernels=step=shape | FileCheck %s --check-prefix=SHAPE
// RUN: intarsia-opt %s --target-emit-kernels=step=shape | intarsia-opt --target-emit-kernels | FileCheck %s --check-prefix=LOOPS
// RUN: intarsia-opt %s --target-emit-kernels=step=llvm | FileCheck %s --check-prefix=LLVM
// RUN: not intarsia-opt %s --target-emit-kernels=step=assembly 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// The module stays, and its kernels state how each variant cuts them up. The reference device has nothing to choose.
// SHAPE: rt.kernel @relu({{.*}} attributes {device = @cpu, root = #nn.root<rows>, rt.shapes = {aarch64 = {
// SHAPE-SAME: "x86-64-v2" = {
// SHAPE-SAME: "x86-64-v3" = {kernel = "rows", lanes = 8 : i64, parts = [{results = [0], walk = "rows"}], tile_elements = 4096 : i64, tiles_per_thread = 4 : i64}
// SHAPE: rt.kernel @square({{.*}} attributes {device = @slow, root = #nn.root<rows>, sizes = []}
// SHAPE: func.func @main

// LOOPS-NOT: rt.
// LOOPS: func.func @relu_run
// LOOPS: vector<8xf32>

// LLVM-NOT: {{scf|vector\.|func\.func}}
// LLVM: llvm.func @relu_run
// LLVM: llvm.func @relu_plan
// LLVM: llvm.func {{.*}}@itx_reference_kernel_1

// UNKNOWN: unknown step 'assembly'; kernels are printed after the steps shape, loops, llvm
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v2", "x86-64-v3", "aarch64"]>}
rt.device @slow {target = #rt.target<"reference", ["native"]>}
rt.kernel @relu(%x: tensor<8xf32>) -> tensor<8xf32> attributes {device = @cpu, root = #nn.root<rows>, sizes = []} {
  %r = nn.relu %x : tensor<8xf32>
  rt.yield %r : tensor<8xf32>
}
rt.kernel @square(%x: tensor<8xf32>) -> tensor<8xf32> attributes {device = @slow, root = #nn.root<rows>, sizes = []} {
  %r = arith.mulf %x, %x : tensor<8xf32>
  rt.yield %r : tensor<8xf32>
}
func.func @main(%x: memref<8xf32>) attributes {rt.symbols = [], rt.results = [{type = tensor<8xf32>}]} {
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 () : memref<8xf32>
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> ins(%x : memref<8xf32>) outs(%o : memref<8xf32>)
  rt.wait %e
  return
}
