// RUN: intarsia-opt %s --lower-groups-to-kernels | FileCheck %s
// RUN: intarsia-opt %s --intarsia-lower | FileCheck %s --check-prefix=PLAN

// A value goes to the memory of the device that reads it, once, and right behind the kernel that computes it. An input
// that one device alone reads is in the device's memory, and so is a result that nothing reads on another device.

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}

// CHECK: rt.kernel @rows_relu_64({{.*}}attributes {device = @reference
// CHECK: rt.kernel @rows_tanh_64({{.*}}attributes {device = @cpu

// CHECK-LABEL: func.func @alternate
// CHECK-SAME: (%[[X:.*]]: memref<?x64xf32, #rt.memory<@reference>> {{.*}})
// CHECK-DAG: %[[CPU:.*]] = rt.get_queue 0 : !rt.queue<@cpu>
// CHECK-DAG: %[[REF:.*]] = rt.get_queue 0 : !rt.queue<@reference>
// CHECK-DAG: %[[COPY:.*]] = rt.get_queue 1 : !rt.queue<@reference>
// CHECK: %[[OUT:.*]] = rt.output 0(%{{.*}}) : memref<?x64xf32>
// The second result is read on the host too: the copy there is the result.
// CHECK: %[[BACK:.*]] = rt.output 1(%{{.*}}) : memref<?x64xf32>
// CHECK: %[[A:.*]] = rt.alloc(%{{.*}}) : memref<?x64xf32, #rt.memory<@reference>>
// CHECK: %[[E1:.*]] = rt.dispatch @rows_relu_64 on %[[REF]] : !rt.queue<@reference> sizes(%{{.*}}) ins(%[[X]] : memref<?x64xf32, #rt.memory<@reference>>) outs(%[[A]] :
// CHECK-NOT: rt.alloc
// CHECK: %[[E2:.*]] = rt.copy %[[A]] to %[[BACK]] on %[[COPY]] : !rt.queue<@reference> after(%[[E1]])
// CHECK: %[[E3:.*]] = rt.dispatch @rows_tanh_64 on %[[CPU]] : !rt.queue<@cpu> after(%[[E2]]) {{.*}} ins(%[[BACK]] : memref<?x64xf32>) outs(%[[OUT]] : memref<?x64xf32>)
// CHECK-NOT: rt.copy
// CHECK: return

func.func @alternate(%x: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "x"}) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %0 = nn.group rows(%a = %x) {rt.device = @reference} : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %1 = nn.group rows(%a = %0) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.tanh %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  return %1, %0 : tensor<?x64xf32>, tensor<?x64xf32>
}

// An input that the host reads too, or that is a result, is in the memory of the host. Results of a device are in its
// memory, under any view; what is a result twice is copied.

// CHECK-LABEL: func.func @inputs
// CHECK-SAME: (%[[BOTH:[^:]*]]: memref<?x64xf32> {{.*}}, %[[GIVEN:[^:]*]]: memref<?x64xf32> {{.*}}, %[[THERE:[^:]*]]: memref<?x64xf32, #rt.memory<@reference>>
// CHECK-DAG: rt.output 0(%{{.*}}) : memref<?x64xf32>
// CHECK-DAG: %[[VIEW:.*]] = rt.output 1(%{{.*}}) : memref<?x8x8xf32, #rt.memory<@reference>>
// CHECK-DAG: %[[FLAT:.*]] = memref.collapse_shape %[[VIEW]]
// CHECK-DAG: %[[SAME:.*]] = rt.output 2(%{{.*}}) : memref<?x64xf32>
// CHECK-DAG: %[[LAST:.*]] = rt.output 3(%{{.*}}) : memref<?x64xf32, #rt.memory<@reference>>
// CHECK-DAG: %[[PASSED:.*]] = rt.output 4(%{{.*}}) : memref<?x64xf32>
// CHECK: %[[E0:.*]] = rt.copy %[[BOTH]] to %[[COPIED:[^ ]*]]
// CHECK: %[[E1:.*]] = rt.dispatch @rows_relu_64 {{.*}} after(%[[E0]]) {{.*}} ins(%[[COPIED]] {{.*}} outs(%[[FLAT]] :
// CHECK: rt.dispatch @rows_relu_64 {{.*}} ins(%[[THERE]] {{.*}} outs(%[[LAST]] :
// CHECK: rt.copy %[[FLAT]] to %[[SAME]] {{.*}} after(%[[E1]]) {{.*}}: memref<?x64xf32, #rt.memory<@reference>> to memref<?x64xf32>
// CHECK: rt.copy %[[GIVEN]] to %[[PASSED]]
func.func @inputs(%both: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "both"},
                  %given: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "given"},
                  %there: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "there"})
    -> (tensor<?x64xf32>, tensor<?x8x8xf32>, tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) {
  %zero = arith.constant 0 : index
  %n = tensor.dim %both, %zero : tensor<?x64xf32>
  %0 = nn.group rows(%a = %both) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.tanh %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %1 = nn.group rows(%a = %both) {rt.device = @reference} : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %2 = nn.group rows(%a = %there) {rt.device = @reference} : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %3 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [%n, 8, 8] : tensor<?x64xf32> into tensor<?x8x8xf32>
  return %0, %3, %1, %2, %given : tensor<?x64xf32>, tensor<?x8x8xf32>, tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
}

// Values between kernels are in the workspace of their memory.

// PLAN-LABEL: func.func @workspaces
// PLAN-DAG: %[[H:.*]] = rt.workspace %{{.*}} : memref<?xi8>
// PLAN-DAG: %[[D:.*]] = rt.workspace %{{.*}} : memref<?xi8, #rt.memory<@reference>>
// PLAN-DAG: memref.view %[[D]]{{.*}} : memref<?xi8, #rt.memory<@reference>> to memref<?x64xf32, #rt.memory<@reference>>
// PLAN-DAG: memref.view %[[H]]{{.*}} : memref<?xi8> to memref<?x64xf32>
func.func @workspaces(%x: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "x"}) -> tensor<?x64xf32> {
  %0 = nn.group rows(%a = %x) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.tanh %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %1 = nn.group rows(%a = %0) {rt.device = @reference} : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  return %1 : tensor<?x64xf32>
}
