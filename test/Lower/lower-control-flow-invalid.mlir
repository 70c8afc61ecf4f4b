// RUN: intarsia-opt %s --lower-groups-to-kernels --split-input-file --verify-diagnostics

// Nothing says that there is a second element.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @outside(%x: tensor<?xi64> {nn.sizes = ["n"]}) -> tensor<?xi64> {
  %c1 = arith.constant 1 : index
  // expected-error @below {{reads an element that 'tensor<?xi64>' may not have: indices are constants that are less than any size}}
  %v = tensor.extract %x[%c1] : tensor<?xi64>
  return %x : tensor<?xi64>
}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @step(%x: tensor<4xf32>, %s: tensor<?xi64> {nn.sizes = ["n"]}) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %s, %c0 : tensor<?xi64>
  // expected-error @below {{has a step that is no positive constant, and might not end}}
  scf.for %i = %c0 to %n step %n {
  }
  return %x : tensor<4xf32>
}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @number(%x: tensor<4xf32>, %flags: tensor<2xi1>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %half = arith.constant 0.5 : f32
  %c = tensor.extract %flags[%c0] : tensor<2xi1>
  %r:2 = scf.if %c -> (tensor<4xf32>, f32) {
    // expected-error @below {{'scf.yield' needs a number of type 'f32' that the host cannot compute}}
    scf.yield %x, %half : tensor<4xf32>, f32
  } else {
    scf.yield %x, %half : tensor<4xf32>, f32
  }
  return %r#0 : tensor<4xf32>
}

// -----

// A tensor that grows has no buffer that holds it from the beginning.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @grows(%x: tensor<?xf32> {nn.sizes = ["n"]}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-error @below {{'scf.for' needs n to be equal to n * 2, which no call can meet}}
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%now = %x) -> tensor<?xf32> {
    %y = nn.group rows(%a = %now) : (tensor<?xf32>) -> tensor<?xf32> {
      %l = tensor.concat dim(0) %a, %a : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      nn.yield %l : tensor<?xf32>
    }
    scf.yield %y : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// -----

// A state has one memory: it is passed on once.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @state(%x: tensor<4xf32>, %s: tensor<4xf32> {nn.state}) -> (tensor<4xf32>, tensor<4xf32> {nn.state = 1 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %c1 step %c1 iter_args(%now = %x, %state = %s) -> (tensor<4xf32>, tensor<4xf32>) {
    // expected-error @below {{'scf.yield' passes on the state 'arg1' twice}}
    scf.yield %state, %state : tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}
