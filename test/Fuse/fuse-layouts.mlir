// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --fuse-canonicalize --fuse-layouts --canonicalize --cse --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --fuse-canonicalize --fuse-layouts="flip=fuse-layouts:cancels:turned:*" --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=FLIPPED

// Two transpositions cancel, with a concatenation, an elementwise op and a slice between them.
// CHECK-LABEL: func.func @cancels(
// CHECK-SAME: %[[X:.*]]: tensor<1x64x56x56xf32>
// CHECK-NEXT: %[[C:.*]] = tensor.concat dim(1) %[[X]], %[[X]] {{.*}} -> tensor<1x128x56x56xf32>
// CHECK-NEXT: %[[E:.*]] = math.exp %[[C]]{{.*}} : tensor<1x128x56x56xf32>
// CHECK-NEXT: %[[S:.*]] = tensor.extract_slice %[[E]][0, 8, 0, 0] [1, 64, 56, 56] [1, 1, 1, 1]
// CHECK-NEXT: return %[[S]]
// The other way round they stay where they are written.
// FLIPPED-LABEL: func.func @cancels(
// FLIPPED-SAME: chosen = "apart", forced = true, id = "fuse-layouts:cancels:turned:linalg.transpose"
// FLIPPED: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x56x56x64xf32>)
// FLIPPED: tensor.concat dim(3)
// FLIPPED: tensor.extract_slice %{{.*}}[0, 0, 0, 8]
// FLIPPED: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x64x56x56xf32>)
func.func @cancels(%x: tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32> {
  %e = tensor.empty() : tensor<1x56x56x64xf32>
  %t = linalg.transpose ins(%x : tensor<1x64x56x56xf32>) outs(%e : tensor<1x56x56x64xf32>) permutation = [0, 2, 3, 1] loc("turned")
  %c = tensor.concat dim(3) %t, %t : (tensor<1x56x56x64xf32>, tensor<1x56x56x64xf32>) -> tensor<1x56x56x128xf32>
  %y = math.exp %c : tensor<1x56x56x128xf32>
  %s = tensor.extract_slice %y[0, 0, 0, 8] [1, 56, 56, 64] [1, 1, 1, 1] : tensor<1x56x56x128xf32> to tensor<1x56x56x64xf32>
  %f = tensor.empty() : tensor<1x64x56x56xf32>
  %r = linalg.transpose ins(%s : tensor<1x56x56x64xf32>) outs(%f : tensor<1x64x56x56xf32>) permutation = [0, 3, 1, 2]
  return %r : tensor<1x64x56x56xf32>
}

// -----

// Arguments and results keep their layouts: one transposition stays, and no op pays for another.
// CHECK-LABEL: func.func @stays(
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<512x384xf32>) outs(%{{.*}} : tensor<384x512xf32>)
// CHECK: return %[[T]]
func.func @stays(%x: tensor<512x384xf32>) -> tensor<384x512xf32> {
  %e = tensor.empty() : tensor<384x512xf32>
  %t = linalg.transpose ins(%x : tensor<512x384xf32>) outs(%e : tensor<384x512xf32>) permutation = [1, 0]
  return %t : tensor<384x512xf32>
}

// -----

// Rows of a softmax stay rows: the dimensions before them may change places, the last one may not.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[X:.*]]: tensor<16x?x128xf32>
// CHECK-NEXT: %[[S:.*]] = nn.softmax %[[X]] {{.*}}: tensor<16x?x128xf32>
// CHECK-NEXT: return %[[S]]
func.func @rows(%x: tensor<16x?x128xf32> {nn.sizes = ["", "n", ""]}) -> tensor<16x?x128xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<16x?x128xf32>
  %e = tensor.empty(%n) : tensor<?x16x128xf32>
  %t = linalg.transpose ins(%x : tensor<16x?x128xf32>) outs(%e : tensor<?x16x128xf32>) permutation = [1, 0, 2]
  %s = nn.softmax %t : tensor<?x16x128xf32>
  %f = tensor.empty(%n) : tensor<16x?x128xf32>
  %r = linalg.transpose ins(%s : tensor<?x16x128xf32>) outs(%f : tensor<16x?x128xf32>) permutation = [1, 0, 2]
  return %r : tensor<16x?x128xf32>
}

// CHECK-LABEL: func.func @columns(
// CHECK: linalg.generic
// CHECK: nn.softmax %{{.*}} : tensor<16x128x64xf32>
// CHECK: linalg.generic
// CHECK: return
func.func @columns(%x: tensor<16x64x128xf32>) -> tensor<16x64x128xf32> {
  %e = tensor.empty() : tensor<16x128x64xf32>
  %t = linalg.transpose ins(%x : tensor<16x64x128xf32>) outs(%e : tensor<16x128x64xf32>) permutation = [0, 2, 1]
  %s = nn.softmax %t : tensor<16x128x64xf32>
  %f = tensor.empty() : tensor<16x64x128xf32>
  %r = linalg.transpose ins(%s : tensor<16x128x64xf32>) outs(%f : tensor<16x64x128xf32>) permutation = [0, 2, 1]
  return %r : tensor<16x64x128xf32>
}

// -----

// A linear reads rows in any order, and its features last.
// CHECK-LABEL: func.func @linear(
// CHECK: %[[W:.*]] = nn.weight
// CHECK-NEXT: %[[L:.*]] = nn.linear %{{.*}}, %[[W]] {{.*}}: (tensor<8x4x64xf32>, tensor<32x64xf32>) -> tensor<8x4x32xf32>
// CHECK-NEXT: return %[[L]]
nn.archive @weights {file = "model.safetensors"}
func.func @linear(%x: tensor<8x4x64xf32>) -> tensor<8x4x32xf32> {
  %w = nn.weight @weights["w"] : tensor<32x64xf32>
  %e = tensor.empty() : tensor<4x8x64xf32>
  %t = linalg.transpose ins(%x : tensor<8x4x64xf32>) outs(%e : tensor<4x8x64xf32>) permutation = [1, 0, 2]
  %l = nn.linear %t, %w : (tensor<4x8x64xf32>, tensor<32x64xf32>) -> tensor<4x8x32xf32>
  %f = tensor.empty() : tensor<8x4x32xf32>
  %r = linalg.transpose ins(%l : tensor<4x8x32xf32>) outs(%f : tensor<8x4x32xf32>) permutation = [1, 0, 2]
  return %r : tensor<8x4x32xf32>
}

// -----

// Matrices are read transposed, by attributes. A batch in another order is copied.
// CHECK-LABEL: func.func @matrices(
// CHECK-SAME: %[[A:.*]]: tensor<8x16x32xf32>, %[[B:.*]]: tensor<8x24x32xf32>, %[[C:.*]]: tensor<24x8x32xf32>
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]] : tensor<24x8x32xf32>) outs(%{{.*}} : tensor<8x{{.*}}xf32>)
// CHECK-DAG: %[[M:.*]] = nn.matmul %[[A]], %[[B]] {transpose_rhs} : (tensor<8x16x32xf32>, tensor<8x24x32xf32>) -> tensor<8x16x24xf32>
// CHECK-DAG: %[[N:.*]] = nn.matmul %[[A]], %[[D]] {{.*}} -> tensor<8x16x24xf32>
// CHECK: return %[[M]], %[[N]]
func.func @matrices(%a: tensor<8x16x32xf32>, %b: tensor<8x24x32xf32>, %c: tensor<24x8x32xf32>) -> (tensor<8x16x24xf32>, tensor<8x16x24xf32>) {
  %e = tensor.empty() : tensor<8x32x24xf32>
  %t = linalg.transpose ins(%b : tensor<8x24x32xf32>) outs(%e : tensor<8x32x24xf32>) permutation = [0, 2, 1]
  %m = nn.matmul %a, %t : (tensor<8x16x32xf32>, tensor<8x32x24xf32>) -> tensor<8x16x24xf32>
  %u = linalg.transpose ins(%c : tensor<24x8x32xf32>) outs(%e : tensor<8x32x24xf32>) permutation = [1, 2, 0]
  %n = nn.matmul %a, %u : (tensor<8x16x32xf32>, tensor<8x32x24xf32>) -> tensor<8x16x24xf32>
  return %m, %n : tensor<8x16x24xf32>, tensor<8x16x24xf32>
}

// -----

// Heads that are turned to the front and back cancel around attention, which has them behind rows.
// CHECK-LABEL: func.func @heads(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x64xf32>
// CHECK-NOT: linalg.generic
// CHECK: %[[H:.*]] = tensor.expand_shape %[[X]]
// CHECK-NEXT: %[[E:.*]] = math.exp %[[H]] {{.*}}: tensor<?x?x4x16xf32>
// CHECK-NEXT: %[[A:.*]] = nn.attention %[[E]], %[[H]], %[[H]]
// CHECK-NEXT: tensor.collapse_shape %[[A]]
func.func @heads(%x: tensor<?x?x64xf32> {nn.sizes = ["b", "n", ""]}) -> tensor<?x?x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x64xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?x64xf32>
  %h = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %n, 4, 16] : tensor<?x?x64xf32> into tensor<?x?x4x16xf32>
  %e = tensor.empty(%b, %n) : tensor<?x4x?x16xf32>
  %t = linalg.transpose ins(%h : tensor<?x?x4x16xf32>) outs(%e : tensor<?x4x?x16xf32>) permutation = [0, 2, 1, 3]
  %y = math.exp %t : tensor<?x4x?x16xf32>
  %f = tensor.empty(%b, %n) : tensor<?x?x4x16xf32>
  %q = linalg.transpose ins(%y : tensor<?x4x?x16xf32>) outs(%f : tensor<?x?x4x16xf32>) permutation = [0, 2, 1, 3]
  %a = nn.attention %q, %h, %h {scale = 0.25 : f32} : (tensor<?x?x4x16xf32>, tensor<?x?x4x16xf32>, tensor<?x?x4x16xf32>) -> tensor<?x?x4x16xf32>
  %r = tensor.collapse_shape %a [[0], [1], [2, 3]] : tensor<?x?x4x16xf32> into tensor<?x?x64xf32>
  return %r : tensor<?x?x64xf32>
}

// -----

// A transposition passes a reshape that leaves its groups whole, and none that cuts through them.
// CHECK-LABEL: func.func @reshapes(
// CHECK-SAME: %[[X:.*]]: tensor<64x48x8xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<64x48x8xf32>) outs(%{{.*}} : tensor<8x64x48xf32>)
// CHECK: tensor.collapse_shape %[[X]] {{\[}}[0], [1, 2]] : tensor<64x48x8xf32> into tensor<64x384xf32>
// CHECK-NEXT: math.exp %{{.*}} {layout_why = "linalg.transpose: {{[0-9.]+}} us inside, {{[0-9.]+}} apart"} : tensor<64x384xf32>
// CHECK: tensor.collapse_shape %{{.*}} {{\[}}[0, 1], [2]] : tensor<8x64x48xf32> into tensor<512x48xf32>
func.func @reshapes(%x: tensor<64x48x8xf32>) -> (tensor<64x384xf32>, tensor<512x48xf32>) {
  %e = tensor.empty() : tensor<48x8x64xf32>
  %t = linalg.transpose ins(%x : tensor<64x48x8xf32>) outs(%e : tensor<48x8x64xf32>) permutation = [1, 2, 0]
  %c = tensor.collapse_shape %t [[0, 1], [2]] : tensor<48x8x64xf32> into tensor<384x64xf32>
  %y = math.exp %c : tensor<384x64xf32>
  %f = tensor.empty() : tensor<64x384xf32>
  %r = linalg.transpose ins(%y : tensor<384x64xf32>) outs(%f : tensor<64x384xf32>) permutation = [1, 0]
  %g = tensor.empty() : tensor<8x64x48xf32>
  %u = linalg.transpose ins(%x : tensor<64x48x8xf32>) outs(%g : tensor<8x64x48xf32>) permutation = [2, 0, 1]
  %d = tensor.collapse_shape %u [[0, 1], [2]] : tensor<8x64x48xf32> into tensor<512x48xf32>
  return %r, %d : tensor<64x384xf32>, tensor<512x48xf32>
}

// -----

// Where only dimensions of 1 move, the transposition is a view.
// CHECK-LABEL: func.func @ones(
// CHECK-NOT: linalg.generic
// CHECK: tensor.collapse_shape %{{.*}} {{\[}}[0, 1], [2]] : tensor<?x1x64xf32> into tensor<?x64xf32>
// CHECK: tensor.expand_shape %{{.*}} {{\[}}[0], [1, 2]] {{.*}} : tensor<?x64xf32> into tensor<?x64x1xf32>
func.func @ones(%x: tensor<?x1x64xf32> {nn.sizes = ["n", "", ""]}) -> tensor<?x64x1xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x1x64xf32>
  %e = tensor.empty(%n) : tensor<?x64x1xf32>
  %t = linalg.transpose ins(%x : tensor<?x1x64xf32>) outs(%e : tensor<?x64x1xf32>) permutation = [0, 2, 1]
  return %t : tensor<?x64x1xf32>
}

// -----

// Constants and weights are transposed at compile time, and a number that a body asks its position for is renamed.
// CHECK-LABEL: func.func @compile_time(
// CHECK-DAG: %[[K:.*]] = arith.constant dense<{{\[\[}}1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]> : tensor<3x2xf32>
// CHECK: %[[W:.*]] = nn.weight @weights["w"] : tensor<3x2xf32>
// CHECK: %[[V:.*]] = linalg.transpose ins(%[[W]] : tensor<3x2xf32>) {{.*}} permutation = [1, 0]
// CHECK: return %[[K]], %[[V]]
nn.archive @weights {file = "model.safetensors"}
func.func @compile_time() -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %k = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %w = nn.weight @weights["w"] : tensor<3x2xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%k : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %f = tensor.empty() : tensor<2x3xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<3x2xf32>) outs(%f : tensor<2x3xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<2x3xf32>
  return %t, %u : tensor<3x2xf32>, tensor<2x3xf32>
}

// -----

// CHECK: affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @positions(
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<64x8x48xf32>)
// CHECK: linalg.index 2 : index
// CHECK-NOT: linalg.generic
func.func @positions(%x: tensor<64x8x48xf32>) -> tensor<64x8x48xf32> {
  %e = tensor.empty() : tensor<48x64x8xf32>
  %t = linalg.transpose ins(%x : tensor<64x8x48xf32>) outs(%e : tensor<48x64x8xf32>) permutation = [2, 0, 1]
  %u = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%t : tensor<48x64x8xf32>) outs(%e : tensor<48x64x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %y = arith.addf %v, %k : f32
    linalg.yield %y : f32
  } -> tensor<48x64x8xf32>
  %f = tensor.empty() : tensor<64x8x48xf32>
  %r = linalg.transpose ins(%u : tensor<48x64x8xf32>) outs(%f : tensor<64x8x48xf32>) permutation = [1, 2, 0]
  return %r : tensor<64x8x48xf32>
}

// -----

// A value that is read twice, once behind an op: both ways meet again without a copy.
// CHECK-LABEL: func.func @joins(
// CHECK-SAME: %[[X:.*]]: tensor<64x8x48xf32>
// CHECK-NEXT: %[[E:.*]] = math.exp %[[X]]
// CHECK-NEXT: %[[A:.*]] = arith.addf %[[E]], %[[X]]
// CHECK-NEXT: return %[[A]]
func.func @joins(%x: tensor<64x8x48xf32>) -> tensor<64x8x48xf32> {
  %e = tensor.empty() : tensor<48x64x8xf32>
  %t = linalg.transpose ins(%x : tensor<64x8x48xf32>) outs(%e : tensor<48x64x8xf32>) permutation = [2, 0, 1]
  %y = math.exp %t : tensor<48x64x8xf32>
  %a = arith.addf %y, %t : tensor<48x64x8xf32>
  %f = tensor.empty() : tensor<64x8x48xf32>
  %r = linalg.transpose ins(%a : tensor<48x64x8xf32>) outs(%f : tensor<64x8x48xf32>) permutation = [1, 2, 0]
  return %r : tensor<64x8x48xf32>
}

// -----

// Two ops that need the same other layout share one copy.
// CHECK-LABEL: func.func @shared(
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @shared(%x: tensor<256x384xf32>) -> (tensor<384x256xf32>, tensor<384x256xf32>) {
  %e = tensor.empty() : tensor<384x256xf32>
  %t = linalg.transpose ins(%x : tensor<256x384xf32>) outs(%e : tensor<384x256xf32>) permutation = [1, 0]
  %s = nn.softmax %t : tensor<384x256xf32>
  %u = linalg.transpose ins(%x : tensor<256x384xf32>) outs(%e : tensor<384x256xf32>) permutation = [1, 0]
  %a = math.exp %u : tensor<384x256xf32>
  %r = nn.softmax %a : tensor<384x256xf32>
  return %s, %r : tensor<384x256xf32>, tensor<384x256xf32>
}

// -----

// Sums are made of the tensor as it lies, and what is transposed is what is left of it.
// CHECK-LABEL: func.func @sums(
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<64x8x48xf32>) outs(%{{.*}} : tensor<8x48xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<8x48xf32>) outs(%{{.*}} : tensor<48x8xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @sums(%x: tensor<64x8x48xf32>) -> tensor<48x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x8x64xf32>
  %t = linalg.transpose ins(%x : tensor<64x8x48xf32>) outs(%e : tensor<48x8x64xf32>) permutation = [2, 1, 0]
  %g = tensor.empty() : tensor<48x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%g : tensor<48x8xf32>) -> tensor<48x8xf32>
  %r = linalg.reduce { arith.addf } ins(%t : tensor<48x8x64xf32>) outs(%f : tensor<48x8xf32>) dimensions = [2]
  return %r : tensor<48x8xf32>
}
