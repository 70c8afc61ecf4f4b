// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Rows of the block are copied to scratch, zeros where they are outside of the image: 16 columns of 8 channels. A sum is
// one over three segments, each a row of the window with all channels, 24 k's.
// CHECK-LABEL: func.func @pads_run
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:           scf.if
// CHECK:             arith.muli %{{.*}}, %c8_i64
// CHECK:             llvm.store {{.*}} : vector<16xf32>
// CHECK:           scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:             scf.for %[[COLUMN:.*]] = %{{.*}} to %{{.*}} step %c8_i64
// CHECK:               %{{.*}}:16 = scf.for %[[SEGMENT:.*]] = %c0_i64 to %c3_i64 step %c1_i64
// CHECK:                 arith.muli %[[SEGMENT]], %c128_i64
// CHECK:                 arith.muli %[[SEGMENT]], %c768_i64
// CHECK:                 %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c24_i64 step %c1_i64
// CHECK-COUNT-16:          vector.fma {{.*}} : vector<16xf32>
rt.kernel @pads(%x: tensor<1x14x14x8xf32>, %w: tensor<40x72xf32> {rt.layout = #rt.panels<32>}) -> tensor<1x14x14x40xf32>
    attributes {root = #nn.root<conv>, sizes = []} {
  %y = nn.conv %x, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>}
      : (tensor<1x14x14x8xf32>, tensor<40x72xf32>) -> tensor<1x14x14x40xf32>
  rt.yield %y : tensor<1x14x14x40xf32>
}

// -----

// Without pads windows are read where they lie: rows of the image are 112 elements apart.
// CHECK-LABEL: func.func @in_place_run
// CHECK-NOT:     llvm.store {{.*}} : vector<16xf32>
// CHECK:         %{{.*}}:16 = scf.for %[[SEGMENT:.*]] = %c0_i64 to %c3_i64 step %c1_i64
// CHECK:           arith.muli %[[SEGMENT]], %c112_i64
rt.kernel @in_place(%x: tensor<1x14x14x8xf32>, %w: tensor<40x72xf32> {rt.layout = #rt.panels<32>}) -> tensor<1x12x12x40xf32>
    attributes {root = #nn.root<conv>, sizes = []} {
  %y = nn.conv %x, %w {window = array<i64: 3, 3>} : (tensor<1x14x14x8xf32>, tensor<40x72xf32>) -> tensor<1x12x12x40xf32>
  rt.yield %y : tensor<1x12x12x40xf32>
}

// -----

// Windows of one channel each have channels in lanes. Eight neighbouring windows of three columns share ten positions:
// a row of them loads these once, and three weights.
// CHECK-LABEL: func.func @channels_run
// CHECK:         %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %c3_i64 step %c1_i64
// CHECK-COUNT-13:  llvm.load {{.*}} -> vector<16xf32>
// CHECK-NOT:       llvm.load
// CHECK:           scf.yield
rt.kernel @channels(%x: tensor<1x14x14x64xf32>, %w: tensor<64x9xf32> {rt.layout = #rt.panels<32>}) -> tensor<1x12x12x64xf32>
    attributes {root = #nn.root<conv>, sizes = []} {
  %y = nn.conv %x, %w {window = array<i64: 3, 3>, groups = 64} : (tensor<1x14x14x64xf32>, tensor<64x9xf32>) -> tensor<1x12x12x64xf32>
  rt.yield %y : tensor<1x12x12x64xf32>
}

// -----

// Four channels of a vector that is loaded once are spread over the four columns of their group.
// CHECK-LABEL: func.func @groups_run
// CHECK:         vector.shuffle %[[ALL:.*]], %[[ALL]] [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12]
// CHECK:         vector.shuffle %[[ALL]], %[[ALL]] [1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9, 13, 13, 13, 13]
rt.kernel @groups(%x: tensor<1x14x14x64xf32>, %w: tensor<64x36xf32> {rt.layout = #rt.panels<32>}) -> tensor<1x12x12x64xf32>
    attributes {root = #nn.root<conv>, sizes = []} {
  %y = nn.conv %x, %w {window = array<i64: 3, 3>, groups = 16} : (tensor<1x14x14x64xf32>, tensor<64x36xf32>) -> tensor<1x12x12x64xf32>
  rt.yield %y : tensor<1x12x12x64xf32>
}

// -----

// Columns of one phase are two apart, and meet every second column of a window.
// CHECK-LABEL: func.func @transposed_run
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c16_i64
// CHECK:           arith.remui %{{.*}}, %c2_i64
rt.kernel @transposed(%x: tensor<1x14x14x8xf32>, %w: tensor<40x72xf32> {rt.layout = #rt.panels<32>}) -> tensor<1x29x29x40xf32>
    attributes {root = #nn.root<conv>, sizes = []} {
  %y = nn.conv %x, %w {window = array<i64: 3, 3>, strides = array<i64: 2, 2>, transposed}
      : (tensor<1x14x14x8xf32>, tensor<40x72xf32>) -> tensor<1x29x29x40xf32>
  rt.yield %y : tensor<1x29x29x40xf32>
}

// -----

// A panel of 295 KB passes by in three parts, one for each row of the window: sums of a block are zeros at first, wait in
// scratch between parts, and are stored from registers after the last one.
// CHECK-LABEL: func.func @deep_run
// CHECK:         scf.for %[[TAP:.*]] = %c0_i64 to %c3_i64 step %c1_i64
// CHECK:           %[[IS_LAST:.*]] = arith.cmpi eq, %[[TAP]], %c2_i64
// CHECK:           scf.if %[[IS_LAST]]
// CHECK:             %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c768_i64 step %c1_i64
// CHECK:             arith.maximumf
// CHECK:           } else {
// CHECK:             %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c768_i64 step %c1_i64
// CHECK-NOT:         arith.maximumf
// CHECK-LABEL: func.func @deep_plan
rt.kernel @deep(%x: tensor<1x14x14x256xf32>, %w: tensor<32x2304xf32> {rt.layout = #rt.panels<32>}) -> tensor<1x14x14x32xf32>
    attributes {root = #nn.root<conv>, sizes = []} {
  %c = nn.conv %x, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>}
      : (tensor<1x14x14x256xf32>, tensor<32x2304xf32>) -> tensor<1x14x14x32xf32>
  %y = nn.relu %c : tensor<1x14x14x32xf32>
  rt.yield %y : tensor<1x14x14x32xf32>
}
