// RUN: intarsia-test-opt %s --test-reference-models -o /dev/null | FileCheck %s

// Every op of nn that a kernel can hold has a reference.
// CHECK-DAG: nn.archive has none
// CHECK-DAG: nn.group has none
// CHECK-DAG: nn.weight has none
// CHECK-DAG: nn.yield has none
// CHECK-DAG: nn.linear has a reference
// CHECK-NOT: has none
func.func @main() {
  return
}
