// RUN: intarsia-opt %s --target-declare-devices --lower-groups-to-kernels --split-input-file | FileCheck %s

// A group becomes a kernel, its function a host program. Weights of a linear get panels, other weights rows; the label
// is the name in the user's model.

nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<?x?x384xf32> {nn.name = "x", nn.sizes = ["batch", "sequence", ""]}) -> (tensor<?x?x1536xf32> {nn.name = "y"}) {
  %w = nn.weight @weights["dense.weight"] : tensor<1536x384xf32>
  %b = nn.weight @weights["dense.bias"] : tensor<1536xf32>
  %r = nn.group linear(%x0 = %x, %w0 = %w, %b0 = %b) : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32> {
    %0 = nn.linear %x0, %w0, %b0 : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32> loc("encoder.dense")
    %1 = nn.gelu %0 {form = #nn.gelu_form<erf>} : tensor<?x?x1536xf32>
    nn.yield %1 : tensor<?x?x1536xf32>
  }
  return %r : tensor<?x?x1536xf32>
}
// CHECK-LABEL: module {
// CHECK-DAG: rt.constant @dense.weight.panels layout(#rt.panels<32>) : tensor<1536x384xf32> {
// CHECK-DAG: rt.constant @dense.bias layout(#rt.row_major) : tensor<1536xf32> {
// CHECK: rt.kernel @linear_gelu_384x1536(%{{.*}}: tensor<?x?x384xf32> {nn.sizes = ["s0", "s1", ""]}, %{{.*}}: tensor<1536x384xf32> {rt.layout = #rt.panels<32>}, %{{.*}}: tensor<1536xf32> {rt.layout = #rt.row_major}) -> (tensor<?x?x1536xf32> {nn.sizes = ["s0", "s1", ""]}) attributes {device = @cpu, root = #nn.root<linear>, sizes = ["s0", "s1"]}
// CHECK: nn.linear
// CHECK: nn.gelu
// CHECK: rt.yield
// CHECK: func.func @main(%[[X:.*]]: memref<?x?x384xf32> {nn.name = "x", nn.sizes = ["batch", "sequence", ""]})
// CHECK-SAME: rt.results = [{nn.name = "y", nn.sizes = ["batch", "sequence", ""], type = tensor<?x?x1536xf32>}]
// CHECK-SAME: rt.symbols = ["batch", "sequence"]
// CHECK-DAG: %[[B:.*]] = rt.symbol "batch"
// CHECK-DAG: %[[S:.*]] = rt.symbol "sequence"
// CHECK: %[[Q:.*]] = rt.get_queue 0
// CHECK: %[[OUT:.*]] = rt.output 0(%[[B]], %[[S]]) : memref<?x?x1536xf32>
// CHECK: %[[W:.*]] = rt.constant_data @dense.weight.panels : memref<1536x384xf32>
// CHECK: %[[BIAS:.*]] = rt.constant_data @dense.bias : memref<1536xf32>
// CHECK-NOT: rt.alloc
// CHECK: %[[E:.*]] = rt.dispatch @linear_gelu_384x1536 on %[[Q]] : !rt.queue<@cpu> sizes(%[[B]], %[[S]]) ins(%[[X]], %[[W]], %[[BIAS]] : {{.*}}) outs(%[[OUT]] : {{.*}}) {label = "encoder.dense"}
// CHECK: rt.wait %[[E]]
// CHECK-NEXT: return
// CHECK-NOT: nn.group

// -----

// Groups of the same structure share a kernel, whatever their weights, labels and constant names are; another epsilon
// or another equality of sizes is another kernel.

nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<?x64xf32> {nn.sizes = ["rows", ""]}, %y: tensor<?x64xf32> {nn.sizes = ["others", ""]}) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %a = nn.weight @weights["a"] : tensor<64xf32>
  %b = nn.weight @weights["b"] : tensor<64xf32>
  %1 = nn.group rows(%x0 = %x, %s = %a) : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32> {
    %n = nn.rms_norm %x0, %s {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32> loc("first")
    nn.yield %n : tensor<?x64xf32>
  }
  %2 = nn.group rows(%x0 = %1, %s = %b) : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32> {
    %n = nn.rms_norm %x0, %s {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32> loc("second")
    nn.yield %n : tensor<?x64xf32>
  }
  %3 = nn.group rows(%x0 = %y, %s = %b) : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32> {
    %n = nn.rms_norm %x0, %s {epsilon = 1.0e-5 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32> loc("third")
    nn.yield %n : tensor<?x64xf32>
  }
  return %2, %3 : tensor<?x64xf32>, tensor<?x64xf32>
}
// CHECK-LABEL: module {
// CHECK: rt.kernel @[[K:rows_rms_norm_64]](
// CHECK: rt.kernel @[[L:rows_rms_norm_64_0]](
// CHECK-NOT: rt.kernel
// CHECK: func.func @main
// CHECK: %[[T:.*]] = rt.alloc(%[[R:.*]]) : memref<?x64xf32>
// CHECK: %[[E1:.*]] = rt.dispatch @[[K]] on %{{.*}} : !rt.queue<@cpu> sizes(%[[R]]) {{.*}} outs(%[[T]] : memref<?x64xf32>) {label = "first"}
// CHECK: %[[E2:.*]] = rt.dispatch @[[K]] on %{{.*}} : !rt.queue<@cpu> after(%[[E1]]) {{.*}}{label = "second"}
// CHECK: %[[E3:.*]] = rt.dispatch @[[L]] on %{{[a-z0-9_]+}} : !rt.queue<@cpu> sizes({{.*}}{label = "third"}
// CHECK: rt.wait %[[E2]], %[[E3]]

// -----

// A weight that is the weight of a linear and a table of rows elsewhere is packed twice.

nn.archive @weights {file = "model.safetensors"}
func.func @main(%ids: tensor<?xi64> {nn.sizes = ["tokens"]}) -> (tensor<?x100xf32>) {
  %t = nn.weight @weights["table"] : tensor<100x64xf32>
  %e = nn.group rows(%t0 = %t, %i0 = %ids) : (tensor<100x64xf32>, tensor<?xi64>) -> tensor<?x64xf32> {
    %n = nn.embedding %t0, %i0 : (tensor<100x64xf32>, tensor<?xi64>) -> tensor<?x64xf32>
    nn.yield %n : tensor<?x64xf32>
  }
  %l = nn.group linear(%x0 = %e, %w0 = %t) : (tensor<?x64xf32>, tensor<100x64xf32>) -> tensor<?x100xf32> {
    %n = nn.linear %x0, %w0 : (tensor<?x64xf32>, tensor<100x64xf32>) -> tensor<?x100xf32>
    nn.yield %n : tensor<?x100xf32>
  }
  return %l : tensor<?x100xf32>
}
// CHECK-LABEL: module {
// CHECK: rt.constant @table layout(#rt.row_major)
// CHECK: rt.constant @table.panels layout(#rt.panels<32>)
// CHECK: rt.kernel @rows_embedding_64
// CHECK: rt.kernel @linear_64x100

// -----

// Recipes of weights that are concatenated, reshaped and transposed when they are packed.

nn.archive @weights {file = "model.safetensors"}
nn.archive @more {file = "model-2.safetensors"}
func.func @main(%x: tensor<?x16xf32> {nn.sizes = ["rows", ""]}) -> (tensor<?x64xf32>, tensor<?x8xf32>) {
  %a = nn.weight @weights["a"] : tensor<32x16xf32>
  %b = nn.weight @more["b"] : tensor<32x4x4xf32>
  %flat = tensor.collapse_shape %b [[0], [1, 2]] : tensor<32x4x4xf32> into tensor<32x16xf32>
  %ab = tensor.concat dim(0) %a, %flat : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %c = nn.weight @weights["c"] : tensor<16x8xf32>
  %empty = tensor.empty() : tensor<8x16xf32>
  %ct = linalg.transpose ins(%c : tensor<16x8xf32>) outs(%empty : tensor<8x16xf32>) permutation = [1, 0]
  %1 = nn.group linear(%x0 = %x, %w0 = %ab) : (tensor<?x16xf32>, tensor<64x16xf32>) -> tensor<?x64xf32> {
    %n = nn.linear %x0, %w0 : (tensor<?x16xf32>, tensor<64x16xf32>) -> tensor<?x64xf32>
    nn.yield %n : tensor<?x64xf32>
  }
  %2 = nn.group linear(%x0 = %x, %w0 = %ct) : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32> {
    %n = nn.linear %x0, %w0 : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
    nn.yield %n : tensor<?x8xf32>
  }
  return %1, %2 : tensor<?x64xf32>, tensor<?x8xf32>
}
// CHECK-LABEL: module {
// CHECK: rt.constant @a.concatenated.panels layout(#rt.panels<32>) : tensor<64x16xf32> {
// CHECK-NEXT: %[[A:.*]] = nn.weight @weights["a"] : tensor<32x16xf32>
// CHECK-NEXT: %[[B:.*]] = nn.weight @more["b"] : tensor<32x4x4xf32>
// CHECK-NEXT: %[[FLAT:.*]] = tensor.collapse_shape %[[B]]
// CHECK-NEXT: %[[AB:.*]] = tensor.concat dim(0) %[[A]], %[[FLAT]]
// CHECK-NEXT: rt.yield %[[AB]] : tensor<64x16xf32>
// CHECK: rt.constant @c.panels layout(#rt.panels<32>) : tensor<8x16xf32> {
// CHECK-NEXT: %[[C:.*]] = nn.weight @weights["c"] : tensor<16x8xf32>
// CHECK-NEXT: %[[E:.*]] = tensor.empty()
// CHECK-NEXT: %[[T:.*]] = linalg.transpose ins(%[[C]] : tensor<16x8xf32>) outs(%[[E]] : tensor<8x16xf32>) permutation = [1, 0]
// CHECK-NEXT: rt.yield %[[T]] : tensor<8x16xf32>
// CHECK: func.func @main
// CHECK-NOT: tensor.
// CHECK-NOT: linalg.

// -----

// Views between groups are views of buffers; a result behind a view is written in place all the same.

func.func @main(%x: tensor<?x?x64xf32> {nn.sizes = ["batch", "sequence", ""]}) -> tensor<?x?x4x16xf32> {
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x64xf32> into tensor<?x64xf32>
  %r = nn.group rows(%f0 = %flat) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %n = nn.relu %f0 : tensor<?x64xf32>
    nn.yield %n : tensor<?x64xf32>
  }
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x64xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x64xf32>
  %heads = tensor.expand_shape %r [[0, 1], [2, 3]] output_shape [%b, %s, 4, 16] : tensor<?x64xf32> into tensor<?x?x4x16xf32>
  return %heads : tensor<?x?x4x16xf32>
}
// CHECK-LABEL: module {
// CHECK: rt.kernel @rows_relu_64(%{{.*}}: tensor<?x64xf32> {nn.sizes = ["s0", ""]})
// CHECK: func.func @main(%[[X:.*]]: memref<?x?x64xf32>
// CHECK-DAG: %[[B:.*]] = rt.symbol "batch"
// CHECK-DAG: %[[S:.*]] = rt.symbol "sequence"
// CHECK: %[[N:.*]] = arith.muli
// CHECK: %[[OUT:.*]] = rt.output 0(%[[B]], %[[S]]) : memref<?x?x4x16xf32>
// CHECK: %[[ROWS:.*]] = memref.collapse_shape %[[OUT]] {{\[\[}}0, 1], [2, 3]] : memref<?x?x4x16xf32> into memref<?x64xf32>
// CHECK: %[[FLAT:.*]] = memref.collapse_shape %[[X]] {{\[\[}}0, 1], [2]] : memref<?x?x64xf32> into memref<?x64xf32>
// CHECK: rt.dispatch @rows_relu_64 on %{{.*}} : !rt.queue<@cpu> sizes(%[[N]]) ins(%[[FLAT]] : memref<?x64xf32>) outs(%[[ROWS]] : memref<?x64xf32>)
// CHECK-NOT: rt.copy

// -----

// What no kernel writes into a result is copied: an input, a weight, the second of two equal results.

nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<?x64xf32> {nn.sizes = ["rows", ""]}) -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>, tensor<8xf32>) {
  %w = nn.weight @weights["w"] : tensor<8xf32>
  %r = nn.group rows(%x0 = %x) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %n = nn.relu %x0 : tensor<?x64xf32>
    nn.yield %n : tensor<?x64xf32>
  }
  return %r, %x, %r, %w : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>, tensor<8xf32>
}
// CHECK-LABEL: module {
// CHECK: func.func @main(%[[X:.*]]: memref<?x64xf32> {
// CHECK-DAG: %[[O0:.*]] = rt.output 0
// CHECK-DAG: %[[O1:.*]] = rt.output 1
// CHECK-DAG: %[[O2:.*]] = rt.output 2
// CHECK-DAG: %[[O3:.*]] = rt.output 3
// CHECK: %[[E:.*]] = rt.dispatch @rows_relu_64 {{.*}} outs(%[[O0]] : memref<?x64xf32>)
// CHECK: %[[C1:.*]] = rt.copy %[[X]] to %[[O1]] on %{{[a-z0-9_]+}} : !rt.queue<@cpu> sizes
// CHECK: %[[C2:.*]] = rt.copy %[[O0]] to %[[O2]] on %{{.*}} : !rt.queue<@cpu> after(%[[E]]) sizes
// CHECK: %[[W:.*]] = rt.constant_data @w
// CHECK: %[[C3:.*]] = rt.copy %[[W]] to %[[O3]] on %{{[a-z0-9_]+}} :
// CHECK: rt.wait %[[C1]], %[[C2]], %[[C3]]

// -----

// Sizes that must be equal have one name, one that can only be a number is it, and what a kernel can hold is a limit.
// What else ops need of sizes is checked before anything is made. A kernel sees the sizes that it has alone.

func.func @main(%x: tensor<?x?xf32> {nn.name = "x", nn.sizes = ["n", "k"]}, %y: tensor<?x4xf32> {nn.name = "y", nn.sizes = ["m", ""]},
                %w: tensor<4x8xf32>, %z: tensor<?xf32> {nn.name = "z", nn.sizes = ["p"]}) -> (tensor<?x4xf32>, tensor<?xf32>, tensor<?x?xf32>)
    attributes {nn.expected_sizes = {k = 8 : i64}, nn.size_limits = {m = 40 : i64}} {
  %r = nn.group linear(%x0 = %x, %w0 = %w, %y0 = %y) : (tensor<?x?xf32>, tensor<4x8xf32>, tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = nn.linear %x0, %w0 : (tensor<?x?xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
    %1 = arith.addf %0, %y0 : tensor<?x4xf32>
    nn.yield %1 : tensor<?x4xf32>
  }
  %s = nn.group rows(%x0 = %x, %z0 = %z) : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = tensor.dim %x0, %c0 : tensor<?x?xf32>
    %less = arith.subi %n, %c1 : index
    %0 = tensor.extract_slice %z0[1] [%less] [1] : tensor<?xf32> to tensor<?xf32> loc("model.tail")
    nn.yield %0 : tensor<?xf32>
  }
  return %r, %s, %x : tensor<?x4xf32>, tensor<?xf32>, tensor<?x?xf32>
}
// CHECK-LABEL: module {
// CHECK: func.func @main(%[[X:.*]]: memref<?x8xf32> {nn.name = "x", nn.sizes = ["n", ""]}, %{{.*}}: memref<?x4xf32> {nn.name = "y", nn.sizes = ["n", ""]}
// CHECK-SAME: attributes {nn.size_limits = {n = 40 : i64},
// CHECK-SAME: rt.symbols = ["n", "p"]
// CHECK-DAG: %[[N:.*]] = rt.symbol "n"
// CHECK-DAG: %[[P:.*]] = rt.symbol "p"
// CHECK: rt.check %[[N]] at_most %[[P]] {left_text = "n", right_text = "p", why = "'tensor.extract_slice' of 'model.tail' needs it (n is dimension 0 of input 'x', p is dimension 0 of input 'z')"}
// CHECK: rt.get_queue
// CHECK: memref.cast %[[X]] : memref<?x8xf32> to memref<?x?xf32>

// -----

// Inputs that are indices of a table, as they are, have its rows as their range; a narrower one stays. What a slice
// leaves out need be no index, and what is computed from one is none of the input's values.

func.func @main(%a: tensor<2x3xi32>, %b: tensor<6xi64> {nn.range = array<i64: 0, 5>}, %c: tensor<6xi64>, %d: tensor<8xi64>, %e: tensor<6xi64>,
                %t: tensor<9x4xf32>, %u: tensor<7x4xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) {
  %f = tensor.collapse_shape %a [[0, 1]] : tensor<2x3xi32> into tensor<6xi32>
  %r:4 = nn.group rows(%f0 = %f, %b0 = %b, %c0 = %c, %d0 = %d, %e0 = %e, %t0 = %t, %u0 = %u)
      : (tensor<6xi32>, tensor<6xi64>, tensor<6xi64>, tensor<8xi64>, tensor<6xi64>, tensor<9x4xf32>, tensor<7x4xf32>)
      -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) {
    %i = arith.extsi %f0 : tensor<6xi32> to tensor<6xi64>
    %0 = nn.embedding %t0, %i : (tensor<9x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
    %1 = nn.embedding %t0, %b0 : (tensor<9x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
    %2 = nn.embedding %t0, %c0 : (tensor<9x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
    %3 = nn.embedding %u0, %c0 : (tensor<7x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
    %4 = arith.addf %2, %3 : tensor<6x4xf32>
    %s = tensor.extract_slice %d0[2] [6] [1] : tensor<8xi64> to tensor<6xi64>
    %p = arith.addi %s, %e0 : tensor<6xi64>
    %5 = nn.embedding %t0, %s : (tensor<9x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
    %6 = nn.embedding %t0, %p : (tensor<9x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
    %7 = arith.addf %5, %6 : tensor<6x4xf32>
    nn.yield %0, %1, %4, %7 : tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
  }
  return %r#0, %r#1, %r#2, %r#3 : tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
}
// CHECK-LABEL: module {
// CHECK: func.func @main(%{{.*}}: memref<2x3xi32> {nn.range = array<i64: 0, 9>}, %{{.*}}: memref<6xi64> {nn.range = array<i64: 0, 5>}, %{{.*}}: memref<6xi64> {nn.range = array<i64: 0, 7>}, %{{.*}}: memref<8xi64>, %{{.*}}: memref<6xi64>, %{{.*}}: memref<9x4xf32>

// -----

// One constant for equal recipes, also of different ops, and another for each layout.

rt.device @cpu {target = #rt.target<"cpu", ["native"]>}
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<?x16xf32> {nn.sizes = ["rows", ""]}) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %c = nn.weight @weights["c"] : tensor<16x8xf32>
  %e0 = tensor.empty() : tensor<8x16xf32>
  %t0 = linalg.transpose ins(%c : tensor<16x8xf32>) outs(%e0 : tensor<8x16xf32>) permutation = [1, 0]
  %again = nn.weight @weights["c"] : tensor<16x8xf32>
  %e1 = tensor.empty() : tensor<16x8xf32>
  %same = linalg.transpose ins(%again : tensor<16x8xf32>) outs(%e1 : tensor<16x8xf32>) permutation = [0, 1]
  %e2 = tensor.empty() : tensor<8x16xf32>
  %t1 = linalg.transpose ins(%same : tensor<16x8xf32>) outs(%e2 : tensor<8x16xf32>) permutation = [1, 0] {rt.device = @cpu}
  %other = nn.weight @weights["d"] : tensor<8x16xf32>
  %1 = nn.group linear(%x0 = %x, %w0 = %t0) : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32> {
    %n = nn.linear %x0, %w0 : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
    nn.yield %n : tensor<?x8xf32>
  }
  %2 = nn.group linear(%x0 = %x, %w0 = %t1) : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32> {
    %n = nn.linear %x0, %w0 : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
    nn.yield %n : tensor<?x8xf32>
  }
  %3 = nn.group linear(%x0 = %x, %w0 = %other) : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32> {
    %n = nn.linear %x0, %w0 : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
    nn.yield %n : tensor<?x8xf32>
  }
  return %2, %3 : tensor<?x8xf32>, tensor<?x8xf32>
}
// CHECK-LABEL: module {
// CHECK: rt.constant @c.panels
// CHECK-NOT: rt.device =
// CHECK: rt.constant @d.panels
// CHECK-NOT: rt.constant @
// CHECK: rt.constant_data @c.panels

// -----

// Sizes without a name get one; tables that the model computes are constants.

func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %t = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = nn.group rows(%x0 = %x, %t0 = %t) : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32> {
    %n = nn.rms_norm %x0, %t0 {epsilon = 1.0e-6 : f32} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
    nn.yield %n : tensor<?x2xf32>
  }
  return %r : tensor<?x2xf32>
}
// CHECK-LABEL: module {
// CHECK: rt.constant @constant layout(#rt.row_major) : tensor<2xf32> {
// CHECK-NEXT: %[[C:.*]] = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: rt.yield %[[C]] : tensor<2xf32>
// CHECK: func.func @main(%{{.*}}: memref<?x2xf32> {nn.sizes = ["arg0.0", ""]})
// CHECK-SAME: rt.symbols = ["arg0.0"]

// -----

// A transposed weight under another shape is packed in that shape.

nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %w = nn.weight @weights["w"] : tensor<4x6xf32>
  %empty = tensor.empty() : tensor<6x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x6xf32>) outs(%empty : tensor<6x4xf32>) permutation = [1, 0]
  %v = tensor.expand_shape %t [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %r = nn.group rows(%x0 = %x, %v0 = %v) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
    %s = arith.addf %x0, %v0 : tensor<2x3x4xf32>
    nn.yield %s : tensor<2x3x4xf32>
  }
  return %r : tensor<2x3x4xf32>
}
// CHECK-LABEL: module {
// CHECK: rt.constant @w layout(#rt.row_major) : tensor<2x3x4xf32> {
// CHECK: linalg.transpose
// CHECK: tensor.expand_shape
// CHECK: rt.constant_data @w : memref<2x3x4xf32>
// CHECK-NOT: memref.expand_shape

// -----

// Rows of one operand are those of another whose outer dimensions the kernel collapses: it is told so. What none of the
// operands has as it is stays a size of its own.

func.func @main(%x: tensor<?x?x8xf32> {nn.sizes = ["batch", "sequence", ""]}, %y: tensor<?x?x16xf32> {nn.sizes = ["batch", "sequence", ""]},
                %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %o = tensor.collapse_shape %y [[0, 1], [2]] : tensor<?x?x16xf32> into tensor<?x16xf32>
  %r = nn.group linear(%o0 = %o, %x0 = %x, %w0 = %w) : (tensor<?x16xf32>, tensor<?x?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32> {
    %c = tensor.collapse_shape %x0 [[0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
    %h = nn.linear %c, %w0 : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
    %s = arith.addf %o0, %h : tensor<?x16xf32>
    nn.yield %s : tensor<?x16xf32>
  }
  %a = nn.group rows(%r0 = %r) : (tensor<?x16xf32>) -> tensor<?x16xf32> {
    %n = nn.relu %r0 : tensor<?x16xf32>
    nn.yield %n : tensor<?x16xf32>
  }
  return %r, %a : tensor<?x16xf32>, tensor<?x16xf32>
}
// CHECK-LABEL: module {
// CHECK: rt.kernel @linear_{{.*}}(%{{.*}}: tensor<?x16xf32> {nn.sizes = ["s0 * s1", ""]}, %{{.*}}: tensor<?x?x8xf32> {nn.sizes = ["s0", "s1", ""]}, %{{.*}}) -> (tensor<?x16xf32> {nn.sizes = ["s0 * s1", ""]}) attributes {device = @cpu, root = #nn.root<linear>, sizes = ["s0", "s1"]}
// CHECK: rt.kernel @rows_{{.*}}(%{{.*}}: tensor<?x16xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x16xf32> {nn.sizes = ["s0", ""]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]}
// CHECK-DAG: %[[B:.*]] = rt.symbol "batch"
// CHECK-DAG: %[[S:.*]] = rt.symbol "sequence"
// CHECK: %[[N:.*]] = arith.muli %[[B]], %[[S]]
// CHECK: rt.dispatch @linear_{{.*}} sizes(%[[B]], %[[S]])
// CHECK: rt.dispatch @rows_{{.*}} sizes(%[[N]])

// -----

// A quantized weight is a constant that is stored in its format; concatenated ones too. What is no panel of a linear is
// stored dequantized.
nn.archive @weights {file = "w.safetensors"}
// CHECK: rt.constant @a.concatenated.panels layout(#rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>) : tensor<16x64xf32> {
// CHECK-NEXT: %[[A:.*]] = nn.weight @weights["a"] : tensor<8x64xf16>
// CHECK-NEXT: %[[AC:.*]], %[[AS:.*]] = nn.quantize %[[A]]
// CHECK-NEXT: %[[AD:.*]] = nn.dequantize %[[AC]], %[[AS]]
// CHECK: tensor.concat dim(0) %[[AD]],
// CHECK: rt.constant @c layout(#rt.row_major) : tensor<8x64xf32> {
// CHECK: nn.quantize {{.*}} {format = #nn.block_format<nf4, f32, 64, axis = 1>}
// CHECK: rt.kernel @{{.*}}(%{{.*}}: tensor<16x64xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
func.func @quantized(%x: tensor<4x64xf32> {nn.name = "x"}, %y: tensor<8x64xf32> {nn.name = "y"}) -> (tensor<4x16xf32>, tensor<8x64xf32>) {
  %a = nn.weight @weights["a"] : tensor<8x64xf16>
  %b = nn.weight @weights["b"] : tensor<8x64xf16>
  %c = nn.weight @weights["c"] : tensor<8x64xf16>
  %ac, %as = nn.quantize %a {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<8x64xf16>) -> (tensor<8x64xi4>, tensor<8x2xf16>)
  %bc, %bs = nn.quantize %b {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<8x64xf16>) -> (tensor<8x64xi4>, tensor<8x2xf16>)
  %cc, %cs = nn.quantize %c {format = #nn.block_format<nf4, f32, 64, axis = 1>} : (tensor<8x64xf16>) -> (tensor<8x64xi4>, tensor<8x1xf32>)
  %ad = nn.dequantize %ac, %as {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<8x64xi4>, tensor<8x2xf16>) -> tensor<8x64xf32>
  %bd = nn.dequantize %bc, %bs {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<8x64xi4>, tensor<8x2xf16>) -> tensor<8x64xf32>
  %cd = nn.dequantize %cc, %cs {format = #nn.block_format<nf4, f32, 64, axis = 1>} : (tensor<8x64xi4>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %w = tensor.concat dim(0) %ad, %bd : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
  %l = nn.group linear(%i = %x, %j = %w) : (tensor<4x64xf32>, tensor<16x64xf32>) -> tensor<4x16xf32> {
    %r = nn.linear %i, %j : (tensor<4x64xf32>, tensor<16x64xf32>) -> tensor<4x16xf32>
    nn.yield %r : tensor<4x16xf32>
  }
  %s = nn.group rows(%i = %y, %j = %cd) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> {
    %r = arith.addf %i, %j : tensor<8x64xf32>
    nn.yield %r : tensor<8x64xf32>
  }
  return %l, %s : tensor<4x16xf32>, tensor<8x64xf32>
}

// -----

// Panels of gate and up alternate where they are read together, and do not where each is a result.
nn.archive @weights {file = "model.safetensors"}
// CHECK-LABEL: rt.kernel @linear_silu_mul_16x64
// CHECK-SAME: tensor<64x16xf32> {rt.layout = #rt.panels<32 in 2 slices>}
// CHECK-LABEL: rt.kernel @linear_silu_16x64
// CHECK-SAME: tensor<64x16xf32> {rt.layout = #rt.panels<32>}
func.func @main(%x: tensor<4x16xf32> {nn.name = "x"}) -> (tensor<4x32xf32> {nn.name = "m"}, tensor<4x32xf32> {nn.name = "s"}, tensor<4x32xf32> {nn.name = "u"}) {
  %gate = nn.weight @weights["gate"] : tensor<32x16xf32>
  %up = nn.weight @weights["up"] : tensor<32x16xf32>
  %w = tensor.concat dim(0) %gate, %up : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %m = nn.group linear(%x0 = %x, %w0 = %w) : (tensor<4x16xf32>, tensor<64x16xf32>) -> tensor<4x32xf32> {
    %0 = nn.linear %x0, %w0 : (tensor<4x16xf32>, tensor<64x16xf32>) -> tensor<4x64xf32>
    %1 = tensor.extract_slice %0[0, 0] [4, 32] [1, 1] : tensor<4x64xf32> to tensor<4x32xf32>
    %2 = tensor.extract_slice %0[0, 32] [4, 32] [1, 1] : tensor<4x64xf32> to tensor<4x32xf32>
    %3 = nn.silu %1 : tensor<4x32xf32>
    %4 = arith.mulf %3, %2 : tensor<4x32xf32>
    nn.yield %4 : tensor<4x32xf32>
  }
  %s:2 = nn.group linear(%x0 = %x, %w0 = %w) : (tensor<4x16xf32>, tensor<64x16xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>) {
    %0 = nn.linear %x0, %w0 : (tensor<4x16xf32>, tensor<64x16xf32>) -> tensor<4x64xf32>
    %1 = tensor.extract_slice %0[0, 0] [4, 32] [1, 1] : tensor<4x64xf32> to tensor<4x32xf32>
    %2 = tensor.extract_slice %0[0, 32] [4, 32] [1, 1] : tensor<4x64xf32> to tensor<4x32xf32>
    %3 = nn.silu %1 : tensor<4x32xf32>
    nn.yield %3, %2 : tensor<4x32xf32>, tensor<4x32xf32>
  }
  return %m, %s#0, %s#1 : tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>
}

// -----

// The weight of a convolution as other frameworks store it, [out, in, window…], is transposed and packed in panels when
// the artifact is assembled; nothing of it is left for a call.
// CHECK-LABEL: module {
// CHECK: rt.constant @conv.weight.panels layout(#rt.panels<32>) : tensor<32x72xf32> {
// CHECK:   linalg.transpose {{.*}} permutation = [0, 2, 3, 1]
// CHECK:   tensor.collapse_shape
// CHECK: rt.kernel @conv{{.*}}, %{{.*}}: tensor<32x72xf32> {rt.layout = #rt.panels<32>})
// CHECK: %[[W:.*]] = rt.constant_data @conv.weight.panels : memref<32x72xf32>
// CHECK-NOT: memref.collapse_shape
// CHECK: rt.dispatch @conv{{.*}} ins(%{{.*}}, %[[W]] :
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<1x9x9x8xf32> {nn.name = "x"}) -> (tensor<1x7x7x32xf32> {nn.name = "y"}) {
  %w = nn.weight @weights["conv.weight"] : tensor<32x8x3x3xf32>
  %e = tensor.empty() : tensor<32x3x3x8xf32>
  %t = linalg.transpose ins(%w : tensor<32x8x3x3xf32>) outs(%e : tensor<32x3x3x8xf32>) permutation = [0, 2, 3, 1]
  %m = tensor.collapse_shape %t [[0], [1, 2, 3]] : tensor<32x3x3x8xf32> into tensor<32x72xf32>
  %r = nn.group conv(%x0 = %x, %w0 = %m) : (tensor<1x9x9x8xf32>, tensor<32x72xf32>) -> tensor<1x7x7x32xf32> {
    %0 = nn.conv %x0, %w0 {window = array<i64: 3, 3>} : (tensor<1x9x9x8xf32>, tensor<32x72xf32>) -> tensor<1x7x7x32xf32>
    nn.yield %0 : tensor<1x7x7x32xf32>
  }
  return %r : tensor<1x7x7x32xf32>
}

// -----

// A size may be 0 if all that are equal to it may, and has the name that they have in calls.
func.func @main(%x: tensor<?xf32> {nn.name = "x", nn.sizes = ["n"]}, %y: tensor<?xf32> {nn.name = "y", nn.sizes = ["m"]},
                %z: tensor<?xf32> {nn.name = "z", nn.sizes = ["p"]}, %u: tensor<?xf32> {nn.name = "u", nn.sizes = ["q"]})
    -> (tensor<?xf32>, tensor<?xf32>) attributes {nn.empty_sizes = ["n", "m", "p"]} {
  %r = nn.group rows(%x0 = %x, %y0 = %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32> {
    %0 = arith.addf %x0, %y0 : tensor<?xf32>
    nn.yield %0 : tensor<?xf32>
  }
  %s = nn.group rows(%z0 = %z, %u0 = %u) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32> {
    %0 = arith.addf %z0, %u0 : tensor<?xf32>
    nn.yield %0 : tensor<?xf32>
  }
  return %r, %s : tensor<?xf32>, tensor<?xf32>
}
// CHECK-LABEL: module {
// CHECK: func.func @main(
// CHECK-SAME: attributes {nn.empty_sizes = ["n"],
// CHECK-SAME: rt.symbols = ["n", "p"]

// -----

// What an op needed before it became loops is checked as what ops need is, behind the assertions of the user before it.
func.func @main(%x: tensor<?xf32> {nn.name = "x", nn.sizes = ["n"]}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c8 = arith.constant 8 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %isShort = arith.cmpi sle, %n, %c8 : index
  cf.assert %isShort, "a signal is short"
  %isMet = arith.cmpi sge, %n, %c3 : index
  cf.assert %isMet, "nn.pool" {fuse.asserts_size} loc("model.pool")
  %r = nn.group rows(%x0 = %x) : (tensor<?xf32>) -> tensor<?xf32> {
    %0 = arith.addf %x0, %x0 : tensor<?xf32>
    nn.yield %0 : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
// CHECK-LABEL: module {
// CHECK: func.func @main(
// CHECK: rt.check {{.*}}a signal is short
// CHECK: rt.check %{{.*}} at_most %{{.*}} {left_text = "3", right_text = "n", why = "'nn.pool' of 'model.pool' needs it (n is dimension 0 of input 'x')"}
// CHECK-NOT: rt.check
// CHECK: rt.dispatch
