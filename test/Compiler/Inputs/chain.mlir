// A layer as importers leave it; it has no weights.
func.func @main(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?x64xf32> {nn.name = "y"}) {
  %0 = nn.relu %x : tensor<?x64xf32> loc("model.first")
  %1 = nn.softmax %0 : tensor<?x64xf32> loc("model.second")
  return %1 : tensor<?x64xf32>
}
