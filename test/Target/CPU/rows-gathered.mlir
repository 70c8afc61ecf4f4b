// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=znver5" | FileCheck %s
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" | FileCheck %s --check-prefix=SINGLE

// Elements at positions from data are read by one instruction, where all of a vector's positions are compared at once.
// CHECK-LABEL: func.func @gathered_elements_run
// CHECK:         %[[AT:.*]] = llvm.load %{{.*}} -> vector<16xi64>
// CHECK:         %[[IS_INSIDE:.*]] = arith.cmpi ult, %[[AT]], %{{.*}} : vector<16xi64>
// CHECK:         %[[SAFE:.*]] = arith.select %[[IS_INSIDE]]
// CHECK:         %[[ADDRESSES:.*]] = llvm.getelementptr %{{.*}}[%[[SAFE]]]
// CHECK:         %[[ELEMENTS:.*]] = llvm.intr.masked.gather %[[ADDRESSES]]
// CHECK:         arith.select %[[IS_INSIDE]], %[[ELEMENTS]]
// CHECK-LABEL: func.func @gathered_elements_plan

// Where loads of single elements are faster, lanes are read one by one.
// SINGLE-NOT:    llvm.intr.masked.gather
// SINGLE:        vector.from_elements
rt.kernel @gathered_elements(%x: tensor<70x100xf32>, %i: tensor<70x32xi64>) -> tensor<70x32xf32> attributes {root = #nn.root<rows>, sizes = []} {
  %e = tensor.empty() : tensor<70x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<70x32xi64>) outs(%e : tensor<70x32xf32>) {
  ^bb0(%at: i64, %o: f32):
    %k = arith.index_cast %at : i64 to index
    %row = linalg.index 0 : index
    %v = tensor.extract %x[%row, %k] : tensor<70x100xf32>
    linalg.yield %v : f32
  } -> tensor<70x32xf32>
  rt.yield %r : tensor<70x32xf32>
}
