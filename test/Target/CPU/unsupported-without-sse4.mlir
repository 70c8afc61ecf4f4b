// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels="spec=x86-64" --verify-diagnostics
// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels="spec=x86-64-v2" | FileCheck %s

// Rounding to integers came with SSE4.1; before that it is a call of the C library.
// CHECK-LABEL: func.func @floor_run
// CHECK: math.floor
rt.kernel @floor(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'math.floor' in kernel 'floor': a variant for processors without SSE4.1 has no instruction for it; add +sse4.1 to the target or compile for cpu:x86-64-v2 or newer}}
  %0 = math.floor %x : tensor<4xf32>
  rt.yield %0 : tensor<4xf32>
}

// -----

// Sines reduce large arguments without it.
// CHECK-LABEL: func.func @sine_run
rt.kernel @sine(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {root = #nn.root<rows>, sizes = []} {
  %0 = math.sin %x : tensor<4xf32>
  rt.yield %0 : tensor<4xf32>
}
