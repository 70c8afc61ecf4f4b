func.func @main(%x: tensor<?x?xf32> {nn.name = "x", nn.sizes = ["rows", "n"]}) -> (tensor<?x?xf32> {nn.name = "y"}) {
  %y = nn.softmax %x : tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
