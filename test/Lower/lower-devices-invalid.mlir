// RUN: intarsia-opt %s -intarsia-fuse -intarsia-lower -split-input-file -verify-diagnostics

// State stays in the memory of one device.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}
func.func @step(%rows: tensor<?x2x64xf32> {nn.sizes = ["tokens", "", ""]},
                %positions: tensor<?xi64> {nn.sizes = ["tokens"]}, %sequences: tensor<?xi64> {nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]},
                %quantized: tensor<?x2x64x16xi8> {nn.sizes = ["pages", "", "", ""], nn.state, nn.name = "keys"},
                %parameters: tensor<?x2x2x64xi8> {nn.sizes = ["pages", "", "", ""], nn.state},
                %tail: tensor<?x2x64x32xf16> {nn.sizes = ["sequences", "", "", ""], nn.state, nn.name = "tail"})
    -> (tensor<?x2x64x16xi8> {nn.state = 4 : i64}, tensor<?x2x2x64xi8> {nn.state = 5 : i64}, tensor<?x2x64x32xf16> {nn.state = 6 : i64}) {
  %c, %p = nn.cache_append(%quantized, %parameters, %tail) <keys, ui4, page = 32, transposed>, %rows, %positions, %sequences, %pages {rt.device = @reference} : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  // expected-error@below {{'nn.group' op runs on @cpu and uses state 'tail', which is in the memory of @reference: state stays where it is, so place all ops that use it on one device}}
  %t = nn.cache_append(%tail) <keys, ui4, page = 32, transposed>, %rows, %positions, %sequences {tail} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return %c, %p, %t : tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>
}
