// RUN: intarsia-opt %s --target-declare-devices --fuse-epilogues --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --target-declare-devices --fuse-epilogues="flip=fuse-epilogues:activation:intermediate.dense:nn.gelu" --split-input-file | FileCheck %s --check-prefix=FLIPPED

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @activation
// FLIPPED-LABEL: func.func @activation
func.func @activation(%x: tensor<?x384xf32>) -> tensor<?x1536xf32> {
  // CHECK: nn.group linear(%[[X:.*]] = %{{.*}}, %[[W:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) {why = "nn.gelu: {{.*}} us inside, {{.*}} apart"}
  // CHECK-NEXT: %[[H:.*]] = nn.linear %[[X]], %[[W]], %[[B]]
  // CHECK-NEXT: %[[G:.*]] = nn.gelu %[[H]]
  // CHECK-NEXT: nn.yield %[[G]]
  // FLIPPED: nn.group linear
  // FLIPPED: nn.yield %{{.*}} : tensor<?x1536xf32>
  // FLIPPED-NEXT: }
  // FLIPPED: nn.gelu
  %w = nn.weight @weights["w"] : tensor<1536x384xf32>
  %b = nn.weight @weights["b"] : tensor<1536xf32>
  %h = nn.linear %x, %w, %b : (tensor<?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x1536xf32> loc("intermediate.dense")
  %g = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
  return %g : tensor<?x1536xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Before a layer with a norm in front, the sum is read twice: by the norm and by the next residual.
// CHECK-LABEL: func.func @residual_and_norm
func.func @residual_and_norm(%x: tensor<?x384xf32>, %r: tensor<?x384xf32>) -> (tensor<?x384xf32>, tensor<?x384xf32>) {
  // CHECK: %[[G:.*]]:2 = nn.group linear
  // CHECK: %[[H:.*]] = nn.linear
  // CHECK-NEXT: %[[S:.*]] = arith.addf %[[H]], %{{.*}}
  // CHECK-NEXT: %[[N:.*]] = nn.layer_norm %[[S]]
  // CHECK-NEXT: nn.yield %[[S]], %[[N]]
  // CHECK: return %[[G]]#0, %[[G]]#1
  %w = nn.weight @weights["w"] : tensor<384x384xf32>
  %g = nn.weight @weights["g"] : tensor<384xf32>
  %h = nn.linear %x, %w : (tensor<?x384xf32>, tensor<384x384xf32>) -> tensor<?x384xf32>
  %s = arith.addf %h, %r : tensor<?x384xf32>
  %n = nn.layer_norm %s, %g {epsilon = 1.0e-12 : f32} : (tensor<?x384xf32>, tensor<384xf32>) -> tensor<?x384xf32>
  return %s, %n : tensor<?x384xf32>, tensor<?x384xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// x * sigmoid(1.702 x): the linear's result is read twice, both inside. The constant is cloned.
// CHECK-LABEL: func.func @diamond
func.func @diamond(%x: tensor<?x16xf32> {nn.sizes = ["rows", ""]}) -> tensor<?x16xf32> {
  // CHECK: nn.group linear(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) {
  // CHECK-NOT: nn.group
  // CHECK: nn.linear
  // CHECK: linalg.generic
  // CHECK: arith.mulf %{{.*}}, %[[C:.*]] : f32
  // CHECK: nn.sigmoid
  // CHECK: arith.mulf
  // CHECK: nn.yield %{{[^,]*}} :
  %factor = arith.constant 1.702 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x16xf32>
  %w = nn.weight @weights["w"] : tensor<16x16xf32>
  %h = nn.linear %x, %w : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %e = tensor.empty(%n) : tensor<?x16xf32>
  %scaled = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%h : tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %p = arith.mulf %in, %factor : f32
    linalg.yield %p : f32
  } -> tensor<?x16xf32>
  %s = nn.sigmoid %scaled : tensor<?x16xf32>
  %r = arith.mulf %h, %s : tensor<?x16xf32>
  return %r : tensor<?x16xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// The first token of each sequence is read where it is.
// CHECK-LABEL: func.func @first_token
// CHECK-SAME: (%[[X:.*]]: tensor<?x?x16xf32>
func.func @first_token(%x: tensor<?x?x16xf32> {nn.sizes = ["batch", "sequence", ""]}) -> tensor<?x16xf32> {
  // CHECK: nn.group linear(%[[IN:.*]] = %[[X]], %{{.*}} = %{{.*}})
  // CHECK: %[[N:.*]] = tensor.dim %[[IN]]
  // CHECK: %[[FIRST:.*]] = tensor.extract_slice %[[IN]][0, 0, 0] [%[[N]], 1, 16]
  // CHECK: %[[H:.*]] = nn.linear %[[FIRST]]
  // CHECK: nn.tanh %[[H]]
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x?x16xf32>
  %first = tensor.extract_slice %x[0, 0, 0] [%n, 1, 16] [1, 1, 1] : tensor<?x?x16xf32> to tensor<?x16xf32>
  %w = nn.weight @weights["w"] : tensor<16x16xf32>
  %h = nn.linear %first, %w : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %t = nn.tanh %h : tensor<?x16xf32>
  return %t : tensor<?x16xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// A table over positions is broadcast along the batch: an epilogue reads whole results or features, not that.
// CHECK-LABEL: func.func @broadcast_over_batch
func.func @broadcast_over_batch(%x: tensor<2x8x16xf32>, %table: tensor<8x16xf32>) -> tensor<2x8x16xf32> {
  // CHECK: nn.group linear
  // CHECK: nn.yield
  // CHECK: linalg.generic
  %w = nn.weight @weights["w"] : tensor<16x16xf32>
  %h = nn.linear %x, %w : (tensor<2x8x16xf32>, tensor<16x16xf32>) -> tensor<2x8x16xf32>
  %e = tensor.empty() : tensor<2x8x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%h, %table : tensor<2x8x16xf32>, tensor<8x16xf32>) outs(%e : tensor<2x8x16xf32>) {
  ^bb0(%in: f32, %t: f32, %out: f32):
    %p = arith.addf %in, %t : f32
    linalg.yield %p : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// The residual depends on the result: joining it would make the group wait for itself.
// CHECK-LABEL: func.func @no_way_out_and_in
func.func @no_way_out_and_in(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: %[[FIRST:.*]] = nn.group linear
  // CHECK: nn.yield
  // CHECK: nn.group linear(%{{.*}} = %[[FIRST]]
  // CHECK: nn.linear
  // CHECK: arith.addf
  // CHECK: nn.yield
  %w = nn.weight @weights["w"] : tensor<16x16xf32>
  %v = nn.weight @weights["v"] : tensor<16x16xf32>
  %h = nn.linear %x, %w : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %g = nn.linear %h, %v : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %r = arith.addf %h, %g : tensor<?x16xf32>
  return %r : tensor<?x16xf32>
}

// -----

// Groups of a row are in the rows that a finishing tile normalises: they end the kernel as other norms do.
nn.archive @weights {file = "model.safetensors"}
// CHECK-LABEL: func.func @group_norm
func.func @group_norm(%x: tensor<?x384xf32>) -> tensor<?x384xf32> {
  // CHECK: nn.group linear
  // CHECK: nn.linear
  // CHECK-NEXT: nn.group_norm
  // CHECK-NEXT: nn.yield
  %w = nn.weight @weights["w"] : tensor<384x384xf32>
  %g = nn.weight @weights["g"] : tensor<384xf32>
  %h = nn.linear %x, %w : (tensor<?x384xf32>, tensor<384x384xf32>) -> tensor<?x384xf32>
  %n = nn.group_norm %h, %g {epsilon = 1.0e-5 : f32, groups = 6} : (tensor<?x384xf32>, tensor<384xf32>) -> tensor<?x384xf32>
  return %n : tensor<?x384xf32>
}

// -----

// A matmul takes elementwise ops, but no norm: its tiles are not whole rows.
// CHECK-LABEL: func.func @matmul
func.func @matmul(%a: tensor<?x4x8xf32>, %b: tensor<?x8x16xf32>, %g: tensor<16xf32>) -> tensor<?x4x16xf32> {
  // CHECK: nn.group matmul
  // CHECK-NEXT: nn.matmul
  // CHECK-NEXT: nn.relu
  // CHECK-NEXT: nn.yield
  // CHECK: nn.rms_norm
  %m = nn.matmul %a, %b : (tensor<?x4x8xf32>, tensor<?x8x16xf32>) -> tensor<?x4x16xf32>
  %r = nn.relu %m : tensor<?x4x16xf32>
  %n = nn.rms_norm %r, %g {epsilon = 1.0e-6 : f32} : (tensor<?x4x16xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  return %n : tensor<?x4x16xf32>
}

// -----

// The sum cannot join: a gather that reads the linear's result at computed positions must be done before it.
// CHECK-LABEL: func.func @gather_of_the_result
func.func @gather_of_the_result(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %rows: tensor<4xi64>) -> tensor<4x8xf32> {
  // CHECK: %[[H:.*]] = nn.group linear
  // CHECK-NEXT: %[[L:.*]] = nn.linear
  // CHECK-NEXT: nn.yield %[[L]]
  // CHECK: tensor.extract %[[H]]
  // CHECK: arith.addf %[[H]]
  %h = nn.linear %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%rows : tensor<4xi64>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%row: i64, %out: f32):
    %r = arith.index_cast %row : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %h[%r, %c] : tensor<4x8xf32>
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  %s = arith.addf %h, %g : tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// -----

// A linear that quantizes its input normalises it too, but has no tiles left for a norm of its result.
nn.archive @weights {file = "w.safetensors"}
// CHECK-LABEL: func.func @quantized
func.func @quantized(%x: tensor<8x64xf32> {nn.name = "x"}) -> tensor<8x64xf32> {
  // CHECK: nn.quantize
  // CHECK: nn.dequantize
  // CHECK: nn.group linear{{.*}} {
  // CHECK-NEXT: nn.rms_norm
  // CHECK-NEXT: nn.quantize
  // CHECK-NEXT: nn.dequantize
  // CHECK-NEXT: nn.linear
  // CHECK-NEXT: nn.yield
  // CHECK: nn.rms_norm
  %g = nn.weight @weights["g"] : tensor<64xf32>
  %w = nn.weight @weights["w"] : tensor<64x64xf32>
  %c, %s = nn.quantize %w {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x64xf32>) -> (tensor<64x64xi4>, tensor<64x2xf16>)
  %d = nn.dequantize %c, %s {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x64xi4>, tensor<64x2xf16>) -> tensor<64x64xf32>
  %n = nn.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %xc, %xs = nn.quantize %n {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<8x64xf32>) -> (tensor<8x64xi8>, tensor<8x2xf32>)
  %xd = nn.dequantize %xc, %xs {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<8x64xi8>, tensor<8x2xf32>) -> tensor<8x64xf32>
  %y = nn.linear %xd, %d : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %z = nn.rms_norm %y, %g {epsilon = 1.0e-5 : f32} : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  return %z : tensor<8x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Slices that are all of a result are stored for themselves, and what is computed from one is computed before.
// CHECK-LABEL: func.func @parts
// CHECK-SAME: (%[[X:.*]]: tensor<?x64xf32>
func.func @parts(%x: tensor<?x64xf32> {nn.sizes = ["rows", ""]}, %g: tensor<32xf32>)
    -> (tensor<?x64xf32>, tensor<?x40xf32>, tensor<?x32xf32>) {
  // CHECK: %[[G:.*]]:3 = nn.group linear(%{{.*}} = %[[X]], %{{.*}}) {why = "tensor.extract_slice: {{.*}}; nn.relu: {{.*}}"}
  // CHECK: %[[H:.*]] = nn.linear
  // CHECK: %[[A:.*]] = tensor.extract_slice %[[H]][0, 0] [%{{.*}}, 64]
  // CHECK: %[[B:.*]] = tensor.extract_slice %[[H]][0, 64] [%{{.*}}, 32]
  // CHECK: %[[C:.*]] = tensor.extract_slice %[[H]][0, 96] [%{{.*}}, 40]
  // CHECK: %[[R:.*]] = nn.relu %[[C]]
  // CHECK: nn.yield %[[A]], %[[B]], %[[R]]
  // CHECK: %[[N:.*]] = nn.rms_norm %[[G]]#1
  // CHECK: return %[[G]]#0, %[[G]]#2, %[[N]]
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %w = nn.weight @weights["w"] : tensor<136x64xf32>
  %h = nn.linear %x, %w : (tensor<?x64xf32>, tensor<136x64xf32>) -> tensor<?x136xf32>
  %a = tensor.extract_slice %h[0, 0] [%n, 64] [1, 1] : tensor<?x136xf32> to tensor<?x64xf32>
  %b = tensor.extract_slice %h[0, 64] [%n, 32] [1, 1] : tensor<?x136xf32> to tensor<?x32xf32>
  %c = tensor.extract_slice %h[0, 96] [%n, 40] [1, 1] : tensor<?x136xf32> to tensor<?x40xf32>
  %r = nn.relu %c : tensor<?x40xf32>
  %z = nn.rms_norm %b, %g {epsilon = 1.0e-6 : f32} : (tensor<?x32xf32>, tensor<32xf32>) -> tensor<?x32xf32>
  return %a, %r, %z : tensor<?x64xf32>, tensor<?x40xf32>, tensor<?x32xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// A tile of a convolution has columns of one part: what reads several parts is computed behind it.
// CHECK-LABEL: func.func @gate_of_windows
func.func @gate_of_windows(%x: tensor<2x6x7x64xf32>) -> tensor<2x6x7x64xf32> {
  // CHECK: %[[G:.*]]:2 = nn.group conv
  // CHECK: nn.conv
  // CHECK: %[[A:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0, 0]
  // CHECK: %[[B:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0, 64]
  // CHECK: %[[R:.*]] = nn.relu %[[A]]
  // CHECK: nn.yield {{.*}}%[[R]]
  // CHECK: arith.mulf %[[G]]#{{[01]}}, %[[G]]#{{[01]}}
  %w = nn.weight @weights["w"] : tensor<128x576xf32>
  %y = nn.conv %x, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>}
      : (tensor<2x6x7x64xf32>, tensor<128x576xf32>) -> tensor<2x6x7x128xf32>
  %a = tensor.extract_slice %y[0, 0, 0, 0] [2, 6, 7, 64] [1, 1, 1, 1] : tensor<2x6x7x128xf32> to tensor<2x6x7x64xf32>
  %b = tensor.extract_slice %y[0, 0, 0, 64] [2, 6, 7, 64] [1, 1, 1, 1] : tensor<2x6x7x128xf32> to tensor<2x6x7x64xf32>
  %r = nn.relu %a : tensor<2x6x7x64xf32>
  %m = arith.mulf %r, %b : tensor<2x6x7x64xf32>
  return %m : tensor<2x6x7x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Parts of one size are computed together where something reads several: what is wide is not written.
// CHECK-LABEL: func.func @gate_and_up
func.func @gate_and_up(%x: tensor<?x64xf32> {nn.sizes = ["rows", ""]}) -> tensor<?x96xf32> {
  // CHECK: nn.group linear
  // CHECK: %[[H:.*]] = nn.linear
  // CHECK: %[[G:.*]] = tensor.extract_slice %[[H]][0, 0]
  // CHECK: %[[U:.*]] = tensor.extract_slice %[[H]][0, 96]
  // CHECK: %[[S:.*]] = nn.silu %[[G]]
  // CHECK: %[[M:.*]] = arith.mulf %[[S]], %[[U]]
  // CHECK: nn.yield %[[M]] : tensor<?x96xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %w = nn.weight @weights["w"] : tensor<192x64xf32>
  %h = nn.linear %x, %w : (tensor<?x64xf32>, tensor<192x64xf32>) -> tensor<?x192xf32>
  %g = tensor.extract_slice %h[0, 0] [%n, 96] [1, 1] : tensor<?x192xf32> to tensor<?x96xf32>
  %u = tensor.extract_slice %h[0, 96] [%n, 96] [1, 1] : tensor<?x192xf32> to tensor<?x96xf32>
  %s = nn.silu %g : tensor<?x96xf32>
  %m = arith.mulf %s, %u : tensor<?x96xf32>
  return %m : tensor<?x96xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Two of three parts that are not all of one size are not in one tile.
// CHECK-LABEL: func.func @parts_of_different_sizes
func.func @parts_of_different_sizes(%x: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x32xf32>) {
  // CHECK: %[[G:.*]]:3 = nn.group linear
  // CHECK: %[[GROUP:.*]] = arith.addf %[[G]]#1, %[[G]]#2
  %w = nn.weight @weights["w"] : tensor<128x64xf32>
  %h = nn.linear %x, %w : (tensor<8x64xf32>, tensor<128x64xf32>) -> tensor<8x128xf32>
  %a = tensor.extract_slice %h[0, 0] [8, 64] [1, 1] : tensor<8x128xf32> to tensor<8x64xf32>
  %b = tensor.extract_slice %h[0, 64] [8, 32] [1, 1] : tensor<8x128xf32> to tensor<8x32xf32>
  %c = tensor.extract_slice %h[0, 96] [8, 32] [1, 1] : tensor<8x128xf32> to tensor<8x32xf32>
  %s = arith.addf %b, %c : tensor<8x32xf32>
  return %a, %s : tensor<8x64xf32>, tensor<8x32xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// A part that begins within a panel of 32 columns, or is not all that is read of the result, is copied.
// CHECK-LABEL: func.func @slices_that_are_no_parts
func.func @slices_that_are_no_parts(%x: tensor<8x64xf32>) -> (tensor<8x48xf32>, tensor<8x16xf32>, tensor<8x32xf32>) {
  // CHECK: nn.linear
  // CHECK-NEXT: nn.yield
  // CHECK: tensor.extract_slice
  // CHECK: nn.linear
  // CHECK-NEXT: nn.yield
  // CHECK: tensor.extract_slice
  %w = nn.weight @weights["w"] : tensor<64x64xf32>
  %v = nn.weight @weights["v"] : tensor<64x64xf32>
  %h = nn.linear %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %a = tensor.extract_slice %h[0, 0] [8, 48] [1, 1] : tensor<8x64xf32> to tensor<8x48xf32>
  %b = tensor.extract_slice %h[0, 48] [8, 16] [1, 1] : tensor<8x64xf32> to tensor<8x16xf32>
  %i = nn.linear %x, %v : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %c = tensor.extract_slice %i[0, 0] [8, 32] [1, 1] : tensor<8x64xf32> to tensor<8x32xf32>
  return %a, %b, %c : tensor<8x48xf32>, tensor<8x16xf32>, tensor<8x32xf32>
}

// -----

// Windows of the three channels of a picture are read where its channels come first; those of many are not.
// CHECK-LABEL: func.func @pictures
// CHECK: nn.group conv(%{{.*}} = %arg0, %{{.*}} = %arg1) {
// CHECK:   linalg.generic
// CHECK:   nn.conv
// CHECK: linalg.generic
// CHECK: nn.group conv(%{{.*}} = %{{[0-9]+}}, %{{.*}} = %arg3) {
// CHECK-NOT: linalg.generic
// CHECK:   nn.conv
#first = affine_map<(n, h, w, c) -> (n, c, h, w)>
#last = affine_map<(n, h, w, c) -> (n, h, w, c)>
func.func @pictures(%x: tensor<1x3x32x32xf32>, %w: tensor<16x27xf32>, %y: tensor<1x64x32x32xf32>, %v: tensor<16x576xf32>) -> (tensor<1x30x30x16xf32>, tensor<1x30x30x16xf32>) {
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.generic {indexing_maps = [#first, #last], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x32x32x3xf32>
  %0 = nn.conv %t, %w {window = array<i64: 3, 3>} : (tensor<1x32x32x3xf32>, tensor<16x27xf32>) -> tensor<1x30x30x16xf32>
  %f = tensor.empty() : tensor<1x32x32x64xf32>
  %u = linalg.generic {indexing_maps = [#first, #last], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x64x32x32xf32>) outs(%f : tensor<1x32x32x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x32x32x64xf32>
  %1 = nn.conv %u, %v {window = array<i64: 3, 3>} : (tensor<1x32x32x64xf32>, tensor<16x576xf32>) -> tensor<1x30x30x16xf32>
  return %0, %1 : tensor<1x30x30x16xf32>, tensor<1x30x30x16xf32>
}
