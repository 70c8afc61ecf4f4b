// RUN: not intarsia-opt %s --quantize-mixed-inputs="inputs=0/1-0/w" 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: not intarsia-opt %s --intarsia-quantize="format=fp8 activations=fmpq inputs=0/1-0/w" 2>&1 | FileCheck %s --check-prefix=FLOATS
// RUN: not intarsia-opt %s --intarsia-quantize="format=int4 activations=fmpq inputs=0/1-0-2/w" 2>&1 | FileCheck %s --check-prefix=FEATURES
// RUN: not intarsia-opt %s --quantize-mixed-inputs="inputs=0/0-1-2-3/stored" 2>&1 | FileCheck %s --check-prefix=STORED
// RUN: not intarsia-opt %s --quantize-mixed-inputs="inputs=2/1-0/w" 2>&1 | FileCheck %s --check-prefix=BLOCKS
// RUN: not intarsia-opt %s --quantize-mixed-inputs="inputs=0/1-1/w" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not intarsia-opt %s --quantize-mixed-inputs="inputs=0/1-2/w" 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: not intarsia-opt %s --quantize-mixed-inputs="inputs=0/1-0/w,0/1-0/w" 2>&1 | FileCheck %s --check-prefix=KEYS
// RUN: not intarsia-opt %s --quantize-mixed-inputs="inputs=w" 2>&1 | FileCheck %s --check-prefix=TEXT

nn.archive @weights {file = "w.safetensors"}

// PLAIN: error: weight 'w' is not quantized, so that its input in 8 and 4 bits would gain nothing: give it a format
// FLOATS: error: weight 'w' has the format e4m3-f32-0, whose values are no integers
// FEATURES: error: weight 'w' has 2 input features, the order of its channels 3: is it for another model?
// STORED: error: weight 'stored' is quantized in its archive, in the order of its features
// BLOCKS: error: the input of 'w' has 2 blocks of 8 bits, and 1 blocks of 128 features
// TWICE: error: the input of 'w' has the channel 1 twice
// OUTSIDE: error: the input of 'w' has the channel 2 among 2
// KEYS: error: the weight 'w' has two inputs in blocks of 8 and of 4 bits
// TEXT: error: 'w' is no input in blocks of 8 and of 4 bits: WIDE/CHANNEL-CHANNEL-…/KEY+KEY is one
func.func @main(%x: tensor<?x2xf32>, %y: tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>) {
  %w = nn.weight @weights["w"] : tensor<2x2xf32>
  %h = nn.linear %x, %w : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %q = nn.weight @weights["stored"] : tensor<2x4xi8>
  %s = nn.weight @weights["scale"] : tensor<2x1xf16>
  %d = nn.dequantize %q, %s {format = #nn.block_format<i8, f16, 0, axis = 1>} : (tensor<2x4xi8>, tensor<2x1xf16>) -> tensor<2x4xf32>
  %g = nn.linear %y, %d : (tensor<?x4xf32>, tensor<2x4xf32>) -> tensor<?x2xf32>
  return %h, %g : tensor<?x2xf32>, tensor<?x2xf32>
}
