// RUN: intarsia-test-opt %s "--test-reference-object=output=%t.so" -o /dev/null
// RUN: llvm-readelf --dyn-syms --dynamic %t.so | FileCheck %s
// RUN: intarsia-test-opt %s "--test-reference-object=output=%t.again.so" -o /dev/null
// RUN: cmp %t.so %t.again.so
// RUN: intarsia-test-opt %s "--test-reference-object=output=%t.aarch64.so triple=aarch64-unknown-linux-gnu" -o /dev/null
// RUN: llvm-readelf --file-header --dyn-syms %t.aarch64.so | FileCheck %s --check-prefix=AARCH64
// RUN: llvm-readelf --string-dump=.rodata %t.so | FileCheck %s --check-prefix=NAMES

// The object needs no library: it exports its kernels and the table that the device fills.
// CHECK-NOT: NEEDED
// CHECK-DAG: UND memcpy
// CHECK-DAG: FUNC    GLOBAL PROTECTED {{.*}} itx_reference_kernel_0
// CHECK-DAG: FUNC    GLOBAL PROTECTED {{.*}} itx_reference_kernel_1
// CHECK-DAG: OBJECT  GLOBAL PROTECTED {{.*}} itx_reference_imports
// CHECK-DAG: OBJECT  GLOBAL PROTECTED {{.*}} itx_reference_functions
// CHECK-NOT: UND {{(erf|exp|malloc|free|__)}}

// AARCH64: Machine: {{ *}}AArch64
// AARCH64: itx_reference_kernel_1

// NAMES-DAG: erfc
// NAMES-DAG: exp
// NAMES-DAG: fmodf
// NAMES-DAG: free
// NAMES-DAG: malloc

rt.kernel @gelu(%x: tensor<?x8xf16> {nn.sizes = ["s0", ""]}) -> (tensor<?x8xf16> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %a = nn.gelu %x {form = #nn.gelu_form<erf>} : tensor<?x8xf16>
  %b = nn.silu %a : tensor<?x8xf16>
  rt.yield %b : tensor<?x8xf16>
}

rt.kernel @remainder(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []} {
  %r = arith.remf %x, %y : tensor<8xf32>
  rt.yield %r : tensor<8xf32>
}
