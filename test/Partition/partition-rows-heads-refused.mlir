// RUN: not intarsia-opt %s --partition-rows='world=2 kind=context heads' 2>&1 >/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-search=world=2 2>&1 >/dev/null | FileCheck %s --check-prefix=SEARCH

// A state that is no cache has no heads that ranks could share; without heads each of them keeps all of it.
// CHECK: error: --partition=context,heads: 'step' keeps 'total', which is no cache of heads
// SEARCH: context,heads --partition=context,heads: 'step' keeps 'total', which is no cache of heads

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["tokens", ""]},
                %total: tensor<64xf32> {nn.name = "total", nn.state})
    -> (tensor<?x64xf32> {nn.name = "y"}, tensor<64xf32> {nn.name = "total", nn.state = 1 : i64}) {
  %w0 = nn.weight @weights["w0"] : tensor<64x64xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.linear")
  %w1 = nn.weight @weights["w1"] : tensor<64x64xf32>
  %1 = nn.linear %0, %w1 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.1.linear")
  %2 = nn.relu %total : tensor<64xf32> loc("layers.1.total")
  return %1, %2 : tensor<?x64xf32>, tensor<64xf32>
}
