// A linear layer with a bias.
func.func @main(%x: tensor<?x768xf32> {nn.name = "x", nn.sizes = ["rows", ""]}, %w: tensor<512x768xf32> {nn.name = "w"},
                %b: tensor<512xf32> {nn.name = "b"}) -> (tensor<?x512xf32> {nn.name = "y"}) {
  %y = nn.linear %x, %w, %b : (tensor<?x768xf32>, tensor<512x768xf32>, tensor<512xf32>) -> tensor<?x512xf32>
  return %y : tensor<?x512xf32>
}
