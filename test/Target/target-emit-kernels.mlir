// RUN: intarsia-opt %s --target-emit-kernels | FileCheck %s

// The kernels of each device as its target hands them to its code generator, of the first host; nothing else stays.
// CHECK-NOT: rt.
// CHECK: func.func @relu_run
// CHECK: vector<8xf32>
// CHECK: func.func @relu_plan
// CHECK: func.func @itx_reference_kernel_1
// CHECK: memref.load
// CHECK-NOT: rt.
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
