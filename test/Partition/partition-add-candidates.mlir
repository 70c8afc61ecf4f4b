// RUN: intarsia-opt %s --split-input-file --partition-add-candidates | FileCheck %s

// Logits that stay on a device with memory of its own.
rt.device @cuda {target = #rt.target<"cuda", ["sm_80"]>}
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

// CHECK-LABEL: func.func @step(
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["outputs", ""]}, %w: tensor<320x64xf32>,
                %c: tensor<?x8xf32> {nn.name = "c", nn.sizes = ["sequences", ""], nn.state})
    -> (tensor<?x320xf32> {nn.name = "logits", nn.sizes = ["outputs", ""]}, tensor<?x8xf32> {nn.name = "c", nn.state = 2 : i64}) {
  %y = nn.linear %x, %w : (tensor<?x64xf32>, tensor<320x64xf32>) -> tensor<?x320xf32>
  return %y, %c : tensor<?x320xf32>, tensor<?x8xf32>
}
// CHECK:      func.func @step_candidates(%[[LOGITS:.*]]: tensor<?x320xf32> {nn.name = "logits", nn.sizes = ["outputs", ""]},
// CHECK-SAME:     %[[TEMPERATURES:.*]]: tensor<?x2xf32> {nn.name = "temperatures", nn.sizes = ["outputs", ""]})
// CHECK-SAME:     -> (tensor<?x64xf32> {nn.name = "values", nn.sizes = ["outputs", ""]}, tensor<?x64xi32> {nn.name = "tokens", {{.*}}}, tensor<?x2xf32> {nn.name = "sums", {{.*}}})
// CHECK-NEXT:   nn.candidates %[[LOGITS]], %[[TEMPERATURES]] {count = 64 : i64} :
// CHECK-LABEL: func.func @other
// CHECK-NOT:   @other_candidates

// No function with state.
func.func @other(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["outputs", ""]}, %w: tensor<320x64xf32>)
    -> (tensor<?x320xf32> {nn.name = "logits", nn.sizes = ["outputs", ""]}) {
  %y = nn.linear %x, %w : (tensor<?x64xf32>, tensor<320x64xf32>) -> tensor<?x320xf32>
  return %y : tensor<?x320xf32>
}

// -----

// Of a small vocabulary all tokens are candidates. The function runs where the logits are, through reshapes.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}

// CHECK-LABEL: func.func @step_candidates
// CHECK:         nn.candidates %{{.*}}, %{{.*}} {count = 32 : i64, rt.device = @reference}
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["outputs", ""]}, %w: tensor<32x64xf32>,
                %c: tensor<?x8xf32> {nn.name = "c", nn.sizes = ["sequences", ""], nn.state})
    -> (tensor<?x32xf32> {nn.name = "logits", nn.sizes = ["outputs", ""]}, tensor<?x8xf32> {nn.name = "c", nn.state = 2 : i64}) {
  %y = nn.linear %x, %w {rt.device = @reference} : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  %z = tensor.cast %y : tensor<?x32xf32> to tensor<?x32xf32>
  return %z, %c : tensor<?x32xf32>, tensor<?x8xf32>
}

// -----

// Logits in memory of the host: the other device is used for something else, so that there is no alternative on it.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}

// CHECK-LABEL: func.func @step(
// CHECK-NOT:   step_candidates
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["outputs", ""]}, %w: tensor<32x64xf32>,
                %c: tensor<?x8xf32> {nn.name = "c", nn.sizes = ["sequences", ""], nn.state})
    -> (tensor<?x32xf32> {nn.name = "logits", nn.sizes = ["outputs", ""]}, tensor<?x8xf32> {nn.name = "c", nn.state = 2 : i64}) {
  %s = nn.silu %x {rt.device = @reference} : tensor<?x64xf32>
  %y = nn.linear %s, %w : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y, %c : tensor<?x32xf32>, tensor<?x8xf32>
}

// -----

// Nothing is placed on the other device: the step gets an alternative there, and so does this function.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}

// CHECK-LABEL: func.func @step(
// CHECK:       func.func @step_candidates
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["outputs", ""]}, %w: tensor<32x64xf32>,
                %c: tensor<?x8xf32> {nn.name = "c", nn.sizes = ["sequences", ""], nn.state})
    -> (tensor<?x32xf32> {nn.name = "logits", nn.sizes = ["outputs", ""]}, tensor<?x8xf32> {nn.name = "c", nn.state = 2 : i64}) {
  %y = nn.linear %x, %w : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y, %c : tensor<?x32xf32>, tensor<?x8xf32>
}

// -----

// A function of this name is kept as it is.
rt.device @reference {target = #rt.target<"reference", ["native"]>}

// CHECK-LABEL: func.func @step(
// CHECK:       func.func @step_candidates(%{{.*}}: tensor<?x32xf32>) -> tensor<?x32xf32>
// CHECK-NOT:   nn.candidates
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["outputs", ""]}, %w: tensor<32x64xf32>,
                %c: tensor<?x8xf32> {nn.name = "c", nn.sizes = ["sequences", ""], nn.state})
    -> (tensor<?x32xf32> {nn.name = "logits", nn.sizes = ["outputs", ""]}, tensor<?x8xf32> {nn.name = "c", nn.state = 2 : i64}) {
  %y = nn.linear %x, %w : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y, %c : tensor<?x32xf32>, tensor<?x8xf32>
}
func.func @step_candidates(%x: tensor<?x32xf32>) -> tensor<?x32xf32> {
  return %x : tensor<?x32xf32>
}
