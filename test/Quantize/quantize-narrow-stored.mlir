// RUN: intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=int6 | FileCheck %s
// RUN: not intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=int6-g64 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: not intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=none 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=int3 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// RUN: intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=gate.weight=ternary | FileCheck %s --check-prefix=TERNARY
// RUN: not intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=ternary 2>&1 | FileCheck %s --check-prefix=WIDE

nn.archive @weights {file = "model.safetensors"}

// A matrix that the file of formats names is kept in its format, another one as it is.
// CHECK-LABEL: func.func @main
// CHECK: nn.weight @weights["up.weight_packed"]
// CHECK: nn.dequantize {{.*}}kept = <i6, f16, 32, axis = 1>
// CHECK: nn.weight @weights["down.weight_packed"]
// CHECK: nn.dequantize {{.*}}kept = <i8, f16, 32, axis = 1>
// GROUPS: error: is stored quantized, as #nn.block_format<i8, f16, 32, axis = 1>; the file of formats says
// NONE: error: is stored quantized, as #nn.block_format<i8, f16, 32, axis = 1>; the file of formats says none
// WIDE: error: cannot be kept in the format that the file of formats says: archive format has elements u8, which #nn.block_format<ternary, f16, 32, axis = 1> does not keep
// UNKNOWN: error: tensor 'up.weight': unknown weight format 'int3'
func.func @main(%x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %0 = nn.weight @weights["up.weight_packed"] : tensor<64x16xi32>
  %1 = nn.weight @weights["up.weight_scale"] : tensor<64x2xf16>
  %2 = nn.dequantize %0, %1 {format = #nn.archive_format<rows, u8, group = 32, zero = 128, kept = <i8, f16, 32, axis = 1>>} : (tensor<64x16xi32>, tensor<64x2xf16>) -> tensor<64x64xf32>
  %3 = nn.linear %x, %2 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %4 = nn.weight @weights["down.weight_packed"] : tensor<64x16xi32>
  %5 = nn.weight @weights["down.weight_scale"] : tensor<64x2xf16>
  %6 = nn.dequantize %4, %5 {format = #nn.archive_format<rows, u8, group = 32, zero = 128, kept = <i8, f16, 32, axis = 1>>} : (tensor<64x16xi32>, tensor<64x2xf16>) -> tensor<64x64xf32>
  %7 = nn.linear %x, %6 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %3, %7 : tensor<?x64xf32>, tensor<?x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Ternary values lie in integers of 4 bits.
// TERNARY-LABEL: func.func @ternary
// TERNARY: nn.dequantize {{.*}}kept = <ternary, f16, 32, axis = 1>
func.func @ternary(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = nn.weight @weights["gate.weight_packed"] : tensor<64x8xi32>
  %1 = nn.weight @weights["gate.weight_scale"] : tensor<64x2xf16>
  %2 = nn.dequantize %0, %1 {format = #nn.archive_format<rows, u4, group = 32, zero = 8, kept = <i4, f16, 32, axis = 1>>} : (tensor<64x8xi32>, tensor<64x2xf16>) -> tensor<64x64xf32>
  %3 = nn.linear %x, %2 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %3 : tensor<?x64xf32>
}
