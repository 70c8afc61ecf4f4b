// RUN: intarsia-opt %s --split-input-file --target-gpu-emit-kernels=architecture=sm_80 --verify-diagnostics

// A shape that is stated is taken or refused: one for each kind of launch.
// expected-error @below {{rt.shapes of sm_80 states {}, must be an array of 1 shapes, one for each kind of launch}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {sm_80 = {}}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// expected-error @below {{rt.shapes of sm_80 states [{}, {}], must be an array of 1 shapes, one for each kind of launch}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {sm_80 = [{}, {}]}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// expected-error @below {{rt.shapes of sm_80 states stages = 21, must be an integer from 2 to 20}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {sm_80 = [{stages = 21 : i64}]}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// expected-error @below {{rt.shapes of sm_80 states block = [64, 128], which follows from the kernel and the processor: it is [64, 64]}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {sm_80 = [{block = [64, 128]}]}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Each size of tiles has figures of its own.
// expected-error @below {{rt.shapes of sm_80 states depth_parts = 17, must be an integer from 1 to 16 (small)}}
rt.kernel @linear(%x: tensor<64x256xf16>, %w: tensor<256x256xf16> {rt.layout = #rt.row_major}) -> tensor<64x256xf32>
    attributes {root = #nn.root<linear>, rt.shapes = {sm_80 = [{small = {depth_parts = 17 : i64}}]}, sizes = []} {
  %0 = arith.extf %x : tensor<64x256xf16> to tensor<64x256xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<64x256xf32>, tensor<256x256xf16>) -> tensor<64x256xf32>
  rt.yield %1 : tensor<64x256xf32>
}
