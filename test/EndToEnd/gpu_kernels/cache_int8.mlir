// A cache of int8, whose last page is kept in f16.
func.func @main(%q: tensor<?x8x128xf32> {nn.name = "q", nn.sizes = ["tokens", "", ""]},
    %k: tensor<?x2x128xf32> {nn.name = "k", nn.sizes = ["tokens", "", ""]},
    %v: tensor<?x2x128xf32> {nn.name = "v", nn.sizes = ["tokens", "", ""]},
    %p: tensor<?xi64> {nn.name = "p", nn.sizes = ["tokens"]},
    %s: tensor<?xi64> {nn.name = "s", nn.sizes = ["tokens"]},
    %t: tensor<?x?xi64> {nn.name = "t", nn.sizes = ["sequences", "entries"]},
    %z: tensor<8xf32> {nn.name = "z"},
    %keys: tensor<?x2x32x128xi8> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state},
    %keys_parameters: tensor<?x2x2x128xi8> {nn.name = "keys_parameters", nn.sizes = ["pages", "", "", ""], nn.state},
    %tail: tensor<?x2x32x128xf16> {nn.name = "tail", nn.sizes = ["sequences", "", "", ""], nn.state},
    %values: tensor<?x2x32x128xi8> {nn.name = "values", nn.sizes = ["pages", "", "", ""], nn.state},
    %values_parameters: tensor<?x2x2x32xi8> {nn.name = "values_parameters", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x8x128xf32>, tensor<?x2x32x128xi8> {nn.state = 7 : i64},
    tensor<?x2x2x128xi8> {nn.state = 8 : i64},
    tensor<?x2x32x128xf16> {nn.state = 9 : i64},
    tensor<?x2x32x128xi8> {nn.state = 10 : i64},
    tensor<?x2x2x32xi8> {nn.state = 11 : i64}) {
  %keys1, %keys_parameters1 = nn.cache_append(%keys, %keys_parameters, %tail) <keys, ui8, page = 32>, %k, %p, %s, %t
      : (tensor<?x2x32x128xi8>, tensor<?x2x2x128xi8>, tensor<?x2x32x128xf16>, tensor<?x2x128xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>)
    -> (tensor<?x2x32x128xi8>, tensor<?x2x2x128xi8>)
  %values1, %values_parameters1 = nn.cache_append(%values, %values_parameters) <values, ui8, page = 32>, %v, %p, %s, %t
      : (tensor<?x2x32x128xi8>, tensor<?x2x2x32xi8>, tensor<?x2x128xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>)
    -> (tensor<?x2x32x128xi8>, tensor<?x2x2x32xi8>)
  %o = nn.cached_attention %q, (%keys1, %keys_parameters1, %tail) <keys, ui8, page = 32>, (%values1, %values_parameters1) <values, ui8, page = 32>, %p, %s, %t rows %k  {scale = 0.15 : f32}
      : (tensor<?x8x128xf32>, tensor<?x2x32x128xi8>, tensor<?x2x2x128xi8>, tensor<?x2x32x128xf16>, tensor<?x2x32x128xi8>, tensor<?x2x2x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x128xf32>) -> tensor<?x8x128xf32>
  %tail1 = nn.cache_append(%tail) <keys, ui8, page = 32>, %k, %p, %s {tail}
      : (tensor<?x2x32x128xf16>, tensor<?x2x128xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x32x128xf16>
  return %o, %keys1, %keys_parameters1, %tail1, %values1, %values_parameters1 : tensor<?x8x128xf32>, tensor<?x2x32x128xi8>, tensor<?x2x2x128xi8>, tensor<?x2x32x128xf16>, tensor<?x2x32x128xi8>, tensor<?x2x2x32xi8>
}
