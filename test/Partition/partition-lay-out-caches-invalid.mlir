// RUN: intarsia-opt %s --partition-lay-out-caches --split-input-file --verify-diagnostics

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}
// expected-error@+1 {{caches of 'sizes' share a page table and need pages of one size, which its devices do not agree on; @cpu: kernels of processors read pages of 32 tokens, not of 8: place all ops that use caches on one device}}
func.func @sizes(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x8x64xf16> {nn.state}, %v: tensor<?x2x?x64xf16> {nn.state}) -> (tensor<?x2x8x64xf16> {nn.state = 4 : i64}, tensor<?x2x?x64xf16> {nn.state = 5 : i64}) {
  %a = nn.cache_append(%k) <keys, f16, page = 8>, %r, %p, %s, %t {rt.device = @reference} : (tensor<?x2x8x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x8x64xf16>
  %b = nn.cache_append(%v) <values, f16>, %r, %p, %s, %t {rt.device = @cpu} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf16>
  return %a, %b : tensor<?x2x8x64xf16>, tensor<?x2x?x64xf16>
}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}
func.func @order(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf16> {nn.state, nn.name = "keys"}) -> (tensor<?x2x?x64xf16> {nn.state = 4 : i64}) {
  // expected-error@+1 {{'nn.cache_append' op uses 'keys' on @cpu, another op uses it on @reference, where pages have another order: place all ops that use it on one device}}
  %a = nn.cache_append(%k) <keys, f16>, %r, %p, %s, %t {rt.device = @cpu} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf16>
  %b = nn.cache_append(%a) <keys, f16>, %r, %p, %s, %t {rt.device = @reference} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf16>
  return %b : tensor<?x2x?x64xf16>
}

// -----

func.func @no_device(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf16> {nn.state}) -> (tensor<?x2x?x64xf16> {nn.state = 4 : i64}) {
  // expected-error@+1 {{no rt.device says what is compiled for: declare one, or run target-declare-devices before}}
  %a = nn.cache_append(%k) <keys, f16>, %r, %p, %s, %t : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf16>
  return %a : tensor<?x2x?x64xf16>
}
