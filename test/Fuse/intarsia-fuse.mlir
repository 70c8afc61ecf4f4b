// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --intarsia-fuse | FileCheck %s

// One layer of BERT with its embeddings and pooler: eight kernels, each op in one of them.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = nn.group rows
// CHECK-COUNT-2: nn.embedding
// CHECK: nn.layer_norm
// CHECK: %[[MASK:.*]] = nn.group rows{{.*}} -> tensor<?x1x1x?xi1>
// CHECK: arith.cmpi
// CHECK: %[[QKV:.*]] = nn.group linear(%{{.*}} = %[[X]],{{.*}} -> tensor<?x?x1152xf32>
// CHECK: %[[A:.*]] = nn.group attention(%{{.*}} = %[[QKV]], %{{.*}} = %[[MASK]]){{.*}} -> tensor<?x?x384xf32>
// CHECK: %[[N:.*]] = nn.group linear(%{{.*}} = %[[A]], {{.*}} = %[[X]],{{.*}} -> tensor<?x?x384xf32>
// CHECK: arith.addf
// CHECK-NEXT: nn.layer_norm
// CHECK: %[[I:.*]] = nn.group linear(%{{.*}} = %[[N]],{{.*}} -> tensor<?x?x1536xf32>
// CHECK: nn.gelu
// CHECK: %[[O:.*]] = nn.group linear(%{{.*}} = %[[I]],{{.*}} = %[[N]],{{.*}} -> tensor<?x?x384xf32>
// CHECK: arith.addf
// CHECK-NEXT: nn.layer_norm
// CHECK: %[[P:.*]] = nn.group linear(%{{.*}} = %[[O]],{{.*}} -> tensor<?x384xf32>
// CHECK: tensor.extract_slice
// CHECK: nn.tanh
// CHECK-NOT: nn.group
// CHECK: return %[[O]], %[[P]]

nn.archive @w {file = "model.safetensors"}
func.func @main(%ids: tensor<?x?xi64> {nn.name="input_ids", nn.sizes=["batch","sequence"]}, %am: tensor<?x?xi64> {nn.name="attention_mask", nn.sizes=["batch","sequence"]}, %tt: tensor<?x?xi64> {nn.name="token_type_ids", nn.sizes=["batch","sequence"]}) -> (tensor<?x?x384xf32>, tensor<?x384xf32>) attributes {nn.size_limits={sequence=512:i64}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %ids, %c0 : tensor<?x?xi64>
  %s = tensor.dim %ids, %c1 : tensor<?x?xi64>
  %w1 = nn.weight @w["embeddings.word_embeddings.weight"] : tensor<30522x384xf32> loc("embeddings.word_embeddings.weight")
  %v2 = nn.embedding %w1, %ids : (tensor<30522x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32> loc("embeddings.word_embeddings")
  %w3 = nn.weight @w["embeddings.token_type_embeddings.weight"] : tensor<2x384xf32> loc("embeddings.token_type_embeddings.weight")
  %v4 = nn.embedding %w3, %tt : (tensor<2x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32> loc("embeddings.token_type_embeddings")
  %w5 = nn.weight @w["embeddings.position_embeddings.weight"] : tensor<512x384xf32> loc("embeddings.position_embeddings.weight")
  %v6 = tensor.extract_slice %w5[0,0][%s,384][1,1] : tensor<512x384xf32> to tensor<?x384xf32> loc("embeddings.position_embeddings")
  %v7 = arith.addf %v2, %v4 : tensor<?x?x384xf32> loc("embeddings")
  %v8 = tensor.empty(%b,%s) : tensor<?x?x384xf32> loc("embeddings")
  %v9 = linalg.generic {indexing_maps=[affine_map<(a,b,c)->(a,b,c)>,affine_map<(a,b,c)->(b,c)>,affine_map<(a,b,c)->(a,b,c)>], iterator_types=["parallel","parallel","parallel"]} ins(%v7,%v6: tensor<?x?x384xf32>, tensor<?x384xf32>) outs(%v8: tensor<?x?x384xf32>) { ^bb0(%x: f32, %y: f32, %z: f32): %q = arith.addf %x, %y : f32 linalg.yield %q : f32 } -> tensor<?x?x384xf32> loc("embeddings")
  %w10 = nn.weight @w["embeddings.LayerNorm.weight"] : tensor<384xf32> loc("embeddings.LayerNorm.weight")
  %w11 = nn.weight @w["embeddings.LayerNorm.bias"] : tensor<384xf32> loc("embeddings.LayerNorm.bias")
  %v12 = nn.layer_norm %v9, %w10, %w11 {epsilon=1.0e-12:f32} : (tensor<?x?x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("embeddings.LayerNorm")
  %em4 = tensor.empty(%b,%s) : tensor<?x1x1x?xi1>
  %v13 = linalg.generic {indexing_maps=[affine_map<(a,b,c,d)->(a,d)>,affine_map<(a,b,c,d)->(a,b,c,d)>], iterator_types=["parallel","parallel","parallel","parallel"]} ins(%am: tensor<?x?xi64>) outs(%em4: tensor<?x1x1x?xi1>) { ^bb0(%x: i64, %z: i1): %k = arith.constant 0 : i64 %q = arith.cmpi ne, %x, %k : i64 linalg.yield %q : i1 } -> tensor<?x1x1x?xi1> loc("attention_mask")
  %w14 = nn.weight @w["encoder.layer.0.attention.self.query.weight"] : tensor<384x384xf32> loc("encoder.layer.0.attention.self.query.weight")
  %w15 = nn.weight @w["encoder.layer.0.attention.self.query.bias"] : tensor<384xf32> loc("encoder.layer.0.attention.self.query.bias")
  %v16 = nn.linear %v12, %w14, %w15 : (tensor<?x?x384xf32>, tensor<384x384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("encoder.layer.0.attention.self.query")
  %w17 = nn.weight @w["encoder.layer.0.attention.self.key.weight"] : tensor<384x384xf32> loc("encoder.layer.0.attention.self.key.weight")
  %w18 = nn.weight @w["encoder.layer.0.attention.self.key.bias"] : tensor<384xf32> loc("encoder.layer.0.attention.self.key.bias")
  %v19 = nn.linear %v12, %w17, %w18 : (tensor<?x?x384xf32>, tensor<384x384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("encoder.layer.0.attention.self.key")
  %w20 = nn.weight @w["encoder.layer.0.attention.self.value.weight"] : tensor<384x384xf32> loc("encoder.layer.0.attention.self.value.weight")
  %w21 = nn.weight @w["encoder.layer.0.attention.self.value.bias"] : tensor<384xf32> loc("encoder.layer.0.attention.self.value.bias")
  %v22 = nn.linear %v12, %w20, %w21 : (tensor<?x?x384xf32>, tensor<384x384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("encoder.layer.0.attention.self.value")
  %v23 = tensor.expand_shape %v16 [[0],[1],[2,3]] output_shape [%b,%s,12,32] : tensor<?x?x384xf32> into tensor<?x?x12x32xf32> loc("encoder.layer.0.attention.self")
  %v24 = tensor.expand_shape %v19 [[0],[1],[2,3]] output_shape [%b,%s,12,32] : tensor<?x?x384xf32> into tensor<?x?x12x32xf32> loc("encoder.layer.0.attention.self")
  %v25 = tensor.expand_shape %v22 [[0],[1],[2,3]] output_shape [%b,%s,12,32] : tensor<?x?x384xf32> into tensor<?x?x12x32xf32> loc("encoder.layer.0.attention.self")
  %v26 = nn.attention %v23, %v24, %v25 mask %v13 {scale=0.17:f32} : (tensor<?x?x12x32xf32>,tensor<?x?x12x32xf32>,tensor<?x?x12x32xf32>,tensor<?x1x1x?xi1>) -> tensor<?x?x12x32xf32> loc("encoder.layer.0.attention.self")
  %v27 = tensor.collapse_shape %v26 [[0],[1],[2,3]] : tensor<?x?x12x32xf32> into tensor<?x?x384xf32> loc("encoder.layer.0.attention.self")
  %w28 = nn.weight @w["encoder.layer.0.attention.output.dense.weight"] : tensor<384x384xf32> loc("encoder.layer.0.attention.output.dense.weight")
  %w29 = nn.weight @w["encoder.layer.0.attention.output.dense.bias"] : tensor<384xf32> loc("encoder.layer.0.attention.output.dense.bias")
  %v30 = nn.linear %v27, %w28, %w29 : (tensor<?x?x384xf32>, tensor<384x384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("encoder.layer.0.attention.output.dense")
  %v31 = arith.addf %v30, %v12 : tensor<?x?x384xf32> loc("encoder.layer.0.attention.output")
  %w32 = nn.weight @w["encoder.layer.0.attention.output.LayerNorm.weight"] : tensor<384xf32> loc("encoder.layer.0.attention.output.LayerNorm.weight")
  %w33 = nn.weight @w["encoder.layer.0.attention.output.LayerNorm.bias"] : tensor<384xf32> loc("encoder.layer.0.attention.output.LayerNorm.bias")
  %v34 = nn.layer_norm %v31, %w32, %w33 {epsilon=1.0e-12:f32} : (tensor<?x?x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("encoder.layer.0.attention.output.LayerNorm")
  %w35 = nn.weight @w["encoder.layer.0.intermediate.dense.weight"] : tensor<1536x384xf32> loc("encoder.layer.0.intermediate.dense.weight")
  %w36 = nn.weight @w["encoder.layer.0.intermediate.dense.bias"] : tensor<1536xf32> loc("encoder.layer.0.intermediate.dense.bias")
  %v37 = nn.linear %v34, %w35, %w36 : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32> loc("encoder.layer.0.intermediate.dense")
  %v38 = nn.gelu %v37 {form=#nn.gelu_form<erf>} : tensor<?x?x1536xf32> loc("encoder.layer.0.intermediate")
  %w39 = nn.weight @w["encoder.layer.0.output.dense.weight"] : tensor<384x1536xf32> loc("encoder.layer.0.output.dense.weight")
  %w40 = nn.weight @w["encoder.layer.0.output.dense.bias"] : tensor<384xf32> loc("encoder.layer.0.output.dense.bias")
  %v41 = nn.linear %v38, %w39, %w40 : (tensor<?x?x1536xf32>, tensor<384x1536xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("encoder.layer.0.output.dense")
  %v42 = arith.addf %v41, %v34 : tensor<?x?x384xf32> loc("encoder.layer.0.output")
  %w43 = nn.weight @w["encoder.layer.0.output.LayerNorm.weight"] : tensor<384xf32> loc("encoder.layer.0.output.LayerNorm.weight")
  %w44 = nn.weight @w["encoder.layer.0.output.LayerNorm.bias"] : tensor<384xf32> loc("encoder.layer.0.output.LayerNorm.bias")
  %v45 = nn.layer_norm %v42, %w43, %w44 {epsilon=1.0e-12:f32} : (tensor<?x?x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("encoder.layer.0.output.LayerNorm")
  %v46 = tensor.extract_slice %v45[0,0,0][%b,1,384][1,1,1] : tensor<?x?x384xf32> to tensor<?x384xf32> loc("pooler")
  %w47 = nn.weight @w["pooler.dense.weight"] : tensor<384x384xf32> loc("pooler.dense.weight")
  %w48 = nn.weight @w["pooler.dense.bias"] : tensor<384xf32> loc("pooler.dense.bias")
  %v49 = nn.linear %v46, %w47, %w48 : (tensor<?x384xf32>, tensor<384x384xf32>, tensor<384xf32>) -> tensor<?x384xf32> loc("pooler.dense")
  %v50 = nn.tanh %v49 : tensor<?x384xf32> loc("pooler")
  return %v45, %v50 : tensor<?x?x384xf32>, tensor<?x384xf32>
}
