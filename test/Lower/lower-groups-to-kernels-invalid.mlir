// RUN: intarsia-opt %s --lower-groups-to-kernels --split-input-file --verify-diagnostics

// A tensor op outside of a group.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{is outside of a group and not made ahead of time; run the fuse phase first}}
  %r = nn.relu %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Weights that are joined along an inner dimension.
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = nn.weight @weights["a"] : tensor<4x2xf32>
  %b = nn.weight @weights["b"] : tensor<4x2xf32>
  // expected-error@+1 {{is outside of a group and not made ahead of time: weights are joined ahead of time along their outermost dimension only}}
  %w = tensor.concat dim(1) %a, %b : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %r = nn.group "linear"(%x0 = %x, %w0 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    %n = nn.linear %x0, %w0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    nn.yield %n : tensor<4x4xf32>
  }
  return %r : tensor<4x4xf32>
}

// -----

// Arguments that are no tensors.
// expected-error@+1 {{arguments and results of an entry point must be ranked tensors}}
func.func @main(%x: f32) -> tensor<4xf32> {
  %r = arith.constant dense<0.0> : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// More than a straight line.
// expected-error@+1 {{an entry point must have a body of one block}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^next
^next:
  return %x : tensor<4xf32>
}

// -----

// A result whose size depends on data.
func.func @main(%x: tensor<4xf32>, %n: tensor<1xindex>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %size = tensor.extract %n[%c0] : tensor<1xindex>
  %r = tensor.extract_slice %x[0] [%size] [1] : tensor<4xf32> to tensor<?xf32>
  // expected-error@+1 {{a size of the result 'tensor<?xf32>' is not a function of the sizes of the inputs}}
  return %r : tensor<?xf32>
}

// -----

// A result that nothing computes.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'tensor.empty' op is read, but nothing writes it; fill it with linalg.fill}}
  %e = tensor.empty() : tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

// A transposed weight under another shape, joined with another weight.
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<36xf32>) -> tensor<36xf32> {
  %w = nn.weight @weights["w"] : tensor<4x6xf32>
  %b = nn.weight @weights["b"] : tensor<12xf32>
  %empty = tensor.empty() : tensor<6x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x6xf32>) outs(%empty : tensor<6x4xf32>) permutation = [1, 0]
  %flat = tensor.collapse_shape %t [[0, 1]] : tensor<6x4xf32> into tensor<24xf32>
  // expected-error@+1 {{is outside of a group and not made ahead of time: a weight that is transposed ahead of time keeps its shape}}
  %j = tensor.concat dim(0) %flat, %b : (tensor<24xf32>, tensor<12xf32>) -> tensor<36xf32>
  %r = nn.group "rows"(%x0 = %x, %w0 = %j) : (tensor<36xf32>, tensor<36xf32>) -> tensor<36xf32> {
    %s = arith.addf %x0, %w0 : tensor<36xf32>
    nn.yield %s : tensor<36xf32>
  }
  return %r : tensor<36xf32>
}
