// RUN: intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=int6 | FileCheck %s
// RUN: not intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=int6-g64 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: not intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=none 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not intarsia-opt %s --split-input-file --quantize-narrow-stored=formats=up.weight=int3 2>&1 | FileCheck %s --check-prefix=UNKNOWN

nn.archive @weights {file = "model.safetensors"}

// A matrix that the file of formats names is kept in its format, another one as it is.
// CHECK-LABEL: func.func @main
// CHECK: nn.weight @weights["up.weight_packed"]
// CHECK: nn.dequantize {{.*}}kept = <i6, f16, 32, axis = 1>
// CHECK: nn.weight @weights["down.weight_packed"]
// CHECK: nn.dequantize {{.*}}kept = <i8, f16, 32, axis = 1>
// GROUPS: error: is stored quantized, as #nn.block_format<i8, f16, 32, axis = 1>; the file of formats says
// NONE: error: is stored quantized, as #nn.block_format<i8, f16, 32, axis = 1>; the file of formats says none
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
