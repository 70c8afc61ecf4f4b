// RUN: intarsia-opt %s --target-verify --split-input-file --verify-diagnostics

// What may leave the phase: no message.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 0>, hash = "99aa06d3014798d86001c324468d497f", code = []}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
// expected-error@below {{'rt.kernel' op is not compiled: run the target phase before (--start-from=target)}}
rt.kernel @relu(%x: tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []} {
  rt.yield %x : tensor<8xf32>
}

// -----

// expected-error@below {{has no rt.object with the code of its kernels}}
module {
  rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
  rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
// expected-error@below {{@cpu.x86-64-v3 has no code: its bytes were left out when the IR was written as text. Write it to a file named .mlirbc, or as text with --elide-resource-strings=false}}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 0>, hash = "99aa06d3014798d86001c324468d497f", code = [dense_resource<relu> : tensor<4xi8>]}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
// expected-error@below {{@cpu.x86-64-v3 has code with the hash 99aa06d3014798d86001c324468d497f, it was compiled to code with the hash 00}}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 0>, hash = "00", code = []}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
// expected-error@below {{@cpu.x86-64-v3 has no code of kernel @relu}}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [], numbers = array<i64>, hash = "99aa06d3014798d86001c324468d497f", code = []}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
// expected-error@below {{@cpu.x86-64-v3 has kernel @relu as number 1, in the module it is number 0: kernels stay in the order in which they were compiled}}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 1>, hash = "99aa06d3014798d86001c324468d497f", code = []}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
// expected-error@below {{is of @gpu, which is no rt.device of the module}}
rt.object @"cpu.x86-64-v3" {device = @gpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 0>, hash = "99aa06d3014798d86001c324468d497f", code = []}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
// expected-error@below {{@slow has no rt.object for the host x86_64-unknown-linux-gnu}}
rt.device @slow {target = #rt.target<"reference", ["native"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 0>, hash = "99aa06d3014798d86001c324468d497f", code = []}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
// expected-error@below {{@cpu.x86-64-v3 was compiled as variant number 1 of @cpu, and is number 0 for the host x86_64-unknown-linux-gnu}}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 1 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 0>, hash = "99aa06d3014798d86001c324468d497f", code = []}

// -----

rt.device @slow {target = #rt.target<"reference", ["native"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
// expected-error@below {{@slow.object has 0 pieces of code, its device loads one}}
rt.object @"slow.object" {device = @slow, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 0>, hash = "99aa06d3014798d86001c324468d497f", code = []}

// -----

// expected-error@below {{is of the unknown kind 'abacus'}}
rt.device @cpu {target = #rt.target<"abacus", ["native"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [@relu], numbers = array<i64: 0>, hash = "99aa06d3014798d86001c324468d497f", code = []}
