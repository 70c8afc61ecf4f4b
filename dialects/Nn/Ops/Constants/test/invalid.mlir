// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{tensor "w" is 'tensor<3xf32>', which has 12 bytes, its resource has 8}}
nn.constants @constants {tensors = {w = dense_resource<w> : tensor<3xf32>}}
{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}

// -----

// expected-error @below {{tensor "w": the resource 'gone' is not in the file}}
nn.constants @constants {tensors = {w = dense_resource<gone> : tensor<3xf32>}}

// -----

// expected-error @below {{tensor "w" is no dense_resource}}
nn.constants @constants {tensors = {w = dense<1.0> : tensor<3xf32>}}

// -----

// expected-error @below {{tensor "w" is 'tensor<4611686018427387904x4xf32>', which archives do not hold}}
nn.constants @constants {tensors = {w = dense_resource<w> : tensor<4611686018427387904x4xf32>}}
{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}

// -----

nn.constants @constants {tensors = {w = dense_resource<w> : tensor<2xf32>}}
func.func @main() -> tensor<3xf32> {
  // expected-error @below {{has type 'tensor<3xf32>', @constants holds "w" as 'tensor<2xf32>'}}
  %w = nn.weight @constants["w"] : tensor<3xf32>
  return %w : tensor<3xf32>
}
{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}

// -----

nn.constants @constants {tensors = {}}
func.func @main() -> tensor<3xf32> {
  // expected-error @below {{@constants holds no tensor "w"}}
  %w = nn.weight @constants["w"] : tensor<3xf32>
  return %w : tensor<3xf32>
}
