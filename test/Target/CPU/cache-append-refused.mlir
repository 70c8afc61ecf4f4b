// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @computed_cache(%c: tensor<?x2x32x40xf16> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x40xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x2x32x40xf16> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  %n = arith.negf %c : tensor<?x2x32x40xf16>
  // expected-error @below {{the cpu target cannot compile 'nn.cache_append' in kernel 'computed_cache': the cache is computed in the same kernel, or is not its one result}}
  %0 = nn.cache_append(%n) <values, f16, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x40xf16>, tensor<?x2x40xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x40xf16>
  rt.yield %0 : tensor<?x2x32x40xf16>
}

// -----

rt.kernel @computed_rows(%c: tensor<?x2x32x40xf16> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x40xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x2x32x40xf16> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  // expected-error @below {{the cpu target cannot compile 'arith.remf' in kernel 'computed_rows': processors have no instruction for the remainder of floats}}
  %n = arith.remf %r, %r : tensor<?x2x40xf32>
  %0 = nn.cache_append(%c) <values, f16, page = 32>, %n, %p, %s, %t : (tensor<?x2x32x40xf16>, tensor<?x2x40xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x40xf16>
  rt.yield %0 : tensor<?x2x32x40xf16>
}

// -----

rt.kernel @computed_tail(%l: tensor<?x2x64x32xf16> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]})
    -> (tensor<?x2x64x32xf16> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1"]} {
  %n = arith.negf %l : tensor<?x2x64x32xf16>
  // expected-error @below {{the cpu target cannot compile 'nn.cache_append' in kernel 'computed_tail': the tail is computed in the same kernel, or is not its one result}}
  %0 = nn.cache_append(%n) <keys, ui4, page = 32, transposed>, %r, %p, %s {tail} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  rt.yield %0 : tensor<?x2x64x32xf16>
}

// -----

rt.kernel @one_result(%c: tensor<?x2x32x32xi8> {nn.sizes = ["s0", "", "", ""]}, %q: tensor<?x2x2x32xi8> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x2x32x32xi8> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.cache_append' in kernel 'one_result': a cache is computed in the same kernel, or its values and parameters are not the kernel's two results}}
  %0, %1 = nn.cache_append(%c, %q) <values, ui4, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>)
  rt.yield %0 : tensor<?x2x32x32xi8>
}

// -----

rt.kernel @small_pages(%c: tensor<?x2x64x16xi8> {nn.sizes = ["s0", "", "", ""]}, %q: tensor<?x2x2x64xi8> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]}, %l: tensor<?x2x64x16xf16> {nn.sizes = ["s2", "", "", ""]})
    -> (tensor<?x2x64x16xi8> {nn.sizes = ["s0", "", "", ""]}, tensor<?x2x2x64xi8> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.cache_append' in kernel 'small_pages': its pages do not have 32 slots, transposed}}
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui8, page = 16, transposed>, %r, %p, %s, %t : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x16xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  rt.yield %0, %1 : tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>
}

// -----

rt.kernel @open(%c: tensor<?x2x?x40xf16> {nn.sizes = ["s0", "", "s4", ""]}, %r: tensor<?x2x40xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x2x?x40xf16> {nn.sizes = ["s0", "", "s4", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3", "s4"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.cache_append' in kernel 'open': its pages have no size yet}}
  %0 = nn.cache_append(%c) <values, f16>, %r, %p, %s, %t : (tensor<?x2x?x40xf16>, tensor<?x2x40xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x40xf16>
  rt.yield %0 : tensor<?x2x?x40xf16>
}

// -----

rt.kernel @rows_of_a_tail(%l: tensor<?x2x32x64xf16> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]})
    -> (tensor<?x2x32x64xf16> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.cache_append' in kernel 'rows_of_a_tail': its tail is not transposed}}
  %0 = nn.cache_append(%l) <keys, ui8, page = 32>, %r, %p, %s {tail} : (tensor<?x2x32x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x32x64xf16>
  rt.yield %0 : tensor<?x2x32x64xf16>
}
