// RUN: intarsia-opt %s --target-compile-kernels --split-input-file --verify-diagnostics

// expected-error@below {{the module has no rt.device that says what it is compiled for}}
module {
}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
// expected-error@below {{'rt.kernel' op has no body that can be compiled}}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
// expected-error@below {{'rt.object' op is compiled already}}
rt.object @"cpu.x86-64-v3" {device = @cpu, host = "x86_64-unknown-linux-gnu", number = 0 : i64, variant = #rt.variant<"x86-64-v3", cpu = "">,
                          kernels = [], numbers = array<i64>, hash = "", code = []}

// -----

// expected-error@below {{kernels could not be lowered to LLVM}}
module {
  rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
  rt.kernel @power(%x: tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []} {
    // expected-error@below {{the cpu target cannot compile 'arith.remf' in kernel 'power'}}
    %r = arith.remf %x, %x : tensor<8xf32>
    rt.yield %r : tensor<8xf32>
  }
}
