// RUN: intarsia-opt %s --target-declare-devices --fuse-elementwise --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // CHECK: nn.group rows{{.*}} {{[{]$}}
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: nn.silu
  // CHECK-NEXT: nn.softmax
  // CHECK-NEXT: math.sqrt
  // CHECK-NEXT: nn.yield
  %m = arith.mulf %x, %y : tensor<?x64xf32>
  %s = nn.silu %m : tensor<?x64xf32>
  %p = nn.softmax %s : tensor<?x64xf32>
  %r = math.sqrt %p : tensor<?x64xf32>
  return %r : tensor<?x64xf32>
}

// -----

// Each head's part of a row is normalised for itself, then gated: one kernel over rows.
// CHECK-LABEL: func.func @gated_groups
func.func @gated_groups(%x: tensor<?x64xf32>, %gate: tensor<?x64xf32>, %g: tensor<64xf32>) -> tensor<?x64xf32> {
  // CHECK: nn.group rows{{.*}} {{[{]$}}
  // CHECK-NEXT: nn.silu
  // CHECK-NEXT: nn.group_norm
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: nn.yield
  %s = nn.silu %gate : tensor<?x64xf32>
  %n = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  %y = arith.mulf %n, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

#full = affine_map<(b, s, h) -> (b, s, h)>
#token = affine_map<(b, s, h) -> (b, s)>
#pooled = affine_map<(b, s, h) -> (b, h)>

// The masked states are elementwise over the sum's iteration space; the scaling is elementwise over its result.
// CHECK-LABEL: func.func @masked_sum
func.func @masked_sum(%x: tensor<2x8x64xf32>, %mask: tensor<2x8xf32>) -> tensor<2x64xf32> {
  // CHECK: nn.group generic
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]
  // CHECK: linalg.fill
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel"]
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : tensor<2x64xf32>
  // CHECK: nn.yield %{{[^,]*}} : tensor<2x64xf32>
  %zero = arith.constant 0.0 : f32
  %eighth = arith.constant dense<0.125> : tensor<2x64xf32>
  %e = tensor.empty() : tensor<2x8x64xf32>
  %masked = linalg.generic {indexing_maps = [#full, #token, #full], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %mask : tensor<2x8x64xf32>, tensor<2x8xf32>) outs(%e : tensor<2x8x64xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<2x8x64xf32>
  %i = tensor.empty() : tensor<2x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<2x64xf32>) -> tensor<2x64xf32>
  %sum = linalg.generic {indexing_maps = [#full, #pooled], iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%masked : tensor<2x8x64xf32>) outs(%f : tensor<2x64xf32>) {
  ^bb0(%a: f32, %out: f32):
    %p = arith.addf %a, %out : f32
    linalg.yield %p : f32
  } -> tensor<2x64xf32>
  %mean = arith.mulf %sum, %eighth : tensor<2x64xf32>
  return %mean : tensor<2x64xf32>
}

// -----

// What two chains read is computed once, not in both.
// CHECK-LABEL: func.func @shared_producer
func.func @shared_producer(%x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) {
  // CHECK-COUNT-1: math.exp
  // CHECK-NOT: math.exp
  %e = math.exp %x : tensor<?x64xf32>
  %a = nn.softmax %e : tensor<?x64xf32>
  %b = nn.relu %e : tensor<?x64xf32>
  %c = nn.tanh %e : tensor<?x64xf32>
  return %a, %b, %c : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
}

// -----

// Other rows, another kernel: a transposition in between does not join.
// CHECK-LABEL: func.func @transposition
func.func @transposition(%x: tensor<8x64xf32>) -> tensor<64x8xf32> {
  // CHECK-NOT: nn.group
  %r = nn.relu %x : tensor<8x64xf32>
  %e = tensor.empty() : tensor<64x8xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%r : tensor<8x64xf32>) outs(%e : tensor<64x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<64x8xf32>
  return %t : tensor<64x8xf32>
}

// -----

#full = affine_map<(b, s, h) -> (b, s, h)>
#feature = affine_map<(b, s, h) -> (h)>
#row = affine_map<(b, s, h) -> (s, h)>

// A first token before the patches, positions added to all, normalised: one pass over the rows, two results.
// CHECK-LABEL: func.func @first_token_and_positions
func.func @first_token_and_positions(%patches: tensor<2x8x64xf32>, %token: tensor<64xf32>, %positions: tensor<9x64xf32>,
                                     %scale: tensor<64xf32>) -> (tensor<2x9x64xf32>, tensor<2x9x64xf32>) {
  // CHECK: %[[R:.*]]:2 = nn.group rows
  // CHECK: linalg.generic
  // CHECK: tensor.concat dim(1)
  // CHECK: linalg.generic
  // CHECK: nn.rms_norm
  // CHECK: return %[[R]]#0, %[[R]]#1
  %e1 = tensor.empty() : tensor<2x1x64xf32>
  %first = linalg.generic {indexing_maps = [#feature, #full], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%token : tensor<64xf32>) outs(%e1 : tensor<2x1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x1x64xf32>
  %all = tensor.concat dim(1) %first, %patches : (tensor<2x1x64xf32>, tensor<2x8x64xf32>) -> tensor<2x9x64xf32>
  %e2 = tensor.empty() : tensor<2x9x64xf32>
  %sum = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%all, %positions : tensor<2x9x64xf32>, tensor<9x64xf32>) outs(%e2 : tensor<2x9x64xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %p = arith.addf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<2x9x64xf32>
  %n = nn.rms_norm %sum, %scale {epsilon = 1.0e-6 : f32} : (tensor<2x9x64xf32>, tensor<64xf32>) -> tensor<2x9x64xf32>
  return %sum, %n : tensor<2x9x64xf32>, tensor<2x9x64xf32>
}

// -----

#all = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>
#one = affine_map<(a) -> (a)>

// A norm that is written out: sums of rows, what is computed once for each row, and the rows themselves.
// CHECK-LABEL: func.func @norm
// CHECK: nn.group rows
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: nn.group
// CHECK: return
func.func @norm(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x64xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %q = arith.mulf %v, %v : f32
    %r = arith.addf %q, %o : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %i = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%s : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.rsqrt %v : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %g = tensor.empty(%n) : tensor<?x64xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %i : tensor<?x64xf32>, tensor<?xf32>) outs(%g : tensor<?x64xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

#all = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>
#column = affine_map<(a, b) -> (b)>

// Sums of rows that are read at columns are another kernel's, and so are sums that are a result too.
// CHECK-LABEL: func.func @columns
// CHECK: nn.group generic
// CHECK: nn.group rows
// CHECK: return
func.func @columns(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %h = math.absf %x : tensor<64x64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<64x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %g = tensor.empty() : tensor<64x64xf32>
  %y = linalg.generic {indexing_maps = [#all, #column, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x64xf32>, tensor<64xf32>) outs(%g : tensor<64x64xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64x64xf32>
  %z = math.absf %y : tensor<64x64xf32>
  return %z : tensor<64x64xf32>
}

// -----

#all = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>

// CHECK-LABEL: func.func @also_a_result
// CHECK-NOT: nn.group
// CHECK: return
func.func @also_a_result(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %g = tensor.empty() : tensor<64x64xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x64xf32>, tensor<64xf32>) outs(%g : tensor<64x64xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64x64xf32>
  return %y, %s : tensor<64x64xf32>, tensor<64xf32>
}

// -----

// A tensor that is padded along two dimensions is put together by one kernel; weights are put together when they are
// packed.
// CHECK-LABEL: func.func @padded
// CHECK: nn.group rows
// CHECK-COUNT-2: tensor.concat
// CHECK-NOT: nn.group
// CHECK: return
func.func @padded(%x: tensor<8x64x32xf32>) -> tensor<8x66x34xf32> {
  %zero = arith.constant 0.0 : f32
  %a = tensor.empty() : tensor<8x1x32xf32>
  %b = tensor.empty() : tensor<8x66x1xf32>
  %row = linalg.fill ins(%zero : f32) outs(%a : tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  %column = linalg.fill ins(%zero : f32) outs(%b : tensor<8x66x1xf32>) -> tensor<8x66x1xf32>
  %rows = tensor.concat dim(1) %row, %x, %row : (tensor<8x1x32xf32>, tensor<8x64x32xf32>, tensor<8x1x32xf32>) -> tensor<8x66x32xf32>
  %y = tensor.concat dim(2) %column, %rows, %column : (tensor<8x66x1xf32>, tensor<8x66x32xf32>, tensor<8x66x1xf32>) -> tensor<8x66x34xf32>
  return %y : tensor<8x66x34xf32>
}
