// RUN: intarsia-opt %s --lower-plan-buffers --split-input-file --verify-diagnostics

rt.kernel @relu(%x: tensor<?x2147483648x2147483648xf32> {nn.sizes = ["s0", "", ""]}) -> (tensor<?x2147483648x2147483648xf32> {nn.sizes = ["s0", "", ""]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?x2147483648x2147483648xf32>
  rt.yield %r : tensor<?x2147483648x2147483648xf32>
}

// A buffer whose bytes do not fit in 64 bits whatever the sizes of the call are.
func.func @one(%x: memref<?x2147483648x2147483648xf32>) attributes {rt.symbols = ["rows"], rt.results = []} {
  %n = rt.symbol "rows"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  // expected-error@+1 {{'rt.alloc' op of type 'memref<?x2147483648x2147483648xf32>' has more bytes than 64 bits hold}}
  %a = rt.alloc (%n) : memref<?x2147483648x2147483648xf32>
  %e = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?x2147483648x2147483648xf32>) outs(%a : memref<?x2147483648x2147483648xf32>)
  rt.wait %e
  return
}

// -----

rt.kernel @relu(%x: tensor<1073741824x1073741824xf32>) -> tensor<1073741824x1073741824xf32> attributes {device = @cpu, root = #nn.root<rows>, sizes = []} {
  %r = nn.relu %x : tensor<1073741824x1073741824xf32>
  rt.yield %r : tensor<1073741824x1073741824xf32>
}

// Two of 2^62 bytes that are needed at once.
// expected-error@+1 {{'func.func' op has buffers of more bytes than 64 bits hold}}
func.func @two(%x: memref<1073741824x1073741824xf32>) attributes {rt.symbols = [], rt.results = []} {
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %a = rt.alloc () : memref<1073741824x1073741824xf32>
  %b = rt.alloc () : memref<1073741824x1073741824xf32>
  %e0 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes() ins(%x : memref<1073741824x1073741824xf32>) outs(%a : memref<1073741824x1073741824xf32>)
  %e1 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e0) sizes() ins(%a : memref<1073741824x1073741824xf32>) outs(%b : memref<1073741824x1073741824xf32>)
  rt.wait %e1
  return
}
