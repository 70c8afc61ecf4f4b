func.func @main(%t: tensor<4096x1024xf32> {nn.name = "t"}, %i: tensor<?xi64> {nn.name = "i", nn.sizes = ["tokens"]})
    -> (tensor<?x1024xf32> {nn.name = "y"}) {
  %y = nn.embedding %t, %i : (tensor<4096x1024xf32>, tensor<?xi64>) -> tensor<?x1024xf32>
  return %y : tensor<?x1024xf32>
}
