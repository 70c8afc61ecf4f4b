// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @two(%x: tensor<?x32xf32> {nn.sizes = ["s0", ""]}, %w: tensor<32x32xf32>) -> (tensor<?x32xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'two': a kernel holds one matmul, convolution, recurrent layer, attention, cache, routing, layer of experts or search for candidates}}
  %1 = nn.linear %0, %w : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  rt.yield %1 : tensor<?x32xf32>
}

// -----

rt.kernel @narrow_panels(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<16>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'narrow_panels': its weight is neither packed in panels of 32 nor a tensor in memory}}
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

rt.kernel @computed_weight(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32>)
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %r = nn.relu %w : tensor<64x40xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'computed_weight': its weight is neither packed in panels of 32 nor a tensor in memory}}
  %0 = nn.linear %x, %r : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

rt.kernel @dynamic_weight(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<?x40xf32> {nn.sizes = ["s1", ""]})
    -> (tensor<?x?xf32> {nn.sizes = ["s0", "s1"]}) attributes {root = #nn.root<linear>, sizes = ["s0", "s1"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'dynamic_weight': its weight has dynamic sizes}}
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<?x40xf32>) -> tensor<?x?xf32>
  rt.yield %0 : tensor<?x?xf32>
}

// -----

// Slices begin at panels.
rt.kernel @uneven_slices(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x24xf32> {nn.sizes = ["s0", ""]}, tensor<?x40xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x40xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'uneven_slices': a result of its kernel is of another shape}}
  %h = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  %a = tensor.extract_slice %h[0, 0] [%n, 24] [1, 1] : tensor<?x64xf32> to tensor<?x24xf32>
  %b = tensor.extract_slice %h[0, 24] [%n, 40] [1, 1] : tensor<?x64xf32> to tensor<?x40xf32>
  rt.yield %a, %b : tensor<?x24xf32>, tensor<?x40xf32>
}

// -----

rt.kernel @other_slices(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32 in 2 slices>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'other_slices': panels of 2 slices of its weight alternate, its result is read in 1}}
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

rt.kernel @two_norms(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32>}, %g: tensor<64xf32>)
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.rms_norm' in kernel 'two_norms': a linear layer takes one norm after it}}
  %1 = nn.rms_norm %0, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  %2 = nn.rms_norm %1, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  rt.yield %2 : tensor<?x64xf32>
}

// -----

// Quantized values in panels of another width, as another device reads them.
// expected-error @below {{'rt.kernel' op argument 1 is laid out as #rt.panels<16, #nn.block_format<i4, f16, 32, axis = 1>>, which the cpu target does not read; let lower-groups-to-kernels choose its layout}}
rt.kernel @narrow_quantized_panels(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x64xf32> {rt.layout = #rt.panels<16, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
