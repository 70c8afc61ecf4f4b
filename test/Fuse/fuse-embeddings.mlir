// RUN: intarsia-opt %s --target-declare-devices --fuse-embeddings --split-input-file | FileCheck %s

nn.archive @weights {file = "model.safetensors"}

#full = affine_map<(a, b, c) -> (a, b, c)>
#row = affine_map<(a, b, c) -> (b, c)>

// Words, types and the first positions of a table, summed and normalised, in one group.
// CHECK-LABEL: func.func @sum_and_norm
func.func @sum_and_norm(%ids: tensor<?x?xi64> {nn.sizes = ["batch", "sequence"]},
                        %types: tensor<?x?xi64> {nn.sizes = ["batch", "sequence"]}) -> tensor<?x?x64xf32> {
  // CHECK: %[[POSITIONS:.*]] = nn.weight @weights["positions"]
  // CHECK: %[[R:.*]] = nn.group rows({{.*}} = %[[POSITIONS]]
  // CHECK-DAG: nn.embedding
  // CHECK-DAG: nn.embedding
  // CHECK-DAG: tensor.extract_slice
  // CHECK-DAG: arith.addf %{{.*}}, %{{.*}} : tensor<?x?x64xf32>
  // CHECK-DAG: linalg.generic
  // CHECK: nn.layer_norm
  // CHECK-NEXT: nn.yield
  // CHECK-NOT: nn.group
  // CHECK: return %[[R]]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c0 : tensor<?x?xi64>
  %s = tensor.dim %ids, %c1 : tensor<?x?xi64>
  %words = nn.weight @weights["words"] : tensor<1000x64xf32>
  %kinds = nn.weight @weights["types"] : tensor<2x64xf32>
  %positions = nn.weight @weights["positions"] : tensor<512x64xf32>
  %g = nn.weight @weights["scale"] : tensor<64xf32>
  %w = nn.embedding %words, %ids : (tensor<1000x64xf32>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
  %t = nn.embedding %kinds, %types : (tensor<2x64xf32>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
  %p = tensor.extract_slice %positions[0, 0] [%s, 64] [1, 1] : tensor<512x64xf32> to tensor<?x64xf32>
  %sum = arith.addf %w, %t : tensor<?x?x64xf32>
  %e = tensor.empty(%n, %s) : tensor<?x?x64xf32>
  %all = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sum, %p : tensor<?x?x64xf32>, tensor<?x64xf32>) outs(%e : tensor<?x?x64xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %q = arith.addf %a, %b : f32
    linalg.yield %q : f32
  } -> tensor<?x?x64xf32>
  %r = nn.layer_norm %all, %g {epsilon = 1.0e-12 : f32} : (tensor<?x?x64xf32>, tensor<64xf32>) -> tensor<?x?x64xf32>
  return %r : tensor<?x?x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// A second norm would need the first one's whole row: it stays apart. So does a linear.
// CHECK-LABEL: func.func @one_norm_only
func.func @one_norm_only(%ids: tensor<?xi64>) -> tensor<?x64xf32> {
  // CHECK: nn.group rows
  // CHECK: nn.embedding
  // CHECK-NEXT: nn.rms_norm
  // CHECK-NEXT: nn.yield
  // CHECK: nn.rms_norm
  // CHECK: nn.linear
  %words = nn.weight @weights["words"] : tensor<1000x64xf32>
  %g = nn.weight @weights["scale"] : tensor<64xf32>
  %w = nn.weight @weights["w"] : tensor<64x64xf32>
  %e = nn.embedding %words, %ids : (tensor<1000x64xf32>, tensor<?xi64>) -> tensor<?x64xf32>
  %n = nn.rms_norm %e, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  %m = nn.rms_norm %n, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  %l = nn.linear %m, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %l : tensor<?x64xf32>
}
