// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels="spec=x86-64-v4" | FileCheck %s
// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels="spec=x86-64-v3" | FileCheck %s --check-prefix=V3

// A register tile of 8 rows by two vectors, weights read as panels of 32 columns; the activation works on the tile.
// CHECK-LABEL: func.func @linear_run
// CHECK: iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-16: vector.fma
// CHECK: arith.maximumf
// CHECK-LABEL: func.func @linear_plan
// V3-LABEL: func.func @linear_run
// V3: vector.fma {{.*}} : vector<8xf32>
rt.kernel @linear(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %w: tensor<96x64xf32> {rt.layout = #rt.layout<panels, 32>}, %b: tensor<96xf32>)
    -> (tensor<?x96xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w, %b : (tensor<?x64xf32>, tensor<96x64xf32>, tensor<96xf32>) -> tensor<?x96xf32>
  %1 = nn.relu %0 : tensor<?x96xf32>
  rt.yield %1 : tensor<?x96xf32>
}

// -----

// The plan says so if a size in it does not fit in 64 bits, also one that only the run function computes with: the sum
// over what has s0 * s1 elements.
// CHECK-LABEL: func.func @collapsed_plan
// CHECK: %[[PAIR:.*]] = "llvm.intr.smul.with.overflow"
// CHECK: %[[OVERFLOW:.*]] = llvm.extractvalue %[[PAIR]][1]
// CHECK: arith.ori %[[OVERFLOW]], %{{.*}} : i1
// CHECK: scf.if %{{.*}} {
// CHECK: llvm.store %c-1_i64
rt.kernel @collapsed(%x: tensor<?x1xf32> {nn.sizes = ["s0", ""]}, %y: tensor<1x?xf32> {nn.sizes = ["", "s1"]})
    -> tensor<f32> attributes {root = #nn.root<generic>, sizes = ["s0", "s1"]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x1xf32>
  %m = tensor.dim %y, %c1 : tensor<1x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<?x1xf32>, tensor<1x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.mulf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<?x?xf32>
  %f = tensor.collapse_shape %p [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %h = tensor.empty() : tensor<f32>
  %g = linalg.fill ins(%zero : f32) outs(%h : tensor<f32>) -> tensor<f32>
  %r = linalg.reduce ins(%f : tensor<?xf32>) outs(%g : tensor<f32>) dimensions = [0] (%in: f32, %sum: f32) {
    %t = arith.addf %in, %sum : f32
    linalg.yield %t : f32
  }
  rt.yield %r : tensor<f32>
}

// -----

// The norm has tiles of its own, which run when all products are done; the next panel is prefetched meanwhile.
// CHECK-LABEL: func.func @linear_norm_run
// CHECK: arith.cmpi sge
// CHECK: scf.if
// CHECK: vector.reduction <add>
// CHECK: llvm.intr.prefetch
rt.kernel @linear_norm(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %w: tensor<96x64xf32> {rt.layout = #rt.layout<panels, 32>}, %g: tensor<96xf32>)
    -> (tensor<?x96xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x64xf32>, tensor<96x64xf32>) -> tensor<?x96xf32>
  %1 = nn.rms_norm %0, %g {epsilon = 1.0e-6 : f32} : (tensor<?x96xf32>, tensor<96xf32>) -> tensor<?x96xf32>
  rt.yield %1 : tensor<?x96xf32>
}

// -----

// Elementwise: whole vectors, then one by one; nothing is stored in between.
// CHECK-LABEL: func.func @rows_run
// CHECK: llvm.load {{.*}} vector<16xf32>
// CHECK-NOT: llvm.store
// CHECK: llvm.load {{.*}} vector<16xf32>
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: llvm.store {{.*}} vector<16xf32>
// CHECK: llvm.load {{.*}} -> f32
// CHECK-LABEL: func.func @rows_plan
rt.kernel @rows(%x: tensor<?x?xf32> {nn.sizes = ["s0", "s1"]}, %y: tensor<?x?xf32> {nn.sizes = ["s0", "s1"]})
    -> (tensor<?x?xf32> {nn.sizes = ["s0", "s1"]}) attributes {root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  %0 = nn.relu %x : tensor<?x?xf32>
  %1 = arith.addf %0, %y : tensor<?x?xf32>
  rt.yield %1 : tensor<?x?xf32>
}

// -----

// bf16 is widened, but for processors whose vdpbf16ps is faster (see bf16-dot.mlir).
// CHECK-LABEL: func.func @narrow_run
// CHECK: arith.shli {{.*}} : vector<16xi32>
// CHECK: arith.bitcast {{.*}} : vector<16xi32> to vector<16xf32>
// CHECK-NOT: dpbf16ps
rt.kernel @narrow(%x: tensor<?x64xbf16> {nn.sizes = ["s0", ""]}, %w: tensor<32x64xbf16> {rt.layout = #rt.layout<panels, 32>})
    -> (tensor<?x32xbf16> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x64xbf16>, tensor<32x64xbf16>) -> tensor<?x32xbf16>
  rt.yield %0 : tensor<?x32xbf16>
}

// -----

// Gate and up: a tile multiplies a panel of each, and only their product is stored.
// CHECK-LABEL: func.func @gate_up_run
// CHECK: scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK: vector.fma {{.*}} : vector<16xf32>
// CHECK: %[[GATE:.*]] = arith.maximumf {{.*}} : vector<16xf32>
// CHECK: %[[UP:.*]] = llvm.load {{.*}} -> vector<16xf32>
// CHECK-NEXT: %[[PRODUCT:.*]] = arith.mulf %[[GATE]], %[[UP]] : vector<16xf32>
// CHECK: llvm.store %[[PRODUCT]]
rt.kernel @gate_up(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %w: tensor<128x64xf32> {rt.layout = #rt.layout<panels, 32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %h = nn.linear %x, %w : (tensor<?x64xf32>, tensor<128x64xf32>) -> tensor<?x128xf32>
  %g = tensor.extract_slice %h[0, 0] [%n, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %u = tensor.extract_slice %h[0, 64] [%n, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %r = nn.relu %g : tensor<?x64xf32>
  %m = arith.mulf %r, %u : tensor<?x64xf32>
  rt.yield %m : tensor<?x64xf32>
}
