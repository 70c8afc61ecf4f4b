// A residual, and the norm of the sum.
func.func @main(%x: tensor<?x1024xf32> {nn.name = "x", nn.sizes = ["rows", ""]}, %r: tensor<?x1024xf32> {nn.name = "r", nn.sizes = ["rows", ""]},
                %g: tensor<1024xf32> {nn.name = "g"}, %b: tensor<1024xf32> {nn.name = "b"}) -> (tensor<?x1024xf32> {nn.name = "y"}) {
  %0 = arith.addf %x, %r : tensor<?x1024xf32>
  %y = nn.layer_norm %0, %g, %b {epsilon = 1.0e-5 : f32} : (tensor<?x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<?x1024xf32>
  return %y : tensor<?x1024xf32>
}
