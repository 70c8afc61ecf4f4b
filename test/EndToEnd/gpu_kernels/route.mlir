func.func @main(%l: tensor<?x32xf32> {nn.name = "l", nn.sizes = ["tokens", ""]})
    -> (tensor<?x4xi32> {nn.name = "i"}, tensor<?x4xf32> {nn.name = "w"}) {
  %i, %w = nn.route %l {normalize, top_k = 4 : i64} : (tensor<?x32xf32>) -> (tensor<?x4xi32>, tensor<?x4xf32>)
  return %i, %w : tensor<?x4xi32>, tensor<?x4xf32>
}
