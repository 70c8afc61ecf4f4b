// RUN: intarsia-opt %s --target-declare-devices --fuse-wrap-remaining --verify-diagnostics --split-input-file

func.func @no_kernel(%x: tensor<4x8xf32>) -> tensor<8x12xf32> {
  // expected-error @below {{no kernel computes 'tensor.pad' of 'fuse-wrap-remaining-invalid.mlir:5'; kernels are built around nn.linear}}
  %p = tensor.pad %x low[2, 2] high[2, 2] {
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0.0 : f32
    tensor.yield %zero : f32
  } : tensor<4x8xf32> to tensor<8x12xf32>
  return %p : tensor<8x12xf32>
}

// -----

func.func @scalar_from_tensor(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  // expected-error @below {{no kernel computes 'tensor.extract'}}
  %s = tensor.extract %c[] : tensor<i1>
  %y = arith.negf %x : tensor<4xf32>
  // expected-error @below {{a scalar operand is computed from tensors}}
  %r = arith.select %s, %x, %y : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @nothing_written(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'func.return' reads a 'tensor.empty' of 'fuse-wrap-remaining-invalid.mlir:28', whose elements nothing has written; fill it with linalg.fill}}
  %e = tensor.empty() : tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

func.func @filled_with_data(%x: tensor<f32>) -> tensor<4xf32> {
  // expected-error @below {{no kernel computes 'tensor.extract'}}
  %v = tensor.extract %x[] : tensor<f32>
  // expected-error @below {{no kernel computes 'tensor.splat' of 'fuse-wrap-remaining-invalid.mlir:}}
  %s = tensor.splat %v : tensor<4xf32>
  return %s : tensor<4xf32>
}
