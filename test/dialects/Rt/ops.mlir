// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK: rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4", "native"]>}
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4", "native"]>}

nn.archive @weights {file = "model.safetensors"}

// CHECK: rt.kernel @linear(%{{.*}}: tensor<?x384xf32> {nn.sizes = ["s0", ""]}, %{{.*}}: tensor<768x384xf32> {rt.layout = #rt.panels<32>}) -> (tensor<?x768xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
rt.kernel @linear(%x: tensor<?x384xf32> {nn.sizes = ["s0", ""]},
                  %w: tensor<768x384xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x768xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %r = nn.linear %x, %w : (tensor<?x384xf32>, tensor<768x384xf32>) -> tensor<?x768xf32>
  // CHECK: rt.yield %{{.*}} : tensor<?x768xf32>
  rt.yield %r : tensor<?x768xf32>
}

// CHECK: rt.kernel @rows(%{{.*}}: tensor<?xf32> {nn.sizes = ["s0 * s1"]}, %{{.*}}: tensor<?x?xf32> {nn.sizes = ["s0", "s1"]})
rt.kernel @rows(%x: tensor<?xf32> {nn.sizes = ["s0 * s1"]}, %y: tensor<?x?xf32> {nn.sizes = ["s0", "s1"]})
    -> (tensor<?xf32> {nn.sizes = ["s0 * s1"]}) attributes {root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  rt.yield %x : tensor<?xf32>
}

// A kernel that is compiled.
// CHECK: rt.kernel @compiled(tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {root = #nn.root<rows>, sizes = ["s0"]}
// CHECK-NOT: {{^}}{
rt.kernel @compiled(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {root = #nn.root<rows>, sizes = ["s0"]}
// CHECK: rt.object @"cpu.x86-64-v3" {code = [dense_resource<"compiled.x86-64-v3"> : tensor<4xi8>], device = @cpu, hash = "00", host = "x86_64-unknown-linux-gnu", kernels = [@compiled], number = 0 : i64, numbers = array<i64: 2>, variant = #rt.variant<"x86-64-v3", cpu = "x86-64-v3", features = ["avx2", "fma"]>}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64,
                          variant = #rt.variant<"x86-64-v3", cpu = "x86-64-v3", features = ["avx2", "fma"]>,
                          kernels = [@compiled], numbers = array<i64: 2>, hash = "00",
                          code = [dense_resource<"compiled.x86-64-v3"> : tensor<4xi8>]}
// CHECK: rt.object @cpu.other {{.*}} variant = #rt.variant<"other", cpu = "">}
rt.object @cpu.other {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 1 : i64, variant = #rt.variant<"other", cpu = "">,
                      kernels = [], numbers = array<i64>, hash = "", code = []}

// CHECK: rt.constant @c0 layout(#rt.panels<32>) : tensor<768x384xf32> {
// CHECK-NEXT: %[[Q:.*]] = nn.weight @weights["query.weight"] : tensor<384x384xf32>
// CHECK-NEXT: %[[K:.*]] = nn.weight @weights["key.weight"] : tensor<384x384xf32>
// CHECK-NEXT: %[[C:.*]] = tensor.concat dim(0) %[[Q]], %[[K]]
// CHECK-NEXT: rt.yield %[[C]] : tensor<768x384xf32>
rt.constant @c0 layout(#rt.panels<32>) : tensor<768x384xf32> {
  %q = nn.weight @weights["query.weight"] : tensor<384x384xf32>
  %k = nn.weight @weights["key.weight"] : tensor<384x384xf32>
  %c = tensor.concat dim(0) %q, %k : (tensor<384x384xf32>, tensor<384x384xf32>) -> tensor<768x384xf32>
  rt.yield %c : tensor<768x384xf32>
}
// CHECK: rt.constant @slices layout(#rt.panels<32 in 2 slices>)
rt.constant @slices layout(#rt.panels<32 in 2 slices>) : tensor<768x384xf32> {
  %w = nn.weight @weights["gate_up.weight"] : tensor<768x384xf32>
  rt.yield %w : tensor<768x384xf32>
}
// CHECK: rt.constant @quantized layout(#rt.panels<32 in 2 slices, #nn.block_format<i4, f16, 32, axis = 1>>)
rt.constant @quantized layout(#rt.panels<32 in 2 slices, #nn.block_format<i4, f16, 32, axis = 1>>) : tensor<768x384xf32> {
  %w = nn.weight @weights["gate_up.weight"] : tensor<768x384xf32>
  %v, %s = nn.quantize %w {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<768x384xf32>) -> (tensor<768x384xi4>, tensor<768x12xf16>)
  %d = nn.dequantize %v, %s {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<768x384xi4>, tensor<768x12xf16>) -> tensor<768x384xf32>
  rt.yield %d : tensor<768x384xf32>
}
// CHECK: rt.constant @c1 layout(#rt.row_major) : tensor<2xf32> {
// CHECK-NEXT: arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
rt.constant @c1 layout(#rt.row_major) : tensor<2xf32> {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  rt.yield %c : tensor<2xf32>
}

// CHECK-LABEL: func.func @main
func.func @main(%x: memref<?x384xf32>, %i: memref<?xi64>) {
  // CHECK: %[[N:.*]] = rt.symbol "sequence"
  %n = rt.symbol "sequence"
  // CHECK: rt.check %[[N]] at_most %[[N]] {left_text = "n", right_text = "n", why = "needed"}
  rt.check %n at_most %n {left_text = "n", right_text = "n", why = "needed"}
  // CHECK: rt.check %[[N]] equal %[[N]]
  rt.check %n equal %n {left_text = "n", right_text = "n", why = "needed"}
  // CHECK: rt.check_indices %{{.*}}(%[[N]]) below %[[N]] {limit_text = "n", name = "i", why = "needed"} : memref<?xi64>
  rt.check_indices %i(%n) below %n {name = "i", limit_text = "n", why = "needed"} : memref<?xi64>
  // CHECK: %[[W:.*]] = rt.constant_data @c0 : memref<768x384xf32>
  %w = rt.constant_data @c0 : memref<768x384xf32>
  // CHECK: %[[B:.*]] = rt.alloc(%[[N]]) : memref<?x768xf32>
  %b = rt.alloc (%n) : memref<?x768xf32>
  // CHECK: rt.output 0(%[[N]]) : memref<?x768xf32>
  %o = rt.output 0 (%n) : memref<?x768xf32>
  // CHECK: rt.workspace %[[N]] : memref<?xi8>
  %s = rt.workspace %n : memref<?xi8>
  // CHECK: %[[Q:.*]] = rt.get_queue 0 : !rt.queue<@cpu>
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  // CHECK: %[[E0:.*]] = rt.dispatch @linear on %[[Q]] : !rt.queue<@cpu> sizes(%[[N]]) ins(%{{.*}}, %[[W]] : memref<?x384xf32>, memref<768x384xf32>) outs(%[[B]] : memref<?x768xf32>) {label = "encoder.dense"}
  %e0 = rt.dispatch @linear on %q : !rt.queue<@cpu> sizes(%n) ins(%x, %w : memref<?x384xf32>, memref<768x384xf32>) outs(%b : memref<?x768xf32>) {label = "encoder.dense"}
  // CHECK: %[[E1:.*]] = rt.copy %[[B]] to %{{.*}} on %[[Q]] : !rt.queue<@cpu> after(%[[E0]]) sizes(%[[N]]) : memref<?x768xf32> to memref<?x768xf32>
  %e1 = rt.copy %b to %o on %q : !rt.queue<@cpu> after(%e0) sizes(%n) : memref<?x768xf32> to memref<?x768xf32>
  // CHECK: %[[E2:.*]] = rt.collective all_reduce in [0, 1] from %{{.*}} : memref<?x768xf32> to %[[B]] : memref<?x768xf32> after(%[[E1]]) sizes(%[[N]]) {label = "encoder.dense"}
  %e2 = rt.collective all_reduce in [0, 1] from %o : memref<?x768xf32> to %b : memref<?x768xf32> after(%e1) sizes(%n) {label = "encoder.dense"}
  // CHECK: %[[E3:.*]] = rt.collective reduce_scatter_rows in [0, 1] from %{{.*}} : memref<?x768xf32> to %[[B]] : memref<?x768xf32> after(%[[E2]]) sizes(%[[N]])
  %e3 = rt.collective reduce_scatter_rows in [0, 1] from %o : memref<?x768xf32> to %b : memref<?x768xf32> after(%e2) sizes(%n)
  // CHECK: %[[E4:.*]] = rt.collective all_gather_rows in [0, 1] from %[[B]] : memref<?x768xf32> to %{{.*}} : memref<?x768xf32> after(%[[E3]]) sizes(%[[N]])
  %e4 = rt.collective all_gather_rows in [0, 1] from %b : memref<?x768xf32> to %o : memref<?x768xf32> after(%e3) sizes(%n)
  // CHECK: %[[E5:.*]] = rt.collective broadcast_result in [1, 0] to %[[B]] : memref<?x768xf32> after(%[[E4]]) sizes(%[[N]])
  %e5 = rt.collective broadcast_result in [1, 0] to %b : memref<?x768xf32> after(%e4) sizes(%n)
  // CHECK: %[[QG:.*]] = rt.get_queue 0 : !rt.queue<@gpu>
  %qg = rt.get_queue 0 : !rt.queue<@gpu>
  // CHECK: %[[DEVICE:.*]] = rt.alloc() : memref<4xf32, #rt.memory<@gpu>>
  %g = rt.alloc () : memref<4xf32, #rt.memory<@gpu>>
  // CHECK: %[[E6:.*]] = rt.collective all_reduce in [0, 1] on %[[QG]] : !rt.queue<@gpu> from %[[DEVICE]] : memref<4xf32, #rt.memory<@gpu>> to %[[DEVICE]] : memref<4xf32, #rt.memory<@gpu>> after(%[[E5]])
  %e6 = rt.collective all_reduce in [0, 1] on %qg : !rt.queue<@gpu> from %g : memref<4xf32, #rt.memory<@gpu>> to %g : memref<4xf32, #rt.memory<@gpu>> after(%e5)
  // CHECK: rt.wait %[[E6]]
  rt.wait %e6
  return
}

{-#
  dialect_resources: {
    builtin: {
      // CHECK: "compiled.x86-64-v3": "0x0100000001020304"
      "compiled.x86-64-v3": "0x0100000001020304"
    }
  }
#-}
