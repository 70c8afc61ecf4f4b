// A cache of bf16 with a window and sinks, read by queries of f32.
func.func @main(%q: tensor<?x8x64xf32> {nn.name = "q", nn.sizes = ["tokens", "", ""]},
    %k: tensor<?x2x64xf32> {nn.name = "k", nn.sizes = ["tokens", "", ""]},
    %v: tensor<?x2x64xf32> {nn.name = "v", nn.sizes = ["tokens", "", ""]},
    %p: tensor<?xi32> {nn.name = "p", nn.sizes = ["tokens"]},
    %s: tensor<?xi32> {nn.name = "s", nn.sizes = ["tokens"]},
    %t: tensor<?x?xi32> {nn.name = "t", nn.sizes = ["sequences", "entries"]},
    %z: tensor<8xf32> {nn.name = "z"},
    %keys: tensor<?x2x32x64xbf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state},
    %values: tensor<?x2x32x64xbf16> {nn.name = "values", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x8x64xf32>, tensor<?x2x32x64xbf16> {nn.state = 7 : i64},
    tensor<?x2x32x64xbf16> {nn.state = 8 : i64}) {
  %keys1 = nn.cache_append(%keys) <keys, bf16, page = 32>, %k, %p, %s, %t
      : (tensor<?x2x32x64xbf16>, tensor<?x2x64xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
    -> (tensor<?x2x32x64xbf16>)
  %values1 = nn.cache_append(%values) <values, bf16, page = 32>, %v, %p, %s, %t
      : (tensor<?x2x32x64xbf16>, tensor<?x2x64xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
    -> (tensor<?x2x32x64xbf16>)
  %o = nn.cached_attention %q, (%keys1) <keys, bf16, page = 32>, (%values1) <values, bf16, page = 32>, %p, %s, %t  sinks %z {scale = 0.15 : f32, window = 40 : i64}
      : (tensor<?x8x64xf32>, tensor<?x2x32x64xbf16>, tensor<?x2x32x64xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>, tensor<8xf32>) -> tensor<?x8x64xf32>
  return %o, %keys1, %values1 : tensor<?x8x64xf32>, tensor<?x2x32x64xbf16>, tensor<?x2x32x64xbf16>
}
