// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// A quantized cache: positions of a run are consecutive too.
// CHECK-LABEL: func.func @quantized_run
// CHECK:         %[[IS_OTHER:.*]] = arith.cmpi ne, %{{.*}}, %{{.*}} : i64
// CHECK:         %[[SKIPS:.*]] = arith.cmpi ne, %{{.*}}, %{{.*}} : i64
// CHECK:         arith.ori %[[IS_OTHER]], %[[SKIPS]]

// Tokens of a page see its keys as they are, gathered from the tail and the rows of this call.
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c128_i64
// CHECK:           %[[SOME_OWN:.*]] = arith.cmpi slt, %[[OWN:.*]], %[[LATER:.*]] : i64
// CHECK:           scf.if %[[SOME_OWN]]
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c2048_i64 step %c16_i64
// CHECK:               arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK:             %[[BEGIN:.*]] = arith.muli %[[OWN]], %c2_i64
// CHECK:             %[[END:.*]] = arith.muli %[[LATER]], %c2_i64
// CHECK:             scf.for %{{.*}} = %[[BEGIN]] to %[[END]] step %c8_i64
// CHECK:               vector.fma

// Those of later pages see quantized keys: queries times the scales of the features, by values of 4 bits, added to
// what the zero points contribute.
// CHECK:           %[[SOME_LATER:.*]] = arith.cmpi slt, %[[LATER]], %{{.*}} : i64
// CHECK:           scf.if %[[SOME_LATER]]
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// CHECK:               arith.extsi %{{.*}} : vector<16xi8> to vector<16xi32>
// CHECK:             vector.reduction <add>
// CHECK:             arith.negf
// CHECK:             %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK:               %[[BYTES:.*]] = arith.extui %{{.*}} : vector<16xi8> to vector<16xi32>
// CHECK-NEXT:          %[[MASK:.*]] = arith.constant dense<15> : vector<16xi32>
// CHECK-NEXT:          arith.andi %[[BYTES]], %[[MASK]]
// CHECK:               arith.shrui %{{.*}} : vector<16xi32>
// CHECK:               vector.fma

// Exponentials are multiplied by the scales of the values, and what the zero points contribute is subtracted.
// CHECK:           %{{.*}}:2 = scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c16_i64
// CHECK:             llvm.load %{{.*}} -> vector<16xf32>
// CHECK:             %[[SCALES:.*]] = llvm.load %{{.*}} -> vector<16xf32>
// CHECK-NEXT:        %[[SCALED:.*]] = arith.mulf %{{.*}}, %[[SCALES]]
// CHECK:             vector.fma %[[SCALED]]
// CHECK:             llvm.store %[[SCALED]]
// CHECK:           vector.reduction <add>
// CHECK:           vector.reduction <add>
// CHECK:           arith.subf
rt.kernel @quantized(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x16xi8> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x32xi8> {nn.sizes = ["s1", "", "", ""]},
                     %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]},
                     %kp: tensor<?x2x2x64xi8> {nn.sizes = ["s1", "", "", ""]}, %vp: tensor<?x2x2x32xi8> {nn.sizes = ["s1", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s0", "", ""]}, %l: tensor<?x2x64x32xf16> {nn.sizes = ["s2", "", "", ""]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cached_attention %q, (%k, %kp, %l) <keys, ui4, page = 32, transposed>, (%v, %vp) <values, ui4, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64xf32>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}

// -----

// Values of 8 bits are not taken apart.
// CHECK-LABEL: func.func @bytes_run
// CHECK:         arith.negf
// CHECK:         %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK:           %[[VALUES:.*]] = arith.extui %{{.*}} : vector<16xi8> to vector<16xi32>
// CHECK-NEXT:      arith.sitofp %[[VALUES]]
// CHECK:           vector.fma
rt.kernel @bytes(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xi8> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xi8> {nn.sizes = ["s1", "", "", ""]},
                     %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]},
                     %kp: tensor<?x2x2x64xi8> {nn.sizes = ["s1", "", "", ""]}, %vp: tensor<?x2x2x32xi8> {nn.sizes = ["s1", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s0", "", ""]}, %l: tensor<?x2x64x32xf16> {nn.sizes = ["s2", "", "", ""]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cached_attention %q, (%k, %kp, %l) <keys, ui8, page = 32, transposed>, (%v, %vp) <values, ui8, page = 32>, %p, %s, %t rows %r {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xi8>, tensor<?x2x2x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?x2x64xf32>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}
