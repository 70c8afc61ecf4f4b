// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @lstm
func.func @lstm(%gates: tensor<?x?x512xf32>, %r: tensor<512x64xf32>, %b: tensor<512xf32>, %n: tensor<?xi64>, %h: tensor<2x?x64xf32>, %p: tensor<384xf32>) {
  // CHECK: nn.recurrent <lstm>, <bidirectional>, %{{.*}}, %{{.*}} bias %{{.*}} lengths %{{.*}} : (tensor<?x?x512xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<?xi64>) -> (tensor<?x?x128xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>)
  %y, %s, %c = nn.recurrent <lstm>, <bidirectional>, %gates, %r bias %b lengths %n : (tensor<?x?x512xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<?xi64>) -> (tensor<?x?x128xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>)
  // CHECK: nn.recurrent <lstm>, <bidirectional>, %{{.*}}, %{{.*}} hidden %{{.*}} cell %{{.*}} peepholes %{{.*}} {clip = 3.000000e+00 : f32, coupled, gate_order = array<i64: 0, 3, 1, 2>, sequence_first} :
  %y1:3 = nn.recurrent <lstm>, <bidirectional>, %gates, %r hidden %h cell %h peepholes %p {clip = 3.0 : f32, coupled, gate_order = array<i64: 0, 3, 1, 2>, sequence_first} : (tensor<?x?x512xf32>, tensor<512x64xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>, tensor<384xf32>) -> (tensor<?x?x128xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>)
  return
}

// CHECK-LABEL: func.func @others
func.func @others(%gates: tensor<4x9x96xbf16>, %r: tensor<96x32xbf16>, %x: tensor<4x9x32xf32>, %w: tensor<32x32xf16>) {
  // CHECK: nn.recurrent <gru>, <reverse>, %{{.*}}, %{{.*}} {linear_before_reset} : (tensor<4x9x96xbf16>, tensor<96x32xbf16>) -> (tensor<4x9x32xbf16>, tensor<1x4x32xbf16>)
  %y, %s = nn.recurrent <gru>, <reverse>, %gates, %r {linear_before_reset} : (tensor<4x9x96xbf16>, tensor<96x32xbf16>) -> (tensor<4x9x32xbf16>, tensor<1x4x32xbf16>)
  // CHECK: nn.recurrent <rnn>, <forward>, %{{.*}}, %{{.*}} {activations = [#nn.recurrent_activation<relu>]} :
  %y1, %s1 = nn.recurrent <rnn>, <forward>, %x, %w {activations = [#nn.recurrent_activation<relu>]} : (tensor<4x9x32xf32>, tensor<32x32xf16>) -> (tensor<4x9x32xf32>, tensor<1x4x32xf32>)
  return
}
