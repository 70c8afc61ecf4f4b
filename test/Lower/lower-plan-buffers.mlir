// RUN: intarsia-opt %s --lower-plan-buffers --split-input-file | FileCheck %s

rt.kernel @relu(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?x64xf32>
  rt.yield %r : tensor<?x64xf32>
}

// Buffers that live at different times share a slot: of three in a chain the third takes the first's. What reads the
// old contents has happened before the new are written, here by the chain itself.
func.func @chain(%x: memref<?x64xf32>) attributes {rt.symbols = ["rows"], rt.results = []} {
  %n = rt.symbol "rows"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?x64xf32>
  %a = rt.alloc (%n) : memref<?x64xf32>
  %e0 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?x64xf32>) outs(%a : memref<?x64xf32>)
  %b = rt.alloc (%n) : memref<?x64xf32>
  %e1 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e0) sizes(%n) ins(%a : memref<?x64xf32>) outs(%b : memref<?x64xf32>)
  %c = rt.alloc (%n) : memref<?x64xf32>
  %e2 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e1) sizes(%n) ins(%b : memref<?x64xf32>) outs(%c : memref<?x64xf32>)
  %e3 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e2) sizes(%n) ins(%c : memref<?x64xf32>) outs(%o : memref<?x64xf32>)
  rt.wait %e3
  return
}
// CHECK-LABEL: func.func @chain
// CHECK: %[[N:.*]] = rt.symbol "rows"
// CHECK: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: %[[C256:.*]] = arith.constant 256 : index
// CHECK: %[[ONE:.*]] = arith.muli %[[N]], %[[C256]]
// CHECK: %[[C512:.*]] = arith.constant 512 : index
// CHECK: %[[TWO:.*]] = arith.muli %[[N]], %[[C512]]
// CHECK: %[[W:.*]] = rt.workspace %[[TWO]] : memref<?xi8>
// CHECK-NOT: rt.alloc
// CHECK: %[[A:.*]] = memref.view %[[W]][%[[ZERO]]][%[[N]]]
// CHECK: %[[E0:.*]] = rt.dispatch {{.*}} outs(%[[A]] :
// CHECK: %[[B:.*]] = memref.view %[[W]][%[[ONE]]][%[[N]]]
// CHECK: %[[E1:.*]] = rt.dispatch @relu on %{{.*}} : !rt.queue<@cpu> after(%[[E0]]) {{.*}} outs(%[[B]] :
// CHECK: %[[C:.*]] = memref.view %[[W]][%[[ZERO]]][%[[N]]]
// CHECK: %[[E2:.*]] = rt.dispatch @relu on %{{.*}} : !rt.queue<@cpu> after(%[[E1]]) {{.*}} outs(%[[C]] :
// CHECK: rt.dispatch @relu on %{{.*}} : !rt.queue<@cpu> after(%[[E2]])

// Two chains at once: when the second takes the first's slot it also waits for the first's last consumer.
func.func @unrelated(%x: memref<?x64xf32>) attributes {rt.symbols = ["rows"], rt.results = []} {
  %n = rt.symbol "rows"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?x64xf32>
  %p = rt.output 1 (%n) : memref<?x64xf32>
  %a = rt.alloc (%n) : memref<?x64xf32>
  %e0 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?x64xf32>) outs(%a : memref<?x64xf32>)
  %e1 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e0) sizes(%n) ins(%a : memref<?x64xf32>) outs(%o : memref<?x64xf32>)
  %b = rt.alloc (%n) : memref<?x64xf32>
  %e2 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?x64xf32>) outs(%b : memref<?x64xf32>)
  %e3 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e2) sizes(%n) ins(%b : memref<?x64xf32>) outs(%p : memref<?x64xf32>)
  rt.wait %e1, %e3
  return
}
// CHECK-LABEL: func.func @unrelated
// CHECK: %[[E0:.*]] = rt.dispatch
// CHECK: %[[E1:.*]] = rt.dispatch @relu on %{{.*}} : !rt.queue<@cpu> after(%[[E0]])
// CHECK: %[[E2:.*]] = rt.dispatch @relu on %{{.*}} : !rt.queue<@cpu> after(%[[E1]])
// CHECK: %[[E3:.*]] = rt.dispatch @relu on %{{.*}} : !rt.queue<@cpu> after(%[[E2]])
// CHECK: rt.wait %[[E3]]

// A buffer that is read to the end shares its slot with none.
func.func @live(%x: memref<?x64xf32>) attributes {rt.symbols = ["rows"], rt.results = []} {
  %n = rt.symbol "rows"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?x64xf32>
  %a = rt.alloc (%n) : memref<?x64xf32>
  %e0 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n) ins(%x : memref<?x64xf32>) outs(%a : memref<?x64xf32>)
  %b = rt.alloc (%n) : memref<?x64xf32>
  %e1 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e0) sizes(%n) ins(%a : memref<?x64xf32>) outs(%b : memref<?x64xf32>)
  %c = rt.alloc (%n) : memref<?x64xf32>
  %e2 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e1) sizes(%n) ins(%b : memref<?x64xf32>) outs(%c : memref<?x64xf32>)
  %e3 = rt.copy %a to %o on %q : !rt.queue<@cpu> after(%e0) sizes(%n) : memref<?x64xf32> to memref<?x64xf32>
  rt.wait %e2, %e3
  return
}
// CHECK-LABEL: func.func @live
// CHECK: %[[C768:.*]] = arith.constant 768 : index
// CHECK: %[[BYTES:.*]] = arith.muli %{{.*}}, %[[C768]]
// CHECK: rt.workspace %[[BYTES]]

// -----

rt.kernel @k(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s1"]}) attributes {device = @cpu, root = #nn.root<generic>, sizes = ["s0", "s1"]} {
  rt.yield %x : tensor<?xf32>
}

// Sizes that cannot be compared share a slot of the larger one; a size that is no multiple of 64 bytes is rounded up.
func.func @incomparable(%x: memref<?xf32>) attributes {rt.symbols = ["a", "b"], rt.results = []} {
  %a = rt.symbol "a"
  %b = rt.symbol "b"
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%a) : memref<?xf32>
  %t = rt.alloc (%a) : memref<?xf32>
  %e0 = rt.dispatch @k on %q : !rt.queue<@cpu> sizes(%a, %a) ins(%x : memref<?xf32>) outs(%t : memref<?xf32>)
  %e1 = rt.dispatch @k on %q : !rt.queue<@cpu> after(%e0) sizes(%a, %b) ins(%t : memref<?xf32>) outs(%o : memref<?xf32>)
  %u = rt.alloc (%b) : memref<?xf32>
  %e2 = rt.dispatch @k on %q : !rt.queue<@cpu> after(%e1) sizes(%a, %b) ins(%x : memref<?xf32>) outs(%u : memref<?xf32>)
  rt.wait %e2
  return
}
// CHECK-LABEL: func.func @incomparable
// CHECK: %[[A:.*]] = rt.symbol "a"
// CHECK: %[[B:.*]] = rt.symbol "b"
// CHECK: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: %[[FOUR:.*]] = arith.constant 4 : index
// CHECK: %[[BA:.*]] = arith.muli %[[A]], %[[FOUR]]
// CHECK: %[[BB:.*]] = arith.muli %[[B]], %[[FOUR]]
// CHECK: %[[MAX:.*]] = arith.maxsi %[[BA]], %[[BB]]
// CHECK: %[[C64:.*]] = arith.constant 64 : index
// CHECK: %[[LINES:.*]] = arith.ceildivsi %[[MAX]], %[[C64]]
// CHECK: %[[UP:.*]] = arith.muli %[[LINES]], %[[C64]]
// CHECK: %[[BYTES:.*]] = arith.addi %[[ZERO]], %[[UP]]
// CHECK: rt.workspace %[[BYTES]]

// A buffer that nothing uses gets no slot.
func.func @unused() attributes {rt.symbols = ["a"], rt.results = []} {
  %a = rt.symbol "a"
  %t = rt.alloc (%a) : memref<?xf32>
  return
}
// CHECK-LABEL: func.func @unused
// CHECK-NOT: rt.workspace
// CHECK-NOT: rt.alloc

// -----

// A part of a size may be negative: 16 rows are not known to fit into (n - 3) floordiv 2 + 16, nor the other way round.
rt.kernel @relu(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x64xf32> {nn.sizes = ["s1", ""]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  %r = nn.relu %x : tensor<?x64xf32>
  rt.yield %r : tensor<?x64xf32>
}
func.func @signs(%x: memref<?x64xf32> {nn.sizes = ["n", ""]}) attributes {rt.symbols = ["n"], rt.results = []} {
  %n = rt.symbol "n"
  %c2 = arith.constant 2 : index
  %c-3 = arith.constant -3 : index
  %c16 = arith.constant 16 : index
  %less = arith.addi %n, %c-3 : index
  %half = arith.floordivsi %less, %c2 : index
  %rows = arith.addi %half, %c16 : index
  %q = rt.get_queue 0 : !rt.queue<@cpu>
  %o = rt.output 0 (%n) : memref<?x64xf32>
  %a = rt.alloc (%rows) : memref<?x64xf32>
  %e0 = rt.dispatch @relu on %q : !rt.queue<@cpu> sizes(%n, %rows) ins(%x : memref<?x64xf32>) outs(%a : memref<?x64xf32>)
  %b = rt.alloc (%n) : memref<?x64xf32>
  %e1 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e0) sizes(%rows, %n) ins(%a : memref<?x64xf32>) outs(%b : memref<?x64xf32>)
  %c = rt.alloc (%c16) : memref<?x64xf32>
  %e2 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e1) sizes(%n, %c16) ins(%b : memref<?x64xf32>) outs(%c : memref<?x64xf32>)
  %e3 = rt.dispatch @relu on %q : !rt.queue<@cpu> after(%e2) sizes(%c16, %n) ins(%c : memref<?x64xf32>) outs(%o : memref<?x64xf32>)
  rt.wait %e3
  return
}
// CHECK-LABEL: func.func @signs
// CHECK: arith.maxsi
// CHECK: rt.workspace
