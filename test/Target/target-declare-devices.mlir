// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4,cpu:x86-64-v3" | FileCheck %s
// RUN: intarsia-opt %s --target-declare-devices | FileCheck %s --check-prefix=NATIVE
// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:aarch64" 2>&1 | FileCheck %s --check-prefix=ESTIMATED
// RUN: not intarsia-opt %s --target-declare-devices="targets=abacus:7" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not intarsia-opt %s --target-declare-devices="targets=cpu:z80" 2>&1 | FileCheck %s --check-prefix=PROCESSOR

// What was declared before is replaced.
// CHECK: rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4", "x86-64-v3"]>}
// CHECK-NOT: rt.device
// NATIVE: rt.device @cpu {target = #rt.target<"cpu", ["native"]>}
// ESTIMATED: remark: kernels were not measured on 'aarch64': costs, which decide what is fused, are estimated by the figures of cpu-x86-64-v3
// UNKNOWN: error: unknown target 'abacus:7': the targets are cpu
// PROCESSOR: error: unknown processor 'z80'
rt.device @cpu {target = #rt.target<"cpu", ["znver3"]>}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// A function of the same name keeps it.
// RUN: sed s/@main/@cpu/ %s | sed '/^rt.device/d' | intarsia-opt --target-declare-devices | FileCheck %s --check-prefix=TAKEN
// TAKEN: rt.device @cpu_0 {target = #rt.target<"cpu", ["native"]>}
// TAKEN: func.func @cpu(
