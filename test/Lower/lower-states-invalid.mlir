// RUN: intarsia-opt %s --lower-groups-to-kernels --split-input-file --verify-diagnostics

// Each state would take the other's memory.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @swapped(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state}, %values: tensor<?x2x64x32xf16> {nn.name = "values", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  // expected-error @below {{'scf.for' begins with the state 'keys' and goes on with the state 'values' as value 0: a state stays in its own memory, so yield the last version of the same state}}
  %r:2 = scf.for %i = %c0 to %size step %c1 iter_args(%k = %keys, %v = %values) -> (tensor<?x2x64x32xf16>, tensor<?x2x64x32xf16>) {
    %k1 = nn.group cache_append(%a = %k, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
      %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
      nn.yield %u : tensor<?x2x64x32xf16>
    }
    %v1 = nn.group cache_append(%a = %v, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
      %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
      nn.yield %u : tensor<?x2x64x32xf16>
    }
    scf.yield %v1, %k1 : tensor<?x2x64x32xf16>, tensor<?x2x64x32xf16>
  }
  return %r#0 : tensor<?x2x64x32xf16>
}

// -----

// The older version is gone.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @older(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  %r = scf.for %i = %c0 to %size step %c1 iter_args(%k = %keys) -> tensor<?x2x64x32xf16> {
    %k1 = nn.group cache_append(%a = %k, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
      // expected-note @below {{'nn.cache_append' updates it in place}}
      %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
      nn.yield %u : tensor<?x2x64x32xf16>
    }
    // expected-error @below {{'scf.yield' passes on an older version of the state 'keys'; pass on its last version}}
    scf.yield %k : tensor<?x2x64x32xf16>
  }
  return %r : tensor<?x2x64x32xf16>
}

// -----

// What the loop begins with is no state.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @no_state(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state}, %input: tensor<?x2x64x32xf16> {nn.sizes = ["pages", "", "", ""]})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  // expected-error @below {{'scf.for' begins with a tensor that is no state and goes on with the state 'keys' as value 0: a state stays in its own memory, so yield the last version of the same state}}
  %r = scf.for %i = %c0 to %size step %c1 iter_args(%k = %input) -> tensor<?x2x64x32xf16> {
    scf.yield %keys : tensor<?x2x64x32xf16>
  }
  return %keys : tensor<?x2x64x32xf16>
}

// -----

// A branch that updates a state must pass it on.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @lost(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  scf.if %many {
    %k1 = nn.group cache_append(%a = %keys, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
      %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
      nn.yield %u : tensor<?x2x64x32xf16>
    }
  }
  // expected-error @below {{'func.return' uses the state 'keys', which 'scf.if' updates and does not pass on; let 'scf.if' yield its last version}}
  return %keys : tensor<?x2x64x32xf16>
}

// -----

// A branch yields a state, the other one another tensor.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @one_branch(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state}, %input: tensor<?x2x64x32xf16> {nn.sizes = ["pages", "", "", ""]})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  // expected-error @below {{'scf.if' yields the state 'keys' in one branch and a tensor that is no state in the other: a state stays in its own memory, so yield its last version in both}}
  %r = scf.if %many -> tensor<?x2x64x32xf16> {
    %k1 = nn.group cache_append(%a = %keys, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
      %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
      nn.yield %u : tensor<?x2x64x32xf16>
    }
    scf.yield %k1 : tensor<?x2x64x32xf16>
  } else {
    scf.yield %input : tensor<?x2x64x32xf16>
  }
  return %r : tensor<?x2x64x32xf16>
}

// -----

// The next iteration would update it once more.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @not_carried(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  // expected-error @below {{'scf.for' updates the state 'keys' and does not carry it: let it begin with the state and yield its last version}}
  scf.for %i = %c0 to %size step %c1 {
    %k1 = nn.group cache_append(%a = %keys, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
      %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
      nn.yield %u : tensor<?x2x64x32xf16>
    }
  }
  return %keys : tensor<?x2x64x32xf16>
}

// -----

// Inside of the loop the state is what the loop carries.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @outer(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  %r = scf.for %i = %c0 to %size step %c1 iter_args(%k = %keys) -> tensor<?x2x64x32xf16> {
    // expected-error @below {{'nn.group' uses an older version of the state 'keys': 'scf.for' carries it on, so use the version that it gives}}
    %k1 = nn.group cache_append(%a = %keys, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
      %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
      nn.yield %u : tensor<?x2x64x32xf16>
    }
    scf.yield %k : tensor<?x2x64x32xf16>
  }
  return %r : tensor<?x2x64x32xf16>
}

// -----

// One state has one memory.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @twice(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  // expected-error @below {{'scf.for' passes on the state 'keys' twice}}
  %r:2 = scf.for %i = %c0 to %size step %c1 iter_args(%k = %keys, %v = %keys) -> (tensor<?x2x64x32xf16>, tensor<?x2x64x32xf16>) {
    scf.yield %k, %v : tensor<?x2x64x32xf16>, tensor<?x2x64x32xf16>
  }
  return %r#0 : tensor<?x2x64x32xf16>
}

// -----

// The condition keeps a state to itself.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @not_passed(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state}, %values: tensor<?x2x64x32xf16> {nn.name = "values", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  // expected-error @below {{'scf.while' begins with the state 'keys' and goes on with the state 'values' as value 0: a state stays in its own memory, so yield the last version of the same state}}
  %r = scf.while (%k = %keys) : (tensor<?x2x64x32xf16>) -> (tensor<1xi64>) {
    %v = tensor.extract %n[%c0] : tensor<?xi64>
    %end = arith.index_cast %v : i64 to index
    %more = arith.cmpi slt, %c1, %end : index
    scf.condition(%more) %p : tensor<1xi64>
  } do {
  ^bb0(%q: tensor<1xi64>):
    scf.yield %values : tensor<?x2x64x32xf16>
  }
  return %keys : tensor<?x2x64x32xf16>
}

// -----

// The condition passes on a state that the loop does not carry.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @passed(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state}, %values: tensor<?x2x64x32xf16> {nn.name = "values", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
      %r = scf.while (%k = %keys) : (tensor<?x2x64x32xf16>) -> (tensor<?x2x64x32xf16>) {
    %v = tensor.extract %n[%c0] : tensor<?xi64>
    %end = arith.index_cast %v : i64 to index
    %more = arith.cmpi slt, %c1, %end : index
    // expected-error @below {{'scf.condition' passes on the state 'values', which the loop does not carry: let it begin with the state and yield its last version}}
    scf.condition(%more) %values : tensor<?x2x64x32xf16>
  } do {
  ^bb0(%q: tensor<?x2x64x32xf16>):
    scf.yield %q : tensor<?x2x64x32xf16>
  }
  return %r : tensor<?x2x64x32xf16>
}

// -----

// A view of a state is no buffer of its own.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @view(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  %r = scf.if %many -> tensor<?x2x64x32xf16> {
    %f = tensor.cast %keys : tensor<?x2x64x32xf16> to tensor<6x2x64x32xf16>
    %d = tensor.cast %f : tensor<6x2x64x32xf16> to tensor<?x2x64x32xf16>
    // expected-error @below {{'scf.yield' passes on a view of the state 'keys'; pass on the state itself}}
    scf.yield %d : tensor<?x2x64x32xf16>
  } else {
    scf.yield %keys : tensor<?x2x64x32xf16>
  }
  return %r : tensor<?x2x64x32xf16>
}

// -----

// A consumer of the version before that comes through a view.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @view_after(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  %k1 = nn.group cache_append(%a = %keys, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
    // expected-error @below {{'nn.cache_append' op updates a tensor in place that something else reads}}
    %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
    nn.yield %u : tensor<?x2x64x32xf16>
  }
  %f = tensor.cast %keys : tensor<?x2x64x32xf16> to tensor<6x2x64x32xf16>
  // expected-note @below {{'nn.group' uses the state 'keys' as it was before}}
  %y = nn.group rows(%a = %f) : (tensor<6x2x64x32xf16>) -> tensor<6x2x64x32xf16> {
    %l = arith.negf %a : tensor<6x2x64x32xf16>
    nn.yield %l : tensor<6x2x64x32xf16>
  }
  return %k1 : tensor<?x2x64x32xf16>
}

// -----

// The kernel would have to check what it computes.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @computed_inside(%rows: tensor<1x2x64xf32>, %p: tensor<1xi64>, %s: tensor<1xi64>,
                %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  %k1 = nn.group cache_append(%a = %keys, %b = %rows, %c = %p, %d = %s, %e = %t) : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16> {
    %c2 = arith.addi %c, %c : tensor<1xi64>
    // expected-error @below {{'nn.cache_append' op positions are computed in the kernel that uses them as indices; let another kernel compute them, so that the host can check them}}
    %u = nn.cache_append(%a) <keys, f16, page = 32, transposed>, %b, %c2, %d, %e : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
    nn.yield %u : tensor<?x2x64x32xf16>
  }
  return %k1 : tensor<?x2x64x32xf16>
}
