func.func @main(%x: tensor<?x1024xf32> {nn.name = "x", nn.sizes = ["rows", ""]}, %g: tensor<1024xf32> {nn.name = "g"})
    -> (tensor<?x1024xf32> {nn.name = "y"}) {
  %y = nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : (tensor<?x1024xf32>, tensor<1024xf32>) -> tensor<?x1024xf32>
  return %y : tensor<?x1024xf32>
}
