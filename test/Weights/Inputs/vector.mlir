nn.archive @weights {file = "model.safetensors"}
rt.constant @c layout(#rt.row_major) : tensor<128xf32> {
  %c = nn.weight @weights["c"] : tensor<128xf32>
  rt.yield %c : tensor<128xf32>
}
func.func @main() attributes {rt.results = [{nn.sizes = [""], type = tensor<128xf32>}], rt.symbols = []} {
  %queue = rt.get_queue 0 : !rt.queue<@cpu>
  %result = rt.output 0 () : memref<128xf32>
  %c = rt.constant_data @c : memref<128xf32>
  %event = rt.copy %c to %result on %queue : !rt.queue<@cpu> : memref<128xf32> to memref<128xf32>
  rt.wait %event
  return
}
