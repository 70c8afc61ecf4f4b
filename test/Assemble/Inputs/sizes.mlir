// Lowered IR with sizes that no call may have, without the checks that the lower phase makes.

rt.kernel @relu(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}

// Buffers of n - 8 elements in a workspace that is large enough.
func.func @negative(%x: memref<?xf32> {nn.name = "x", nn.sizes = ["n"]}) attributes {rt.results = [{nn.name = "y", nn.sizes = ["n"], type = tensor<?xf32>}], rt.symbols = ["n"]} {
  %n = rt.symbol "n"
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %less = arith.subi %n, %c8 : index
  %bytes = arith.muli %n, %c64 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  %w = rt.workspace %bytes : memref<?xi8>
  %b = memref.view %w[%c0][%less] : memref<?xi8> to memref<?xf32>
  %e0 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%less) ins(%b : memref<?xf32>) outs(%b : memref<?xf32>) {label = "first"}
  %e1 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e0) sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>) {label = "second"}
  rt.wait %e1
  return
}

// A launch on n / (n - 8) elements.
func.func @quotient(%x: memref<?xf32> {nn.name = "x", nn.sizes = ["n"]}) attributes {rt.results = [{nn.name = "y", nn.sizes = ["n"], type = tensor<?xf32>}], rt.symbols = ["n"]} {
  %n = rt.symbol "n"
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %less = arith.subi %n, %c8 : index
  %quotient = arith.floordivsi %n, %less : index
  %bytes = arith.muli %n, %c64 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  %w = rt.workspace %bytes : memref<?xi8>
  %b = memref.view %w[%c0][%quotient] : memref<?xi8> to memref<?xf32>
  %e0 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%quotient) ins(%b : memref<?xf32>) outs(%b : memref<?xf32>) {label = "third"}
  %e1 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e0) sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e1
  return
}

// A buffer that ends 8 bytes before the workspace, or behind it.
func.func @outside(%x: memref<?xf32> {nn.name = "x", nn.sizes = ["n"]}) attributes {rt.results = [{nn.name = "y", nn.sizes = ["n"], type = tensor<?xf32>}], rt.symbols = ["n"]} {
  %n = rt.symbol "n"
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  %w = rt.workspace %c64 : memref<?xi8>
  %b = memref.view %w[%c16][%n] : memref<?xi8> to memref<?xf32>
  %e0 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?xf32>) outs(%b : memref<?xf32>)
  %e1 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e0) sizes(%n) ins(%b : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e1
  return
}

// Divisions that round to zero and down agree on sizes alone: n - 8 is none where n is less than 8.
func.func @dividend(%x: memref<?xf32> {nn.name = "x", nn.sizes = ["n"]}) attributes {rt.results = [{nn.name = "y", nn.sizes = ["n"], type = tensor<?xf32>}], rt.symbols = ["n"]} {
  %n = rt.symbol "n"
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c1000 = arith.constant 1000 : index
  %less = arith.subi %n, %c8 : index
  %down = arith.floordivsi %less, %c16 : index
  %unsigned = arith.divui %less, %c16 : index
  %size = arith.addi %down, %c1000 : index
  %same = arith.addi %unsigned, %c1000 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%size) : memref<?xf32>
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%same) ins(%o : memref<?xf32>) outs(%o : memref<?xf32>) {label = "fourth"}
  rt.wait %e
  return
}

// n^16 bytes of workspace.
func.func @workspace(%x: memref<?xf32> {nn.name = "x", nn.sizes = ["n"]}) attributes {rt.results = [{nn.name = "y", nn.sizes = ["n"], type = tensor<?xf32>}], rt.symbols = ["n"]} {
  %n = rt.symbol "n"
  %n2 = arith.muli %n, %n : index
  %n4 = arith.muli %n2, %n2 : index
  %n8 = arith.muli %n4, %n4 : index
  %n16 = arith.muli %n8, %n8 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  %w = rt.workspace %n16 : memref<?xi8>
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

// A result of n^16 elements; and a size that is compared: n^16 is 0 where n is 16 and only 64 bits are kept.
func.func @output(%x: memref<?xf32> {nn.name = "x", nn.sizes = ["n"]}) attributes {rt.results = [{nn.name = "y", nn.sizes = ["n * n"], type = tensor<?xf32>}], rt.symbols = ["n"]} {
  %n = rt.symbol "n"
  %n2 = arith.muli %n, %n : index
  %n4 = arith.muli %n2, %n2 : index
  %n8 = arith.muli %n4, %n4 : index
  %n16 = arith.muli %n8, %n8 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n16) : memref<?xf32>
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n16) ins(%o : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}

func.func @check(%x: memref<?xf32> {nn.name = "x", nn.sizes = ["n"]}) attributes {rt.results = [{nn.name = "y", nn.sizes = ["n"], type = tensor<?xf32>}], rt.symbols = ["n"]} {
  %n = rt.symbol "n"
  %n2 = arith.muli %n, %n : index
  %n4 = arith.muli %n2, %n2 : index
  %n8 = arith.muli %n4, %n4 : index
  %n16 = arith.muli %n8, %n8 : index
  rt.check %n16 at_most %n {left_text = "n^16", right_text = "n", why = "'a test' needs it"}
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?xf32>
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?xf32>) outs(%o : memref<?xf32>)
  rt.wait %e
  return
}
