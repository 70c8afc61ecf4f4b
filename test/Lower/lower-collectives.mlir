// RUN: intarsia-opt %s --lower-groups-to-kernels -split-input-file | FileCheck %s
// RUN: intarsia-opt %s --intarsia-lower -split-input-file | FileCheck %s --check-prefix=PLAN

// In a program of several devices, what ranks do together reads and writes memory of the host: what a device has computed
// is copied there, and what a device reads is copied to it.

shard.grid @world(shape = 2)
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}

// CHECK: shard.grid @world(shape = 2)
// CHECK-LABEL: func.func @main
// CHECK: %[[E1:.*]] = rt.dispatch @rows_relu_64 on {{.*}} outs(%[[A:.*]] : memref<?x64xf32, #rt.memory<@reference>>)
// CHECK: %[[E2:.*]] = rt.copy %[[A]] to %[[H:.*]] on {{.*}} after(%[[E1]])
// CHECK: %[[E3:.*]] = rt.collective all_reduce in [0, 1] from %[[H]] : memref<?x64xf32> to %[[S:.*]] : memref<?x64xf32> after(%[[E2]]) sizes(%{{.*}}) {label = "layer.down"}
// CHECK: %[[E4:.*]] = rt.dispatch @rows_tanh_64 on {{.*}} after(%[[E3]]) {{.*}} ins(%[[S]] : memref<?x64xf32>) outs(%[[T:.*]] : memref<?x64xf32>)
// CHECK: rt.collective all_reduce_max in [0, 1] from %[[T]] : memref<?x64xf32> to
// CHECK: %[[ONE:.*]] = memref.expand_shape %[[T]]
// CHECK: rt.collective all_gather in [0, 1] from %[[ONE]] : memref<1x?x64xf32> to %[[ALL:.*]] : memref<2x?x64xf32> after(%[[E4]]) {{.*}}

// The sum is written to memory that nothing reads or writes any more.
// PLAN-LABEL: func.func @main
// PLAN: rt.collective all_reduce
func.func @main(%x: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "x"}) -> (tensor<2x?x64xf32>, tensor<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %0 = nn.group rows(%a = %x) {rt.device = @reference} : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %1 = shard.all_reduce %0 on @world grid_axes = [0] : tensor<?x64xf32> -> tensor<?x64xf32> loc("layer.down")
  %2 = nn.group rows(%a = %1) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.tanh %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %3 = shard.all_reduce %2 on @world grid_axes = [0] reduction = max : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = tensor.expand_shape %2 [[0, 1], [2]] output_shape [1, %n, 64] : tensor<?x64xf32> into tensor<1x?x64xf32>
  %5 = shard.all_gather %4 on @world grid_axes = [0] gather_axis = 0 : tensor<1x?x64xf32> -> tensor<2x?x64xf32>
  return %5, %3 : tensor<2x?x64xf32>, tensor<?x64xf32>
}

// -----

// Of a sum a rank gets some rows; what all ranks compute of theirs is gathered to all rows, which nothing copies.

shard.grid @world(shape = 2)
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// CHECK-LABEL: func.func @rows
// CHECK: %[[N:.*]] = rt.symbol "n"
// CHECK: %[[E1:.*]] = rt.collective reduce_scatter_rows in [0, 1] from %{{.*}} : memref<?x64xf32> to %[[R:.*]] : memref<?x64xf32> after(%{{.*}}) sizes(%[[N]])
// CHECK: %[[E2:.*]] = rt.dispatch @rows_tanh_64 on {{.*}} after(%[[E1]]) {{.*}} ins(%[[R]] : memref<?x64xf32>) outs(%[[T:.*]] : memref<?x64xf32>)
// CHECK: %[[E3:.*]] = rt.collective all_gather_rows in [0, 1] from %[[T]] : memref<?x64xf32> to %[[ALL:.*]] : memref<?x64xf32> after(%[[E2]]) sizes(%[[N]])
// CHECK: rt.dispatch @rows_relu_64 on {{.*}} after(%[[E3]]) {{.*}} ins(%[[ALL]] : memref<?x64xf32>)
func.func @rows(%x: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "x"}) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %0 = nn.group rows(%a = %x) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %1 = shard.reduce_scatter %0 on @world grid_axes = [0] scatter_axis = 0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = nn.group rows(%a = %1) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.tanh %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %3 = shard.all_gather %2 on @world grid_axes = [0] gather_axis = 0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = tensor.extract_slice %3[0, 0] [%n, 64] [1, 1] : tensor<?x64xf32> to tensor<?x64xf32>
  %5 = nn.group rows(%a = %4) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  return %5 : tensor<?x64xf32>
}

// -----

// Sums of f32 whose messages are rounded; maxima, and sums of other types, are as they are.

shard.grid @world(shape = 2) {rt.messages = "int8"}
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// CHECK-LABEL: func.func @rounded
// CHECK: rt.collective all_reduce_int8 in [0, 1]
// CHECK: rt.collective all_reduce_max in [0, 1]
// CHECK: rt.collective reduce_scatter_rows_int8 in [0, 1]
// CHECK: rt.collective all_reduce in [0, 1] {{.*}}xf16>
func.func @rounded(%x: tensor<8x64xf32> {nn.name = "x"}, %h: tensor<8x64xf16> {nn.name = "h"})
    -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<4x64xf32>, tensor<8x64xf16>) {
  %0 = shard.all_reduce %x on @world grid_axes = [0] : tensor<8x64xf32> -> tensor<8x64xf32>
  %1 = shard.all_reduce %x on @world grid_axes = [0] reduction = max : tensor<8x64xf32> -> tensor<8x64xf32>
  %2 = shard.reduce_scatter %x on @world grid_axes = [0] scatter_axis = 0 : tensor<8x64xf32> -> tensor<4x64xf32>
  %3 = shard.all_reduce %h on @world grid_axes = [0] : tensor<8x64xf16> -> tensor<8x64xf16>
  return %0, %1, %2, %3 : tensor<8x64xf32>, tensor<8x64xf32>, tensor<4x64xf32>, tensor<8x64xf16>
}

// -----

// Parts are exchanged along the first dimension, and a result is written in place.

shard.grid @world(shape = 2)
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// CHECK-LABEL: func.func @exchange
// CHECK: %[[OUTPUT:.*]] = rt.output 0
// CHECK: rt.collective all_to_all in [0, 1] from %arg0 : memref<2x64xf32> to %[[OUTPUT]] : memref<2x64xf32>
func.func @exchange(%x: tensor<2x64xf32> {nn.name = "x"}) -> tensor<2x64xf32> {
  %0 = shard.all_to_all %x on @world grid_axes = [0] split_axis = 0 concat_axis = 0 : tensor<2x64xf32> -> tensor<2x64xf32>
  return %0 : tensor<2x64xf32>
}

// -----

// A broadcast of a result is left out by calls that want no results; one that a kernel reads is not. It writes the result
// in place.

shard.grid @world(shape = 2)
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// CHECK-LABEL: func.func @results
// CHECK: %[[OUTPUT:.*]] = rt.output 1
// CHECK: rt.collective broadcast in [1, 0]
// CHECK: rt.collective broadcast_result in [0, 1] from %{{.*}} to %[[OUTPUT]] :
// CHECK-NOT: rt.copy
// CHECK: return
func.func @results(%x: tensor<8x64xf32> {nn.name = "x"}) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %0 = shard.broadcast %x on @world grid_axes = [0] root = [1] : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = nn.group rows(%a = %0) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
    %r = nn.relu %a : tensor<8x64xf32>
    nn.yield %r : tensor<8x64xf32>
  }
  %2 = shard.broadcast %1 on @world grid_axes = [0] root = [0] : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %0, %2 : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// Where one device with a memory of its own runs the whole function, ranks exchange data there, on the queue of its kernels.
// What only callers read is exchanged in memory of the host.

shard.grid @world(shape = 2)
rt.device @gpu {target = #rt.target<"cuda", ["sm_80"]>}

// CHECK-LABEL: func.func @on_device
// CHECK: %[[QUEUE:.*]] = rt.get_queue 0 : !rt.queue<@gpu>
// CHECK: %[[E1:.*]] = rt.dispatch @rows_relu_64 on %[[QUEUE]] {{.*}} outs(%[[A:.*]] : memref<?x64xf32, #rt.memory<@gpu>>)
// CHECK: %[[E2:.*]] = rt.collective all_reduce in [0, 1] on %[[QUEUE]] : !rt.queue<@gpu> from %[[A]] : memref<?x64xf32, #rt.memory<@gpu>> to %[[S:.*]] : memref<?x64xf32, #rt.memory<@gpu>> after(%[[E1]]) sizes
// CHECK: %[[E3:.*]] = rt.dispatch @rows_tanh_64 on %[[QUEUE]] {{.*}} after(%[[E2]]) {{.*}} ins(%[[S]] : memref<?x64xf32, #rt.memory<@gpu>>) outs(%[[T:.*]] :
// CHECK: %[[E4:.*]] = rt.copy %[[T]] to %[[H:.*]] on {{.*}} after(%[[E3]])
// CHECK: rt.collective all_reduce_max in [0, 1] from %[[H]] : memref<?x64xf32> to %{{.*}} : memref<?x64xf32> after(%[[E4]])
func.func @on_device(%x: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "x"}) -> tensor<?x64xf32> {
  %0 = nn.group rows(%a = %x) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %1 = shard.all_reduce %0 on @world grid_axes = [0] : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = nn.group rows(%a = %1) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.tanh %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %3 = shard.all_reduce %2 on @world grid_axes = [0] reduction = max : tensor<?x64xf32> -> tensor<?x64xf32>
  return %3 : tensor<?x64xf32>
}

// -----

// The rows of a rank, what is gathered of them, and messages of a pipeline are on the device as well; broadcasts are not.

shard.grid @world(shape = 2)
rt.device @gpu {target = #rt.target<"cuda", ["sm_80"]>}

// CHECK-LABEL: func.func @rows_on_device
// CHECK: rt.collective reduce_scatter_rows in [0, 1] on %{{.*}} from %{{.*}} : memref<?x64xf32, #rt.memory<@gpu>> to %{{.*}} : memref<?x64xf32, #rt.memory<@gpu>>
// CHECK: rt.collective all_gather_rows in [0, 1] on %{{.*}} from %{{.*}} : memref<?x64xf32, #rt.memory<@gpu>> to %{{.*}} : memref<?x64xf32, #rt.memory<@gpu>>
// CHECK: rt.collective send in [0, 1] on %{{.*}} from %{{.*}} : memref<?x64xf32, #rt.memory<@gpu>>
// CHECK: rt.collective broadcast_result in [1, 0] to %{{.*}} : memref<?x64xf32> sizes
func.func @rows_on_device(%x: tensor<?x64xf32> {nn.sizes = ["n", ""], nn.name = "x"}) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %0 = nn.group rows(%a = %x) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %1 = shard.reduce_scatter %0 on @world grid_axes = [0] scatter_axis = 0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = nn.group rows(%a = %1) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.tanh %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %3 = shard.all_gather %2 on @world grid_axes = [0] gather_axis = 0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = tensor.extract_slice %3[0, 0] [%n, 64] [1, 1] : tensor<?x64xf32> to tensor<?x64xf32>
  %5 = nn.group rows(%a = %4) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    %r = nn.relu %a : tensor<?x64xf32>
    nn.yield %r : tensor<?x64xf32>
  }
  %6 = shard.send %5 on @world grid_axes = [0] destination = [1] : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %7 = shard.broadcast %5 on @world grid_axes = [0] root = [1] : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %7 : tensor<?x64xf32>
}
