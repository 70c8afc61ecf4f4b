// The same with the most features that matrix instructions have registers for.
func.func @main(%q: tensor<?x?x12x128xf16> {nn.name = "q", nn.sizes = ["batch", "n", "", ""]}, %k: tensor<?x?x4x128xf16> {nn.name = "k", nn.sizes = ["batch", "n", "", ""]},
                %v: tensor<?x?x4x128xf16> {nn.name = "v", nn.sizes = ["batch", "n", "", ""]}) -> (tensor<?x?x12x128xf16> {nn.name = "y"}) {
  %y = nn.attention %q, %k, %v {causal, scale = 0.125 : f32} : (tensor<?x?x12x128xf16>, tensor<?x?x4x128xf16>, tensor<?x?x4x128xf16>) -> tensor<?x?x12x128xf16>
  return %y : tensor<?x?x12x128xf16>
}
