// A linear layer whose weight is stored, so that it can be quantized. The test writes the archive.
nn.archive @weights {file = "w.safetensors"}
func.func @main(%x: tensor<?x768xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?x512xf32> {nn.name = "y"}) {
  %w = nn.weight @weights["w"] : tensor<512x768xf32>
  %y = nn.linear %x, %w : (tensor<?x768xf32>, tensor<512x768xf32>) -> tensor<?x512xf32>
  return %y : tensor<?x512xf32>
}
