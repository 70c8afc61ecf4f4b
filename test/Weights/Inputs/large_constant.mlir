rt.device @cpu {target = #rt.target<"cpu", ["native"]>}
rt.constant @c layout(#rt.row_major) : tensor<4294967296x4294967296xf32> {
  %c = arith.constant dense<0.0> : tensor<4294967296x4294967296xf32>
  rt.yield %c : tensor<4294967296x4294967296xf32>
}
func.func @main() attributes {rt.results = [], rt.symbols = []} {
  return
}
