func.func @main(%x: tensor<?x1024xf16> {nn.name = "x", nn.sizes = ["rows", ""]}, %g: tensor<1024xf16> {nn.name = "g"})
    -> (tensor<?x1024xf16> {nn.name = "y"}) {
  %y = nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : (tensor<?x1024xf16>, tensor<1024xf16>) -> tensor<?x1024xf16>
  return %y : tensor<?x1024xf16>
}
