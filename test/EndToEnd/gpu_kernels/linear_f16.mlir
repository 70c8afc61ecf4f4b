// A linear layer whose input and weight are f16.
func.func @main(%x: tensor<?x768xf16> {nn.name = "x", nn.sizes = ["rows", ""]}, %w: tensor<512x768xf16> {nn.name = "w"})
    -> (tensor<?x512xf16> {nn.name = "y"}) {
  %y = nn.linear %x, %w : (tensor<?x768xf16>, tensor<512x768xf16>) -> tensor<?x512xf16>
  return %y : tensor<?x512xf16>
}
