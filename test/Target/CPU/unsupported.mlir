// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @power(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'arith.remf' in kernel 'power': processors have no instruction for the remainder of floats}}
  %0 = arith.remf %x, %x : tensor<?xf32>
  rt.yield %0 : tensor<?xf32>
}

// -----

// Polynomials of vector math are for f32.
rt.kernel @wide(%x: tensor<4xf64>) -> (tensor<4xf64>) attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'math.exp' in kernel 'wide': its polynomials are for f32; cast to f32 before it and back after it}}
  %0 = math.exp %x : tensor<4xf64>
  rt.yield %0 : tensor<4xf64>
}

// -----

rt.kernel @inverse_root(%x: tensor<4xf64>) -> (tensor<4xf64>) attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'math.rsqrt' in kernel 'inverse_root': its polynomials are for f32}}
  %0 = math.rsqrt %x : tensor<4xf64>
  rt.yield %0 : tensor<4xf64>
}

// -----

rt.kernel @narrow(%x: tensor<4xf64>) -> (tensor<4xf16>) attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'arith.truncf' in kernel 'narrow': processors have no instruction from f64 to floats narrower than f32; cast to f32 first, which rounds a second time}}
  %0 = arith.truncf %x : tensor<4xf64> to tensor<4xf16>
  rt.yield %0 : tensor<4xf16>
}

// -----

rt.kernel @remainder(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'arith.remf' in kernel 'remainder': processors have no instruction for the remainder of floats}}
  %0 = arith.remf %x, %x : tensor<4xf32>
  rt.yield %0 : tensor<4xf32>
}

// -----

// Square roots are an instruction in any precision.
rt.kernel @root(%x: tensor<4xf64>) -> (tensor<4xf64>) attributes {root = #nn.root<rows>, sizes = []} {
  %0 = math.sqrt %x : tensor<4xf64>
  rt.yield %0 : tensor<4xf64>
}

// -----

rt.kernel @more_than_routing(%l: tensor<?x8xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x2xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<route>, sizes = ["s0"]} {
  // expected-error@+1 {{the cpu target cannot compile 'nn.route' in kernel 'more_than_routing': an op stands between it and the kernel's result}}
  %i, %w = nn.route %l {top_k = 2 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %0 = nn.relu %w : tensor<?x2xf32>
  rt.yield %0 : tensor<?x2xf32>
}

// -----

rt.kernel @quantized(%x: tensor<4x64xf32>, %i: tensor<4x2xi32>, %w: tensor<4x2xf32>, %g: tensor<8x2x96x64xf32>, %d: tensor<8x64x96xf32>)
    -> (tensor<4x64xf32>) attributes {root = #nn.root<experts>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'nn.experts' in kernel 'quantized': its intermediate rows are quantized, which needs 8 bits in blocks of 32 and down stored quantized}}
  %0 = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<4x64xf32>, tensor<4x2xi32>, tensor<4x2xf32>, tensor<8x2x96x64xf32>, tensor<8x64x96xf32>) -> tensor<4x64xf32>
  rt.yield %0 : tensor<4x64xf32>
}

// -----

rt.kernel @slices(%x: tensor<4x64xf32>, %w: tensor<64x64xf32> {rt.layout = #rt.panels<32 in 2 slices>}) -> (tensor<4x64xf32>) attributes {root = #nn.root<linear>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'slices': panels of 2 slices of its weight alternate, its result is read in 1}}
  %0 = nn.linear %x, %w : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  rt.yield %0 : tensor<4x64xf32>
}
