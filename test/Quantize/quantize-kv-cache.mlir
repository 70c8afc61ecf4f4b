// RUN: intarsia-opt %s --quantize-kv-cache --split-input-file | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: intarsia-opt %s --quantize-kv-cache=formats=int8,v=bf16 --split-input-file | FileCheck %s --check-prefixes=CHECK,INT8

// A cache of quantized values has more tensors: they follow its elements among arguments and results, and the tail is
// updated behind attention. Ops keep their devices.
// CHECK-LABEL: func.func @step(
// DEFAULT-SAME: %{{.*}}: tensor<?x2x?x64xf16> {nn.name = "keys", nn.sizes = ["pages", "", "slots", ""], nn.state},
// DEFAULT-SAME: %{{.*}}: tensor<?x2x?x64xf16> {nn.name = "v", nn.sizes = ["pages", "", "slots", ""], nn.state}) -> (tensor<?x4x64xf32>,
// DEFAULT-SAME: tensor<?x2x?x64xf16> {nn.name = "keys", nn.state = 5 : i64}, tensor<?x2x?x64xf16> {nn.state = 6 : i64})
// DEFAULT: %[[K:.*]] = nn.cache_append(%{{.*}}) <keys, f16>, %{{.*}} {rt.device = @d} :
// DEFAULT: %[[V:.*]] = nn.cache_append(%{{.*}}) <values, f16>, %{{.*}} :
// DEFAULT: nn.cached_attention %{{.*}}, (%[[K]]) <keys, f16>, (%[[V]]) <values, f16>, %{{.*}}, %{{.*}}, %{{.*}} {rt.device
// DEFAULT-NOT: tail

// INT8-SAME: %[[K:[a-z0-9]*]]: tensor<?x2x?x64xi8> {nn.name = "keys", nn.sizes = ["pages", "", "slots", ""], nn.state},
// INT8-SAME: %[[P:[a-z0-9]*]]: tensor<?x2x2x64xi8> {nn.name = "key_parameters", nn.sizes = ["pages", "", "", ""], nn.state},
// INT8-SAME: %[[T:[a-z0-9]*]]: tensor<?x2x?x64xf16> {nn.name = "key_tail", nn.sizes = ["sequences", "", "slots", ""], nn.state},
// INT8-SAME: %[[V:[a-z0-9]*]]: tensor<?x2x?x64xbf16> {nn.name = "v", nn.sizes = ["pages", "", "slots", ""], nn.state}) -> (tensor<?x4x64xf32>,
// INT8-SAME: tensor<?x2x?x64xi8> {nn.name = "keys", nn.state = 5 : i64}, tensor<?x2x2x64xi8> {nn.name = "key_parameters", nn.state = 6 : i64},
// INT8-SAME: tensor<?x2x?x64xf16> {nn.name = "key_tail", nn.state = 7 : i64}, tensor<?x2x?x64xbf16> {nn.state = 8 : i64})
// INT8: %[[K1:.*]]:2 = nn.cache_append(%[[K]], %[[P]], %[[T]]) <keys, ui8>, %[[ROWS:.*]], %{{.*}}, %{{.*}}, %{{.*}} {rt.device = @d} :
// INT8: %[[V1:.*]] = nn.cache_append(%[[V]]) <values, bf16>,
// INT8: %[[A:.*]] = nn.cached_attention %{{.*}}, (%[[K1]]#0, %[[K1]]#1, %[[T]]) <keys, ui8>, (%[[V1]]) <values, bf16>, %{{.*}}, %{{.*}}, %{{.*}} rows %[[ROWS]] {rt.device
// INT8: %[[T1:.*]] = nn.cache_append(%[[T]]) <keys, ui8>, %[[ROWS]], %{{.*}}, %{{.*}} {rt.device = @d, tail} :
// INT8: return %[[A]], %[[K1]]#0, %[[K1]]#1, %[[T1]], %[[V1]]
rt.device @d {target = #rt.target<"cpu", ["x86-64-v3"]>}
func.func @step(%q: tensor<?x4x64xf32> {nn.sizes = ["tokens", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["tokens", "", ""]},
    %p: tensor<?xi64> {nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.sizes = ["tokens"]}, %t: tensor<?x?xi64> {nn.sizes = ["sequences", "table"]},
    %k: tensor<?x2x?x64xf32> {nn.name = "keys", nn.sizes = ["pages", "", "slots", ""], nn.state},
    %v: tensor<?x2x?x64xf32> {nn.name = "v", nn.sizes = ["pages", "", "slots", ""], nn.state})
    -> (tensor<?x4x64xf32>, tensor<?x2x?x64xf32> {nn.name = "keys", nn.state = 5 : i64}, tensor<?x2x?x64xf32> {nn.state = 6 : i64}) {
  %k1 = nn.cache_append(%k) <keys>, %r, %p, %s, %t {rt.device = @d} : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  %v1 = nn.cache_append(%v) <values>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  %a = nn.cached_attention %q, (%k1) <keys>, (%v1) <values>, %p, %s, %t {rt.device = @d, scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return %a, %k1, %v1 : tensor<?x4x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>
}
