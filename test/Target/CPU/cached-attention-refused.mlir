// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @small_pages(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x16xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x16x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.cached_attention' in kernel 'small_pages': its pages do not have 32 slots}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 16, transposed>, (%v) <values, f16, page = 16>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xf16>, tensor<?x2x16x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}

// -----

rt.kernel @keys_in_rows(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.cached_attention' in kernel 'keys_in_rows': its keys are not transposed, or its values are}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x32x64xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}

// -----

rt.kernel @followed(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.cached_attention' in kernel 'followed': an op stands between it and the kernel's result}}
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  %1 = nn.relu %0 : tensor<?x4x64xf32>
  rt.yield %1 : tensor<?x4x64xf32>
}

// -----

rt.kernel @computed_keys(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %r = nn.relu %k : tensor<?x2x64x32xf16>
  // expected-error @below {{the cpu target cannot compile 'nn.cached_attention' in kernel 'computed_keys': keys or values that are computed in the same kernel}}
  %0 = nn.cached_attention %q, (%r) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}

// -----

// Queries are computed as they are read.
rt.kernel @computed_queries(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  // expected-error @below {{the cpu target cannot compile 'arith.remf' in kernel 'computed_queries': processors have no instruction for the remainder of floats}}
  %a = arith.remf %q, %q : tensor<?x4x64xf32>
  %0 = nn.cached_attention %a, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}
