func.func @main(%x: tensor<?x1024xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?x1024xf32> {nn.name = "y"}) {
  %y = nn.softmax %x : tensor<?x1024xf32>
  return %y : tensor<?x1024xf32>
}
