func.func @main(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["tokens", ""]}, %i: tensor<?x2xi32> {nn.name = "i", nn.sizes = ["tokens", ""]},
                %w: tensor<?x2xf32> {nn.name = "w", nn.sizes = ["tokens", ""]}, %gu: tensor<8x2x128x64xbf16> {nn.name = "gu"},
                %d: tensor<8x64x128xbf16> {nn.name = "d"}) -> (tensor<?x64xf32> {nn.name = "y"}) {
  %y = nn.experts %x, %i, %w, %gu, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xbf16>, tensor<8x64x128xbf16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
