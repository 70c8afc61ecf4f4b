// A cache of f16: rows are appended, then read, by queries of f16.
func.func @main(%q: tensor<?x8x128xf16> {nn.name = "q", nn.sizes = ["tokens", "", ""]},
    %k: tensor<?x2x128xf32> {nn.name = "k", nn.sizes = ["tokens", "", ""]},
    %v: tensor<?x2x128xf32> {nn.name = "v", nn.sizes = ["tokens", "", ""]},
    %p: tensor<?xi64> {nn.name = "p", nn.sizes = ["tokens"]},
    %s: tensor<?xi64> {nn.name = "s", nn.sizes = ["tokens"]},
    %t: tensor<?x?xi64> {nn.name = "t", nn.sizes = ["sequences", "entries"]},
    %z: tensor<8xf32> {nn.name = "z"},
    %keys: tensor<?x2x32x128xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state},
    %values: tensor<?x2x32x128xf16> {nn.name = "values", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x8x128xf16>, tensor<?x2x32x128xf16> {nn.state = 7 : i64},
    tensor<?x2x32x128xf16> {nn.state = 8 : i64}) {
  %keys1 = nn.cache_append(%keys) <keys, f16, page = 32>, %k, %p, %s, %t
      : (tensor<?x2x32x128xf16>, tensor<?x2x128xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>)
    -> (tensor<?x2x32x128xf16>)
  %values1 = nn.cache_append(%values) <values, f16, page = 32>, %v, %p, %s, %t
      : (tensor<?x2x32x128xf16>, tensor<?x2x128xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>)
    -> (tensor<?x2x32x128xf16>)
  %o = nn.cached_attention %q, (%keys1) <keys, f16, page = 32>, (%values1) <values, f16, page = 32>, %p, %s, %t   {scale = 0.15 : f32}
      : (tensor<?x8x128xf16>, tensor<?x2x32x128xf16>, tensor<?x2x32x128xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x8x128xf16>
  return %o, %keys1, %values1 : tensor<?x8x128xf16>, tensor<?x2x32x128xf16>, tensor<?x2x32x128xf16>
}
