// RUN: intarsia-opt %s --target-declare-devices --lower-groups-to-kernels --split-input-file --verify-diagnostics

// A tensor op outside of a group.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{is outside of a group and not prepacked; run the fuse phase first}}
  %r = nn.relu %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Weights that are concatenated along an inner dimension.
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = nn.weight @weights["a"] : tensor<4x2xf32>
  %b = nn.weight @weights["b"] : tensor<4x2xf32>
  // expected-error@+1 {{is outside of a group and not prepacked: weights are concatenated at compile time along their outermost dimension only}}
  %w = tensor.concat dim(1) %a, %b : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %r = nn.group linear(%x0 = %x, %w0 = %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
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
func.func @main(%x: tensor<4xf32>, %n: tensor<1xi64>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %number = tensor.extract %n[%c0] : tensor<1xi64>
  %size = arith.index_cast %number : i64 to index
  %r = tensor.extract_slice %x[0] [%size] [1] : tensor<4xf32> to tensor<?xf32>
  // expected-error@+1 {{a size of the result 'tensor<?xf32>' is not a function of the sizes of the inputs}}
  return %r : tensor<?xf32>
}

// -----

// Elements that have no bytes outside.
// expected-error@+1 {{an argument or result has elements of type 'index', which no call passes}}
func.func @main(%n: tensor<1xindex>) -> tensor<1xindex> {
  return %n : tensor<1xindex>
}

// -----

// A result that nothing computes.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'tensor.empty' op is read, but nothing writes it; fill it with linalg.fill}}
  %e = tensor.empty() : tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

// A quantized weight, transposed and under another shape, concatenated with another weight.
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<9x64xf32>) -> tensor<9x64xf32> {
  %w = nn.weight @weights["w"] : tensor<4x2x64xf32>
  %b = nn.weight @weights["b"] : tensor<1x64xf32>
  %q, %f = nn.quantize %w {format = #nn.block_format<i8, f16, 32, axis = 2>} : (tensor<4x2x64xf32>) -> (tensor<4x2x64xi8>, tensor<4x2x2xf16>)
  %d = nn.dequantize %q, %f {format = #nn.block_format<i8, f16, 32, axis = 2>} : (tensor<4x2x64xi8>, tensor<4x2x2xf16>) -> tensor<4x2x64xf32>
  %empty = tensor.empty() : tensor<2x4x64xf32>
  %t = linalg.transpose ins(%d : tensor<4x2x64xf32>) outs(%empty : tensor<2x4x64xf32>) permutation = [1, 0, 2]
  %flat = tensor.collapse_shape %t [[0, 1], [2]] : tensor<2x4x64xf32> into tensor<8x64xf32>
  // expected-error@+1 {{is outside of a group and not prepacked: a weight that is quantized keeps its rows at compile time, and one that is transposed too its shape}}
  %j = tensor.concat dim(0) %flat, %b : (tensor<8x64xf32>, tensor<1x64xf32>) -> tensor<9x64xf32>
  %r = nn.group rows(%x0 = %x, %w0 = %j) : (tensor<9x64xf32>, tensor<9x64xf32>) -> tensor<9x64xf32> {
    %s = arith.addf %x0, %w0 : tensor<9x64xf32>
    nn.yield %s : tensor<9x64xf32>
  }
  return %r : tensor<9x64xf32>
}

// -----

// Sizes that no call can have.
func.func @main(%x: tensor<?x?xf32> {nn.name = "x", nn.sizes = ["n", "k"]}, %v: tensor<4x8xf32>, %w: tensor<4x9xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %0 = nn.group linear(%x0 = %x, %v0 = %v) : (tensor<?x?xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
    // expected-note@+1 {{'nn.linear' needs k to be 8 (k is dimension 1 of input 'x')}}
    %r = nn.linear %x0, %v0 : (tensor<?x?xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
    nn.yield %r : tensor<?x4xf32>
  }
  %1 = nn.group linear(%x0 = %x, %w0 = %w) : (tensor<?x?xf32>, tensor<4x9xf32>) -> tensor<?x4xf32> {
    // expected-error@+1 {{'nn.linear' needs 8 to be equal to 9, which no call can meet}}
    %r = nn.linear %x0, %w0 : (tensor<?x?xf32>, tensor<4x9xf32>) -> tensor<?x4xf32>
    nn.yield %r : tensor<?x4xf32>
  }
  return %0, %1 : tensor<?x4xf32>, tensor<?x4xf32>
}

// -----

// A limit below what an op needs.
func.func @main(%x: tensor<?xf32> {nn.name = "x", nn.sizes = ["n"]}) -> tensor<8xf32> attributes {nn.size_limits = {n = 7 : i64}} {
  %0 = nn.group rows(%x0 = %x) : (tensor<?xf32>) -> tensor<8xf32> {
    // expected-error@+1 {{'tensor.extract_slice' needs 8 to be at most n, which no call can meet (n is dimension 0 of input 'x')}}
    %s = tensor.extract_slice %x0[0] [8] [1] : tensor<?xf32> to tensor<8xf32>
    nn.yield %s : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

// Sizes that cannot be checked.
func.func @main(%x: tensor<?x8xf32> {nn.sizes = ["a", ""]}, %y: tensor<?x8xf32> {nn.sizes = ["b", ""]}) -> tensor<?x8xf32> {
  %0 = nn.group rows(%x0 = %x, %y0 = %y) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> {
    %c0 = arith.constant 0 : index
    %a = tensor.dim %x0, %c0 : tensor<?x8xf32>
    %b = tensor.dim %y0, %c0 : tensor<?x8xf32>
    %m = arith.minsi %a, %b : index
    // expected-error@+1 {{needs ?1 to be at most a, but a size there ('?') is not a function of the sizes of the inputs and cannot be checked}}
    %s = tensor.extract_slice %x0[0, 0] [%m, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
    %r = arith.addf %y0, %s : tensor<?x8xf32>
    nn.yield %r : tensor<?x8xf32>
  }
  return %0 : tensor<?x8xf32>
}

// -----

// A range that is larger than the table.
func.func @main(%i: tensor<3xi64> {nn.name = "ids", nn.range = array<i64: 0, 10>}, %t: tensor<9x4xf32>) -> tensor<3x4xf32> {
  %0 = nn.group rows(%i0 = %i, %t0 = %t) : (tensor<3xi64>, tensor<9x4xf32>) -> tensor<3x4xf32> {
    // expected-error@+1 {{input 'ids' has nn.range [0, 10), and is an index of the table of 'nn.embedding', which has 9 rows; let the range be inside [0, 9)}}
    %r = nn.embedding %t0, %i0 : (tensor<9x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
    nn.yield %r : tensor<3x4xf32>
  }
  return %0 : tensor<3x4xf32>
}

// -----

// A default outside of the table.
func.func @main(%i: tensor<3xi64> {nn.default = -1 : i64}, %t: tensor<9x4xf32>) -> tensor<3x4xf32> {
  %0 = nn.group rows(%i0 = %i, %t0 = %t) : (tensor<3xi64>, tensor<9x4xf32>) -> tensor<3x4xf32> {
    // expected-error@+1 {{input 'arg0' has nn.default -1, and is an index of the table of 'nn.embedding', which has 9 rows}}
    %r = nn.embedding %t0, %i0 : (tensor<9x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
    nn.yield %r : tensor<3x4xf32>
  }
  return %0 : tensor<3x4xf32>
}

// -----

// Elements that 64 bits cannot count.
func.func @main(%x: tensor<4294967296x?xf32>, %y: tensor<4294967296x4294967296xf32>) -> tensor<4294967296x4294967296xf32> {
  // expected-error@+1 {{has a tensor of type 'tensor<4294967296x4294967296xf32>', whose elements cannot be counted with 64 bits}}
  return %y : tensor<4294967296x4294967296xf32>
}
