// The products of two computed matrices.
func.func @main(%a: tensor<?x64x96xf32> {nn.name = "a", nn.sizes = ["batch", "", ""]},
                %b: tensor<?x80x96xf32> {nn.name = "b", nn.sizes = ["batch", "", ""]}) -> (tensor<?x64x80xf32> {nn.name = "y"}) {
  %y = nn.matmul %a, %b {transpose_rhs} : (tensor<?x64x96xf32>, tensor<?x80x96xf32>) -> tensor<?x64x80xf32>
  return %y : tensor<?x64x80xf32>
}
