// A linear layer whose input and weight are bf16.
func.func @main(%x: tensor<?x768xbf16> {nn.name = "x", nn.sizes = ["rows", ""]}, %w: tensor<512x768xbf16> {nn.name = "w"})
    -> (tensor<?x512xbf16> {nn.name = "y"}) {
  %y = nn.linear %x, %w : (tensor<?x768xbf16>, tensor<512x768xbf16>) -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}
