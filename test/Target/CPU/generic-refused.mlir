// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @division(%x: tensor<8xf32>) -> tensor<4xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %e = tensor.empty() : tensor<4xf32>
  // expected-error @below {{the cpu target cannot compile 'linalg.generic' in kernel 'division': an indexing map with a symbol or a division}}
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i floordiv 2)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  rt.yield %r : tensor<4xf32>
}

// -----

rt.kernel @scattered(%x: tensor<4xf32>) -> tensor<4x4xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %e = tensor.empty() : tensor<4x4xf32>
  // expected-error @below {{the cpu target cannot compile 'linalg.generic' in kernel 'scattered': its result is written through a map that is no permutation}}
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i, i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  rt.yield %r : tensor<4x4xf32>
}

// -----

rt.kernel @two_orders(%x: tensor<4x4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {root = #nn.root<generic>, sizes = []} {
  %e = tensor.empty() : tensor<4x4xf32>
  // expected-error @below {{the cpu target cannot compile 'linalg.generic' in kernel 'two_orders': a reduction whose results have dimensions in different orders}}
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (j, i)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<4x4x8xf32>) outs(%e, %e : tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32, %p: f32):
    %s = arith.addf %a, %o : f32
    %m = arith.maximumf %a, %p : f32
    linalg.yield %s, %m : f32, f32
  } -> (tensor<4x4xf32>, tensor<4x4xf32>)
  rt.yield %r#0, %r#1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

rt.kernel @table() -> tensor<4xf32> attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'arith.constant' in kernel 'table': a table inside a kernel}}
  %0 = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  rt.yield %0 : tensor<4xf32>
}

// -----

// The rows of a norm are those of the result.
rt.kernel @other_rows(%x: tensor<4x8x64xf32>, %g: tensor<64xf32>) -> tensor<4x512xf32> attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'nn.rms_norm' in kernel 'other_rows': its rows are not the rows of the kernel's result}}
  %0 = nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : (tensor<4x8x64xf32>, tensor<64xf32>) -> tensor<4x8x64xf32>
  %1 = tensor.collapse_shape %0 [[0], [1, 2]] : tensor<4x8x64xf32> into tensor<4x512xf32>
  %2 = nn.relu %1 : tensor<4x512xf32>
  rt.yield %2 : tensor<4x512xf32>
}

// -----

rt.kernel @loop_in_body(%x: tensor<4xf32>) -> tensor<4xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.cmpf ogt, %a, %a : f32
    // expected-error @below {{the cpu target cannot compile 'scf.if' in kernel 'loop_in_body': it stands in the body of a linalg op}}
    %s = scf.if %c -> f32 {
      scf.yield %a : f32
    } else {
      scf.yield %a : f32
    }
    linalg.yield %s : f32
  } -> tensor<4xf32>
  rt.yield %r : tensor<4xf32>
}
