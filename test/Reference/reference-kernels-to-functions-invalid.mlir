// RUN: intarsia-opt %s --reference-kernels-to-functions --split-input-file --verify-diagnostics

// Lines of quantized values hold 16 rows.
// expected-error@+1 {{'rt.kernel' op argument 1 of type 'tensor<40x64xf32>' is laid out as #rt.panels<12, #nn.block_format<i4, f16, 32, axis = 1>>, which the reference cannot read}}
rt.kernel @narrow(%x: tensor<4x64xf32>, %w: tensor<40x64xf32> {rt.layout = #rt.panels<12, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> tensor<4x40xf32> attributes {root = #nn.root<linear>, sizes = []} {
  %r = nn.linear %x, %w : (tensor<4x64xf32>, tensor<40x64xf32>) -> tensor<4x40xf32>
  rt.yield %r : tensor<4x40xf32>
}

// -----

// No panels hold values of NF4.
// expected-error@+1 {{which the reference cannot read}}
rt.kernel @format(%x: tensor<4x64xf32>, %w: tensor<40x64xf32> {rt.layout = #rt.panels<32, #nn.block_format<nf4, f16, 64, axis = 1>>})
    -> tensor<4x40xf32> attributes {root = #nn.root<linear>, sizes = []} {
  %r = nn.linear %x, %w : (tensor<4x64xf32>, tensor<40x64xf32>) -> tensor<4x40xf32>
  rt.yield %r : tensor<4x40xf32>
}
