// Gelu by tanh, then silu: the polynomials of several functions.
func.func @main(%x: tensor<?x1024xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?x1024xf32> {nn.name = "y"}) {
  %0 = nn.gelu %x {form = #nn.gelu_form<tanh>} : tensor<?x1024xf32>
  %y = nn.silu %0 : tensor<?x1024xf32>
  return %y : tensor<?x1024xf32>
}
