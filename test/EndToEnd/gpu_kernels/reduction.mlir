// The sums of rows.
func.func @main(%x: tensor<?x1024xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?xf32> {nn.name = "y"}) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x1024xf32>
  %empty = tensor.empty(%rows) : tensor<?xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
                       iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x1024xf32>) outs(%init : tensor<?xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %next = arith.addf %a, %sum : f32
    linalg.yield %next : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}
