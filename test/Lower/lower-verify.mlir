// RUN: intarsia-opt %s --lower-verify --split-input-file --verify-diagnostics

// What may leave the phase: no message.
nn.archive @weights {file = "model.safetensors"}
rt.constant @w layout(#rt.row_major) : tensor<8xf32> {
  %w = nn.weight @weights["w"] : tensor<8xf32>
  rt.yield %w : tensor<8xf32>
}
rt.kernel @relu(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{nn.sizes = ["n"], type = tensor<?xf32>}]} {
  %n = rt.symbol "n"
  %c2 = arith.constant 2 : index
  rt.check %c2 at_most %n {left_text = "2", right_text = "n", why = "'tensor.extract_slice' needs it"}
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = []} {
  %n = rt.symbol "n"
  // expected-error@+1 {{has no slot in the workspace; run lower-plan-buffers}}
  %o = rt.alloc (%n) : memref<?xf32>
  return
}

// -----

func.func @main() attributes {rt.symbols = [], rt.results = []} {
  // expected-error@+1 {{names 'm', which is no size of this function}}
  %n = rt.symbol "m"
  return
}

// -----

// expected-error@+1 {{has no buffer for result 0}}
func.func @main() attributes {rt.symbols = [], rt.results = [{type = tensor<8xf32>}]} {
  return
}

// -----

func.func @main(%x: memref<8xf32>) attributes {rt.symbols = [], rt.results = [{type = tensor<8xf32>}, {type = tensor<8xf32>}]} {
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 () : memref<8xf32>
  %e = rt.copy %x to %o on %q : !rt.queue<@cpu> : memref<8xf32> to memref<8xf32>
  // expected-error@+1 {{comes after work was started; buffers are made first}}
  %p = rt.output 1 () : memref<8xf32>
  return
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

// expected-error@+1 {{returns values; results of host programs are rt.output}}
func.func @main(%x: memref<8xf32>) -> memref<8xf32> attributes {rt.symbols = [], rt.results = []} {
  return %x : memref<8xf32>
}

// -----

func.func @main(%x: memref<8xf32>) attributes {rt.symbols = [], rt.results = []} {
  // expected-error@+1 {{does not belong into a host program}}
  %y = memref.alloc() : memref<8xf32>
  return
}

// -----

rt.kernel @k(%x: tensor<2xf32>) -> tensor<2xf32> attributes {device = @cpu, root = #nn.root<rows>, sizes = []} {
  // expected-error@+1 {{holds data; kernels get tables as operands}}
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = arith.addf %x, %c : tensor<2xf32>
  rt.yield %r : tensor<2xf32>
}

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// -----

// expected-error@+1 {{argument 0 is 'index', must be a dense memref}}
func.func @main(%i: index) attributes {rt.symbols = [], rt.results = []} {
  return
}

// -----

// expected-error@+1 {{argument 0 is 'memref<8xf32, strided<[2]>>', must be a dense memref}}
func.func @main(%i: memref<8xf32, strided<[2]>>) attributes {rt.symbols = [], rt.results = []} {
  return
}

// -----

// expected-error@+1 {{argument 0 is 'memref<?xf32>' and needs nn.sizes with a string for each dimension}}
func.func @main(%x: memref<?xf32>) attributes {rt.symbols = [], rt.results = []} {
  return
}

// -----

// expected-error@+1 {{nn.sizes of argument 0 is [""], the type 'memref<?xf32>'}}
func.func @main(%x: memref<?xf32> {nn.sizes = [""]}) attributes {rt.symbols = [], rt.results = []} {
  return
}

// -----

// expected-error@+1 {{nn.sizes of argument 0 names "n", rt.symbols does not}}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = [], rt.results = []} {
  return
}

// -----

// expected-error@+1 {{rt.symbols names "m", no argument does}}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n", "m"], rt.results = []} {
  return
}

// -----

// expected-error@+1 {{rt.results describes result 0 as {nn.sizes = [""]}, must be a dictionary with the tensor's `type`}}
func.func @main() attributes {rt.symbols = [], rt.results = [{nn.sizes = [""]}]} {
  return
}

// -----

// expected-error@+1 {{result 0 is 'tensor<?x4xf32>' and needs nn.sizes with a string for each dimension}}
func.func @main() attributes {rt.symbols = [], rt.results = [{nn.sizes = ["n"], type = tensor<?x4xf32>}]} {
  return
}

// -----

func.func @main() attributes {rt.symbols = [], rt.results = [{type = tensor<4xf32>}]} {
  // expected-error@+1 {{is 'memref<8xf32>', rt.results describes result 0 as 'tensor<4xf32>'}}
  %o = rt.output 0 () : memref<8xf32>
  return
}

// -----

func.func @main() attributes {rt.symbols = [], rt.results = [{type = tensor<8xf32>}]} {
  %c2 = arith.constant 2 : index
  %o = rt.output 0 () : memref<8xf32>
  // expected-error@+1 {{comes after a buffer was made; sizes are checked first}}
  rt.check %c2 at_most %c2 {left_text = "2", right_text = "2", why = ""}
  return
}

// -----

// Work writes what belongs to the call, states and results.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.constant @c layout(#rt.row_major) : tensor<8xf32> {
  %c = arith.constant dense<1.0> : tensor<8xf32>
  rt.yield %c : tensor<8xf32>
}
func.func @main(%x: memref<8xf32>) attributes {rt.symbols = [], rt.results = []} {
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %c = rt.constant_data @c : memref<8xf32>
  // expected-error@+1 {{'rt.copy' op writes a constant (output 0)}}
  %e = rt.copy %x to %c on %q : !rt.queue<@cpu> : memref<8xf32> to memref<8xf32>
  return
}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(%x: tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []} {
  rt.yield %x : tensor<8xf32>
}
func.func @main(%s: memref<8xf32> {nn.state}, %x: memref<2x4xf32>) attributes {rt.symbols = [], rt.results = []} {
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %v = memref.collapse_shape %x [[0, 1]] : memref<2x4xf32> into memref<8xf32>
  %d = rt.dispatch @relu on %q : !rt.queue<@cpu> ins(%v : memref<8xf32>) outs(%s : memref<8xf32>)
  // expected-error@+1 {{'rt.dispatch' op writes an input of the function, which has no nn.state (output 0)}}
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> ins(%s : memref<8xf32>) outs(%v : memref<8xf32>)
  return
}

// -----

// A compiled kernel is launched for the sizes that it says.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {root = #nn.root<rows>, sizes = ["s0"]}
func.func @main(%x: memref<?xf32> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = [{type = tensor<8xf32>}]} {
  %n = rt.symbol "n"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 () : memref<8xf32>
  // expected-error@+1 {{output 0 has 8 at dimension 0, kernel @relu is launched for n}}
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<8xf32>)
  return
}

// -----

// Buffers are made and sizes are checked before control flow.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
func.func @main(%f: memref<1xi1>) attributes {rt.symbols = [], rt.results = [{type = tensor<8xf32>}]} {
  %c0 = arith.constant 0 : index
  %c = memref.load %f[%c0] : memref<1xi1>
  scf.if %c {
    // expected-error@+1 {{stands in control flow; sizes are checked and buffers made before any}}
    %o = rt.output 0 () : memref<8xf32>
  }
  return
}

// -----

// All work of a region is done at its ends.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
func.func @main(%x: memref<8xf32>, %f: memref<1xi1>) attributes {rt.symbols = [], rt.results = [{type = tensor<8xf32>}]} {
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %c0 = arith.constant 0 : index
  %c = memref.load %f[%c0] : memref<1xi1>
  %o = rt.output 0 () : memref<8xf32>
  %e = rt.copy %x to %o on %q : !rt.queue<@cpu> : memref<8xf32> to memref<8xf32>
  scf.if %c {
    // expected-error@+1 {{waits for an event of another block; work is waited for in the block that starts it}}
    rt.wait %e
  }
  return
}

// -----

func.func @main(%f: memref<1xi1>) attributes {rt.symbols = [], rt.results = []} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{carries a 'memref<1xi1>'; control flow of host programs passes integers alone}}
  scf.while (%now = %f) : (memref<1xi1>) -> () {
    %c = memref.load %now[%c0] : memref<1xi1>
    scf.condition(%c)
  } do {
    scf.yield %f : memref<1xi1>
  }
  return
}

// -----

func.func @main(%f: memref<1xf32>) attributes {rt.symbols = [], rt.results = []} {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{reads 'f32' from 'memref<1xf32>'; the host reads integers in its own memory}}
  %v = memref.load %f[%c0] : memref<1xf32>
  return
}

// -----

func.func @main(%f: memref<?xi64> {nn.sizes = ["n"]}) attributes {rt.symbols = ["n"], rt.results = []} {
  %c2 = arith.constant 2 : index
  // expected-error@+1 {{reads index 2 of n elements; no rt.check says that there are so many}}
  %v = memref.load %f[%c2] : memref<?xi64>
  return
}

// -----

func.func @main(%f: memref<4x?xi64> {nn.sizes = ["", "n"]}) attributes {rt.symbols = ["n"], rt.results = []} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{reads behind a dynamic dimension of 'memref<4x?xi64>'}}
  %v = memref.load %f[%c1, %c0] : memref<4x?xi64>
  return
}
