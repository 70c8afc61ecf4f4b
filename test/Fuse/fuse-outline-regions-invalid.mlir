// RUN: intarsia-opt %s --fuse-outline-regions --verify-diagnostics --split-input-file

func.func @counter(%x: tensor<4x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    %j = arith.addi %i, %c1 : index
    // expected-error @below {{'tensor.extract_slice' takes a number that the host computes while it runs, such as a loop's counter; kernels take tensors: carry the number as a tensor}}
    %t = tensor.extract_slice %x[%j, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<1x8xf32>
  }
  return
}

// -----

func.func @float(%x: tensor<4xf32>, %y: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tensor.extract' reads 'f32': the host computes with integers alone; compute it in a tensor}}
  %v = tensor.extract %x[%c0] : tensor<4xf32>
  %r = scf.if %c -> tensor<4xf32> {
    scf.yield %x : tensor<4xf32>
  } else {
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// expected-error @below {{function 'body' has 'nn.outlined_from', which marks the bodies of control flow while the fuse phase runs; take it away}}
func.func private @body(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.outlined_from = @main} {
  return %x : tensor<4xf32>
}
