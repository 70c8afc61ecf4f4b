// RUN: intarsia-opt %s --lower-groups-to-kernels | FileCheck %s
// RUN: intarsia-opt %s --intarsia-lower | FileCheck %s --check-prefix=PLAN

// A value goes to the memory of the device that reads it, once, and right behind the kernel that computes it. Results and
// inputs are in the memory of the host.

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}

// CHECK: rt.kernel @rows_relu_64({{.*}}attributes {device = @reference
// CHECK: rt.kernel @rows_tanh_64({{.*}}attributes {device = @cpu

// CHECK-LABEL: func.func @alternate
// CHECK-SAME: (%[[X:.*]]: memref<?x64xf32> {{.*}})
// CHECK-DAG: %[[CPU:.*]] = rt.get_queue 0 : !rt.queue<@cpu>
// CHECK-DAG: %[[REF:.*]] = rt.get_queue 0 : !rt.queue<@reference>
// CHECK-DAG: %[[COPY:.*]] = rt.get_queue 1 : !rt.queue<@reference>
// CHECK: %[[OUT:.*]] = rt.output 0
// CHECK: %[[THERE:.*]] = rt.alloc(%{{.*}}) : memref<?x64xf32, #rt.memory<@reference>>
// CHECK: %[[E0:.*]] = rt.copy %[[X]] to %[[THERE]] on %[[COPY]] : !rt.queue<@reference> sizes(%{{.*}}) : memref<?x64xf32> to memref<?x64xf32, #rt.memory<@reference>>
// CHECK: %[[A:.*]] = rt.alloc(%{{.*}}) : memref<?x64xf32, #rt.memory<@reference>>
// CHECK: %[[E1:.*]] = rt.dispatch @rows_relu_64 on %[[REF]] : !rt.queue<@reference> after(%[[E0]]) sizes(%{{.*}}) ins(%[[THERE]] : memref<?x64xf32, #rt.memory<@reference>>) outs(%[[A]] :
// CHECK: %[[BACK:.*]] = rt.alloc(%{{.*}}) : memref<?x64xf32>
// CHECK: %[[E2:.*]] = rt.copy %[[A]] to %[[BACK]] on %[[COPY]] : !rt.queue<@reference> after(%[[E1]])
// CHECK: %[[E3:.*]] = rt.dispatch @rows_tanh_64 on %[[CPU]] : !rt.queue<@cpu> after(%[[E2]]) {{.*}} ins(%[[BACK]] : memref<?x64xf32>) outs(%[[OUT]] : memref<?x64xf32>)
// The first result is read in the memory of the host too, where it has been copied.
// CHECK: rt.copy %[[BACK]] to %{{.*}} on %[[CPU]] : !rt.queue<@cpu> after(%[[E2]]) {{.*}}: memref<?x64xf32> to memref<?x64xf32>

// PLAN-LABEL: func.func @alternate
// PLAN-DAG: %[[H:.*]] = rt.workspace %{{.*}} : memref<?xi8>
// PLAN-DAG: %[[D:.*]] = rt.workspace %{{.*}} : memref<?xi8, #rt.memory<@reference>>
// PLAN-DAG: memref.view %[[D]]{{.*}} : memref<?xi8, #rt.memory<@reference>> to memref<?x64xf32, #rt.memory<@reference>>
// PLAN-DAG: memref.view %[[H]]{{.*}} : memref<?xi8> to memref<?x64xf32>
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
