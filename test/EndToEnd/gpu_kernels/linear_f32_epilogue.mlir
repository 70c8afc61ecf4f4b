// A linear layer with gelu, a residual and a sum behind it.
func.func @main(%x: tensor<?x768xf32> {nn.name = "x", nn.sizes = ["rows", ""]}, %w: tensor<512x768xf32> {nn.name = "w"},
                %b: tensor<512xf32> {nn.name = "b"}, %r: tensor<?x512xf32> {nn.name = "r", nn.sizes = ["rows", ""]})
    -> (tensor<?x512xf32> {nn.name = "y"}) {
  %0 = nn.linear %x, %w, %b : (tensor<?x768xf32>, tensor<512x768xf32>, tensor<512xf32>) -> tensor<?x512xf32>
  %1 = nn.gelu %0 {form = #nn.gelu_form<erf>} : tensor<?x512xf32>
  %y = arith.addf %1, %r : tensor<?x512xf32>
  return %y : tensor<?x512xf32>
}
