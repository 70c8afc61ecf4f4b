func.func @main(%x: tensor<?x1024xf32> {nn.name = "x", nn.sizes = ["rows", ""]}, %g: tensor<1024xf32> {nn.name = "g"},
                %b: tensor<1024xf32> {nn.name = "b"}) -> (tensor<?x1024xf32> {nn.name = "y"}) {
  %y = nn.group_norm %x, %g, %b {epsilon = 1.0e-5 : f32, groups = 8 : i64} : (tensor<?x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<?x1024xf32>
  return %y : tensor<?x1024xf32>
}
