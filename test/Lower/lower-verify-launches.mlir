// RUN: intarsia-opt %s --lower-verify --split-input-file --verify-diagnostics

// Launches stay within the buffers that they are given: the sizes of both are the same expressions in the sizes of a
// call, or an rt.check says so.

// Views, sums and products of sizes; what an op in a kernel needs is checked: no message.
rt.kernel @halves(%x: tensor<?x4xf32> {nn.sizes = ["s0", ""]}, %y: tensor<?xf32> {nn.sizes = ["s0 * 4"]}, %z: tensor<?xf32> {nn.sizes = ["s1"]}) -> (tensor<?xf32> {nn.sizes = ["s0 * 4"]}, tensor<2xf32>) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
  %r = arith.addf %flat, %y : tensor<?xf32>
  %part = tensor.extract_slice %z[0] [2] [1] : tensor<?xf32> to tensor<2xf32>
  rt.yield %r, %part : tensor<?xf32>, tensor<2xf32>
}
func.func @main(%x: memref<?x2x2xf32> {nn.sizes = ["n", "", ""]}, %z: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["4 * n"], type = tensor<?xf32>}, {type = tensor<2xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %n4 = arith.muli %c4, %n : index
  %bytes = arith.muli %n4, %c4 : index
  rt.check %c2 at_most %m {left_text = "2", right_text = "m", why = "'tensor.extract_slice' needs it"}
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n4) : memref<?xf32>
  %p = rt.output 1 () : memref<2xf32>
  %w = rt.workspace %bytes : memref<?xi8>
  %v = memref.view %w[%c0][%n] : memref<?xi8> to memref<?x4xf32>
  %flat = memref.collapse_shape %v [[0, 1]] : memref<?x4xf32> into memref<?xf32>
  %matrix = memref.collapse_shape %x [[0], [1, 2]] : memref<?x2x2xf32> into memref<?x4xf32>
  %e = rt.dispatch @halves on %q : !rt.queue<@cpu> sizes(%n, %m) ins(%matrix, %flat, %z : memref<?x4xf32>, memref<?xf32>, memref<?xf32>) outs(%o, %p : memref<?xf32>, memref<2xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

rt.kernel @relu(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  // expected-error@+1 {{input 0 has n at dimension 0, kernel @relu is launched for m}}
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%m) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

rt.kernel @relu(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}
// The same sizes, which a check makes equal: no message.
func.func @checked(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  rt.check %n equal %m {left_text = "n", right_text = "m", why = "'nn.relu' needs it"}
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%m) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %c1 = arith.constant 1 : index
  %more = arith.addi %n, %c1 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%more) : memref<?xf32>
  // expected-error@+1 {{output 0 has n + 1 at dimension 0, kernel @relu is launched for n}}
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

// What a kernel says of its result is not what its body gives.
rt.kernel @relu(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0 * 2"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  // expected-error@+1 {{output 0 has n at dimension 0, kernel @relu is launched for n * 2}}
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

rt.kernel @add(%x: tensor<?xf32> {nn.sizes = ["s0"]}, %y: tensor<?xf32> {nn.sizes = ["s1"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  // expected-note@+1 {{needed here}}
  %r = arith.addf %x, %y : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  // expected-error@+1 {{'arith.addf' needs n to be equal to m; no rt.check says so}}
  %e = rt.dispatch @add on %q : !rt.queue<@cpu> sizes(%n, %m) ins(%x, %y : memref<?xf32>, memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

rt.kernel @part(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<2xf32>) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  // expected-note@+1 {{needed here}}
  %part = tensor.extract_slice %x[0] [2] [1] : tensor<?xf32> to tensor<2xf32>
  %r = nn.relu %part : tensor<2xf32>
  rt.yield %r : tensor<2xf32>
}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{type = tensor<2xf32>}]} {
  %n = rt.symbol "n"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 () : memref<2xf32>
  // expected-error@+1 {{'tensor.extract_slice' needs 2 to be at most n; no rt.check says so}}
  %e = rt.dispatch @part on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<2xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

// The larger of two sizes is no expression in them.
rt.kernel @relu(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %most = arith.maxsi %n, %m : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  // expected-error@+1 {{size 0 is not a function of the sizes of a call}}
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%most) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["m"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%m) : memref<?xf32>
  // expected-error@+1 {{copies n at dimension 0 to a buffer with m}}
  %e = rt.copy %x to %o on %q : !rt.queue<@cpu> sizes(%n) : memref<?xf32> to memref<?xf32>
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  // expected-error@+1 {{is given m for dimension 0, which is n}}
  %e = rt.copy %x to %o on %q : !rt.queue<@cpu> sizes(%m) : memref<?xf32> to memref<?xf32>
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["m"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %o = rt.output 0 (%m) : memref<?xf32>
  // expected-error@+1 {{takes n at dimension 0 to a buffer with m}}
  %e = rt.collective all_reduce in [0, 1] from %x : memref<?xf32> to %o : memref<?xf32> sizes(%n)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["m"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %o = rt.output 0 (%m) : memref<?xf32>
  // expected-error@+1 {{takes n at dimension 0 to a buffer with m}}
  %e = rt.collective reduce_scatter_rows in [0, 1] from %x : memref<?xf32> to %o : memref<?xf32> sizes(%n)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}, %y: memref<?xf32> {nn.sizes = ["m"]}) attributes {rt.symbols = ["n", "m"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %m = rt.symbol "m"
  %o = rt.output 0 (%n) : memref<?xf32>
  // expected-error@+1 {{is given m for dimension 0, which is n}}
  %e = rt.collective all_reduce in [0, 1] from %x : memref<?xf32> to %o : memref<?xf32> sizes(%m)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{nn.sizes = ["n", ""], type = tensor<?x4xf32>}]} {
  %n = rt.symbol "n"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?x4xf32>
  // expected-error@+1 {{needs n * 4 to be equal to n; no rt.check says so}}
  %matrix = memref.expand_shape %x [[0, 1]] output_shape [%n, 4] : memref<?xf32> into memref<?x4xf32>
  %e = rt.copy %matrix to %o on %q : !rt.queue<@cpu> sizes(%n) : memref<?x4xf32> to memref<?x4xf32>
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

func.func @main(%x: memref<?xi8> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %c0 = arith.constant 0 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  // expected-error@+1 {{is a view of what is not the function's workspace}}
  %v = memref.view %x[%c0][%n] : memref<?xi8> to memref<?xf32>
  %e = rt.copy %v to %o on %q : !rt.queue<@cpu> sizes(%n) : memref<?xf32> to memref<?xf32>
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

// expected-error@+1 {{argument 0 is 'tensor<?xf32>' and needs nn.sizes with a string for each dimension}}
rt.kernel @relu(%x: tensor<?xf32>) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

// Sizes of a launch may be zero, unlike those of a call: no element is there to read where n is 1.
rt.kernel @first(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<1xf32>) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  // expected-note@+1 {{needed here}}
  %part = tensor.extract_slice %x[0] [1] [1] : tensor<?xf32> to tensor<1xf32>
  %r = nn.relu %part : tensor<1xf32>
  rt.yield %r : tensor<1xf32>
}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{type = tensor<1xf32>}]} {
  %n = rt.symbol "n"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %less = arith.subi %n, %c1 : index
  %bytes = arith.muli %n, %c4 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 () : memref<1xf32>
  %w = rt.workspace %bytes : memref<?xi8>
  %v = memref.view %w[%c0][%less] : memref<?xi8> to memref<?xf32>
  // expected-error@+1 {{'tensor.extract_slice' needs 1 to be at most n - 1; no rt.check says so}}
  %e = rt.dispatch @first on %q : !rt.queue<@cpu> sizes(%less) ins(%v : memref<?xf32>) outs(%o : memref<1xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

// What an op needs is compared as it says it, whatever follows from it for one size: no message.
rt.kernel @even(%x: tensor<8xf32>, %y: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (2 * i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%y : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}
func.func @main(%x: memref<8xf32>, %y: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{nn.sizes = ["n floordiv 3"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %third = arith.floordivsi %n, %c3 : index
  %twice = arith.muli %third, %c2 : index
  %last = arith.subi %twice, %c1 : index
  rt.check %last at_most %c8 {left_text = "2 * (n floordiv 3) - 1", right_text = "8", why = "'linalg.generic' needs it"}
  %bytes = arith.muli %n, %c4 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%third) : memref<?xf32>
  %w = rt.workspace %bytes : memref<?xi8>
  %v = memref.view %w[%c0][%third] : memref<?xi8> to memref<?xf32>
  %e = rt.dispatch @even on %q : !rt.queue<@cpu> sizes(%third) ins(%x, %v : memref<8xf32>, memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
