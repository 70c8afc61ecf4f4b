func.func @main(%x: tensor<?x8x64xf32> {nn.name = "x", nn.sizes = ["tokens", "", ""]}, %p: tensor<?xi64> {nn.name = "p", nn.sizes = ["tokens"]},
                %f: tensor<32xf32> {nn.name = "f"}) -> (tensor<?x8x64xf32> {nn.name = "y"}) {
  %y = nn.rope %x, %p, %f {attention_factor = 1.0 : f32} : (tensor<?x8x64xf32>, tensor<?xi64>, tensor<32xf32>) -> tensor<?x8x64xf32>
  return %y : tensor<?x8x64xf32>
}
