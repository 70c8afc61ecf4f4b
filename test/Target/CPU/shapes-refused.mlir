// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels="spec=x86-64-v4" --verify-diagnostics

// A shape that is stated is taken or refused.
// expected-error @below {{rt.shapes is 3 : i64, must be a dictionary by the names of variants}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = 3 : i64, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// expected-error @below {{rt.shapes of x86-64-v4 states 3, must be a dictionary of figures}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {"x86-64-v4" = 3 : i64}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// expected-error @below {{rt.shapes of x86-64-v4 states tile_rows = 0, must be an integer from 1 to 16}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {"x86-64-v4" = {tile_rows = 0 : i64}}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// expected-error @below {{rt.shapes of x86-64-v4 states tile_rows = "many", must be an integer from 1 to 16}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {"x86-64-v4" = {tile_rows = "many"}}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// expected-error @below {{rt.shapes of x86-64-v4 states lanes = 8, which follows from the kernel and the processor: it is 16}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {"x86-64-v4" = {lanes = 8 : i64}}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// expected-error @below {{rt.shapes of x86-64-v4 states 'stages', which the kernel does not have; it has kernel, lanes, left, right, tile_rows, tile_vectors}}
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {"x86-64-v4" = {stages = 2 : i64}}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
