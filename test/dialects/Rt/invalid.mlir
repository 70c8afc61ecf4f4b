// expected-error@+1 {{argument attribute rt.place of argument 0 is unknown; known are rt.layout, rt.gathered}}
func.func @f(%x: tensor<4xf32> {rt.place = 1 : i64}) { return }

// -----

// expected-error@+1 {{'rt.kernel' op sizes names 'a' twice}}
rt.kernel @k(%x: tensor<4xf32>) attributes {root = #nn.root<rows>, sizes = ["a", "a"]} {
  rt.yield
}

// -----

// expected-error@+1 {{'rt.kernel' op nn.sizes of argument 0 names 'b', sizes does not}}
rt.kernel @k(%x: tensor<?xf32> {nn.sizes = ["b"]}) attributes {root = #nn.root<rows>, sizes = ["a"]} {
  rt.yield
}

// -----

// expected-error@+1 {{'rt.kernel' op nn.sizes of argument 0 names 'b', sizes does not}}
rt.kernel @k(%x: tensor<?xf32> {nn.sizes = ["a * b floordiv 2"]}) attributes {root = #nn.root<rows>, sizes = ["a"]} {
  rt.yield
}

// -----

// expected-error@+1 {{'rt.kernel' op nn.sizes of argument 0 is 'a, a', which is no expression in sizes}}
rt.kernel @k(%x: tensor<?xf32> {nn.sizes = ["a, a"]}) attributes {root = #nn.root<rows>, sizes = ["a"]} {
  rt.yield
}

// -----

rt.kernel @k(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error@+1 {{'rt.yield' op gives 0 values, kernel @k has 1 results}}
  rt.yield
}

// -----

rt.kernel @k(%x: tensor<4xf32>) -> (tensor<?xf32>) attributes {root = #nn.root<rows>, sizes = []} {
  // expected-error@+1 {{'rt.yield' op value 0 is 'tensor<4xf32>', the kernel's result is 'tensor<?xf32>'}}
  rt.yield %x : tensor<4xf32>
}

// -----

func.func @f() {
  // expected-error@+1 {{'rt.constant_data' op constant @c is not defined by an 'rt.constant'}}
  %0 = rt.constant_data @c : memref<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'rt.alloc' op is given 0 sizes, 'memref<?xf32>' has 1 dynamic dimensions}}
  %0 = rt.alloc () : memref<?xf32>
  return
}

// -----

func.func @f(%i: memref<4xf32>, %n: index) {
  // expected-error@+1 {{'rt.check_indices' op reads 'memref<4xf32>'; the host reads integers of 8, 16, 32 or 64 bits in its own memory}}
  rt.check_indices %i() below %n {name = "i", limit_text = "n", why = "needed"} : memref<4xf32>
  return
}

// -----

func.func @f(%i: memref<4xi64, #rt.memory<@device>>, %n: index) {
  // expected-error@+1 {{'rt.check_indices' op reads 'memref<4xi64, #rt.memory<@device>>'; the host reads integers of 8, 16, 32 or 64 bits in its own memory}}
  rt.check_indices %i() below %n {name = "i", limit_text = "n", why = "needed"} : memref<4xi64, #rt.memory<@device>>
  return
}

// -----

func.func @f(%i: memref<?xi64>, %n: index) {
  // expected-error@+1 {{'rt.check_indices' op is given 0 sizes, 'memref<?xi64>' has 1 dynamic dimensions}}
  rt.check_indices %i() below %n {name = "i", limit_text = "n", why = "needed"} : memref<?xi64>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'rt.output' op index is -1, must not be negative}}
  %0 = rt.output -1 () : memref<4xf32>
  return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{'rt.output' op is given 1 sizes, 'memref<4xf32>' has 0 dynamic dimensions}}
  %0 = rt.output 0 (%n) : memref<4xf32>
  return
}

// -----

func.func @f(%q: !rt.queue<@cpu>, %a: memref<4xf32>, %b: memref<5xf32>) {
  // expected-error@+1 {{'rt.copy' op source is 'memref<4xf32>', destination 'memref<5xf32>'}}
  %0 = rt.copy %a to %b on %q : !rt.queue<@cpu> : memref<4xf32> to memref<5xf32>
  return
}

// -----

func.func @f(%a: memref<4xf32>, %b: memref<5xf32>) {
  // expected-error@+1 {{'rt.collective' op source is 'memref<4xf32>', destination 'memref<5xf32>'}}
  %0 = rt.collective all_reduce in [0, 1] from %a : memref<4xf32> to %b : memref<5xf32>
  return
}

// -----

func.func @f(%a: memref<1x4xf32>, %b: memref<2x5xf32>) {
  // expected-error@+1 {{'rt.collective' op source is 'memref<1x4xf32>', destination 'memref<2x5xf32>'}}
  %0 = rt.collective all_gather in [0, 1] from %a : memref<1x4xf32> to %b : memref<2x5xf32>
  return
}

// -----

func.func @f_exchanged(%a: memref<5x4xf32>, %b: memref<2x4xf32>) {
  // expected-error@+1 {{'rt.collective' op source is 'memref<5x4xf32>', which has no 2 equal parts along its first dimension}}
  %0 = rt.collective all_to_all in [0, 1] from %a : memref<5x4xf32> to %a : memref<5x4xf32>
  return
}

// -----

func.func @f(%a: memref<5x4xf32>, %b: memref<2x4xf32>) {
  // expected-error@+1 {{'rt.collective' op 2 rows of a rank, 5 rows of 2 ranks}}
  %0 = rt.collective reduce_scatter_rows in [0, 1] from %a : memref<5x4xf32> to %b : memref<2x4xf32>
  return
}

// -----

func.func @f(%a: memref<3x4xf32>, %b: memref<5x3xf32>) {
  // expected-error@+1 {{'rt.collective' op source is 'memref<3x4xf32>', destination 'memref<5x3xf32>'}}
  %0 = rt.collective all_gather_rows in [0, 1] from %a : memref<3x4xf32> to %b : memref<5x3xf32>
  return
}

// -----

func.func @f(%a: memref<4xf16>) {
  // expected-error@+1 {{'rt.collective' op rounds messages of f32 to 8 bits, not of 'f16'}}
  %0 = rt.collective all_reduce_int8 in [0, 1] from %a : memref<4xf16> to %a : memref<4xf16>
  return
}

// -----

func.func @f(%a: memref<f32>) {
  // expected-error@+1 {{'rt.collective' op is about rows, which 'memref<f32>' has none of}}
  %0 = rt.collective all_gather_rows in [0, 1] from %a : memref<f32> to %a : memref<f32>
  return
}

// -----

func.func @f(%a: memref<4xf32>, %b: memref<4xf32, #rt.memory<@gpu>>) {
  // expected-error@+1 {{buffers must be in the host's memory}}
  %0 = rt.collective all_reduce in [0, 1] from %a : memref<4xf32> to %b : memref<4xf32, #rt.memory<@gpu>>
  return
}

// -----

func.func @f(%a: memref<4xf32>, %b: memref<4xf32, #rt.memory<@gpu>>) {
  %q = rt.get_queue 0 : !rt.queue<@gpu>
  // expected-error@+1 {{'rt.collective' op uses 'memref<4xf32>'; buffers must be in the memory of @gpu, whose queue it is on}}
  %0 = rt.collective all_reduce in [0, 1] on %q : !rt.queue<@gpu> from %b : memref<4xf32, #rt.memory<@gpu>> to %a : memref<4xf32>
  return
}

// -----

func.func @f(%a: memref<?xf32>) {
  // expected-error@+1 {{'rt.collective' op is given 0 sizes, 'memref<?xf32>' has 1 dynamic dimensions}}
  %0 = rt.collective all_reduce in [0, 1] from %a : memref<?xf32> to %a : memref<?xf32>
  return
}

// -----

func.func @f(%q: !rt.queue<@cpu>, %a: memref<?xf32>) {
  // expected-error@+1 {{'rt.copy' op is given 0 sizes, 'memref<?xf32>' has 1 dynamic dimensions}}
  %0 = rt.copy %a to %a on %q : !rt.queue<@cpu> : memref<?xf32> to memref<?xf32>
  return
}

// -----

func.func @f(%q: !rt.queue<@cpu>, %a: memref<4xf32>) {
  // expected-error@+1 {{'rt.dispatch' op kernel @f is not defined by an 'rt.kernel'}}
  %0 = rt.dispatch @f on %q : !rt.queue<@cpu> outs(%a : memref<4xf32>)
  return
}

// -----

rt.kernel @k(%x: tensor<?xf32> {nn.sizes = ["s"]}) -> (tensor<?xf32> {nn.sizes = ["s"]}) attributes {root = #nn.root<rows>, sizes = ["s"]} {
  rt.yield %x : tensor<?xf32>
}
func.func @f(%q: !rt.queue<@cpu>, %a: memref<?xf32>) {
  // expected-error@+1 {{'rt.dispatch' op is given 0 sizes, kernel @k has 1}}
  %0 = rt.dispatch @k on %q : !rt.queue<@cpu> ins(%a : memref<?xf32>) outs(%a : memref<?xf32>)
  return
}

// -----

rt.kernel @k(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {root = #nn.root<rows>, sizes = []} {
  rt.yield %x : tensor<4xf32>
}
func.func @f(%q: !rt.queue<@cpu>, %a: memref<4xf32>) {
  // expected-error@+1 {{'rt.dispatch' op is given 2 inputs, kernel @k has 1}}
  %0 = rt.dispatch @k on %q : !rt.queue<@cpu> ins(%a, %a : memref<4xf32>, memref<4xf32>) outs(%a : memref<4xf32>)
  return
}

// -----

rt.kernel @k(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {root = #nn.root<rows>, sizes = []} {
  rt.yield %x : tensor<4xf32>
}
func.func @f(%q: !rt.queue<@cpu>, %a: memref<4xf32>, %b: memref<4xf16>) {
  // expected-error@+1 {{'rt.dispatch' op output 0 is 'memref<4xf16>', kernel @k takes 'tensor<4xf32>'}}
  %0 = rt.dispatch @k on %q : !rt.queue<@cpu> ins(%a : memref<4xf32>) outs(%b : memref<4xf16>)
  return
}

// -----

// expected-error@+1 {{'rt.kernel' op body is empty, must end with 'rt.yield'}}
"rt.kernel"() ({
^bb0:
}) {sym_name = "k", function_type = () -> (), sizes = [], root = #nn.root<rows>} : () -> ()

// -----

// expected-error@+1 {{'rt.kernel' op body ends with 'llvm.unreachable', must end with 'rt.yield'}}
rt.kernel @k() attributes {root = #nn.root<rows>, sizes = []} {
  llvm.unreachable
}

// -----

// expected-error@+1 {{target 'cpu' has a variant without a name; this machine is "native"}}
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3", ""]>}

// -----

// expected-error@+1 {{has 1 kernels and 2 indices of them}}
rt.object @o {device = @cpu, host = "h", number = 0 : i64, variant = #rt.variant<"v", cpu = "c">, kernels = [@k], numbers = array<i64: 0, 1>, hash = "", code = []}

// -----

// expected-error@+1 {{has variant number -1, must not be negative}}
rt.object @o {device = @cpu, host = "h", number = -1 : i64, variant = #rt.variant<"v", cpu = "c">, kernels = [], numbers = array<i64>, hash = "", code = []}

// -----

// expected-error@+1 {{code 0 is not a dense_resource of bytes, tensor<…xi8>}}
rt.object @o {device = @cpu, host = "h", number = 0 : i64, variant = #rt.variant<"v", cpu = "c">, kernels = [], numbers = array<i64>, hash = "", code = ["bytes"]}

// -----

// expected-error@+1 {{code 0 has 4 bytes, its type is 'tensor<5xi8>'}}
rt.object @o {device = @cpu, host = "h", number = 0 : i64, variant = #rt.variant<"v", cpu = "c">, kernels = [], numbers = array<i64>, hash = "", code = [dense_resource<piece> : tensor<5xi8>]}
{-#
  dialect_resources: {
    builtin: {
      piece: "0x0100000001020304"
    }
  }
#-}

// -----

// expected-error@+1 {{rt.form is "two", must be an integer}}
module attributes {rt.form = "two"} {
}

// -----

// expected-error@+1 {{rt.producer is 2 : i64, must be a string}}
module attributes {rt.producer = 2 : i64} {
}

// -----

// expected-error@+1 {{rt.form stands on a 'func.func', must be on a 'builtin.module'}}
func.func private @f() attributes {rt.form = 2 : i64}

// -----

// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{layout panels has width 0, must be from 1 to 512}}
rt.constant @c layout(#rt.panels<0>) : tensor<4x4xf32> {
  %w = arith.constant dense<1.0> : tensor<4x4xf32>
  rt.yield %w : tensor<4x4xf32>
}

// -----

// expected-error@+1 {{layout panels has width 2143289344, must be from 1 to 512}}
rt.constant @c layout(#rt.panels<2143289344>) : tensor<4x4xf32> {
  %w = arith.constant dense<1.0> : tensor<4x4xf32>
  rt.yield %w : tensor<4x4xf32>
}

// -----

// expected-error@+1 {{'rt.constant' op layout of the constant is in 576460752303423488 slices of whole panels, which the rows of 'tensor<64x4xf32>' are not}}
rt.constant @c layout(#rt.panels<32 in 576460752303423488 slices>) : tensor<64x4xf32> {
  %w = arith.constant dense<1.0> : tensor<64x4xf32>
  rt.yield %w : tensor<64x4xf32>
}

// -----

// expected-error@+1 {{'rt.constant' op layout of the constant is panels, which needs at least rank 2, 'tensor<4xf32>' has rank 1}}
rt.constant @c layout(#rt.panels<32>) : tensor<4xf32> {
  %w = arith.constant dense<1.0> : tensor<4xf32>
  rt.yield %w : tensor<4xf32>
}

// -----

// expected-error@+1 {{'rt.constant' op has type 'tensor<?xf32>', a constant has a static shape}}
rt.constant @c layout(#rt.row_major) : tensor<?xf32> {
  rt.yield
}

// -----

// expected-error@+1 {{rt.layout of argument 0 stands on a 'func.func', must be on an 'rt.kernel'}}
func.func @f(%x: tensor<4xf32> {rt.layout = #rt.row_major}) { return }

// -----

// expected-error@+1 {{rt.layout of argument 0 is "panels", must be a layout such as #rt.row_major or #rt.panels<…>}}
rt.kernel @k(%x: tensor<4xf32> {rt.layout = "panels"}) attributes {root = #nn.root<rows>, sizes = []} {
  rt.yield
}

// -----

// expected-error@+1 {{layout of argument 0 stands on 'f32', which has no dimensions}}
rt.kernel @k(%x: f32 {rt.layout = #rt.row_major}) attributes {root = #nn.root<rows>, sizes = []} {
  rt.yield
}

// -----

rt.constant @c layout(#rt.row_major) : tensor<4xf32> {
  %w = arith.constant dense<1.0> : tensor<4xf32>
  rt.yield %w : tensor<4xf32>
}
func.func @f() {
  // expected-error@+1 {{'rt.constant_data' op has type 'memref<5xf32>', constant @c is 'tensor<4xf32>'}}
  %0 = rt.constant_data @c : memref<5xf32>
  return
}

// -----

// expected-error@+1 {{'rt.constant' op layout of the constant is in 2 slices of whole panels, which the rows of 'tensor<96x4xf32>' are not}}
rt.constant @c layout(#rt.panels<32 in 2 slices>) : tensor<96x4xf32> {
  %w = arith.constant dense<1.0> : tensor<96x4xf32>
  rt.yield %w : tensor<96x4xf32>
}

// -----

// expected-error@+1 {{'rt.constant' op has a recipe with arguments, which nothing gives a value}}
rt.constant @c layout(#rt.row_major) : tensor<4xf32> {
^bb0(%x: tensor<4xf32>):
  rt.yield %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'rt.constant' op has a recipe that does not end with 'rt.yield' of one tensor}}
rt.constant @c layout(#rt.row_major) : tensor<4xf32> {
  rt.yield
}

// -----

rt.constant @c layout(#rt.row_major) : tensor<5xf32> {
  %c = arith.constant dense<1.0> : tensor<4xf32>
  // expected-error@+1 {{'rt.yield' op gives 'tensor<4xf32>', constant @c is 'tensor<5xf32>'}}
  rt.yield %c : tensor<4xf32>
}

// -----

// expected-error@+1 {{'rt.constant' op has a recipe that does not end with 'rt.yield' of one tensor}}
rt.constant @c layout(#rt.row_major) : tensor<5xf32> {
  llvm.unreachable
}

// -----

rt.constant @c layout(#rt.row_major) : tensor<4xf32> {
  %c = arith.constant dense<1.0> : tensor<4xf32>
  // expected-error@+1 {{'nn.relu' op cannot be in the recipe of constant @c: the packer has no rows for it}}
  %r = nn.relu %c : tensor<4xf32>
  rt.yield %r : tensor<4xf32>
}

// -----

rt.constant @c layout(#rt.row_major) : tensor<4xf32> {
  // expected-error@+1 {{'arith.constant' op cannot be in the recipe of constant @c: it does not make a tensor of static shape}}
  %c = arith.constant 1.0 : f32
  %r = arith.constant dense<1.0> : tensor<4xf32>
  rt.yield %r : tensor<4xf32>
}

// -----

rt.constant @c layout(#rt.row_major) : tensor<2xf32> {
  // expected-error@+1 {{'arith.constant' op cannot be in the recipe of constant @c: the constant's data is not held as dense elements}}
  %c = arith.constant sparse<[[1]], [2.0]> : tensor<2xf32>
  rt.yield %c : tensor<2xf32>
}

// -----

// expected-error@+1 {{'rt.constant' op has a recipe that makes no tensor}}
rt.constant @c layout(#rt.row_major) : tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  rt.yield %e : tensor<4xf32>
}

// -----

nn.archive @w {file = "w.safetensors"}
rt.constant @c layout(#rt.row_major) : tensor<4x4xf32> {
  %a = nn.weight @w["a"] : tensor<4x2xf32>
  // expected-error@+1 {{'tensor.concat' op cannot be in the recipe of constant @c: weights are concatenated at compile time along their outermost dimension only}}
  %c = tensor.concat dim(1) %a, %a : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  rt.yield %c : tensor<4x4xf32>
}

// -----

nn.archive @w {file = "w.safetensors"}
rt.constant @c layout(#rt.row_major) : tensor<2x8xf32> {
  %a = nn.weight @w["a"] : tensor<4x2xf32>
  %b = tensor.concat dim(0) %a, %a : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %e = tensor.empty() : tensor<2x8xf32>
  // expected-error@+1 {{'linalg.transpose' op cannot be in the recipe of constant @c: only a tensor of an archive can be transposed at compile time; of concatenated, quantized and dequantized ones rows can be moved}}
  %t = linalg.transpose ins(%b : tensor<8x2xf32>) outs(%e : tensor<2x8xf32>) permutation = [1, 0]
  rt.yield %t : tensor<2x8xf32>
}

// -----

nn.archive @w {file = "w.safetensors"}
rt.constant @c layout(#rt.row_major) : tensor<8x64xf32> {
  %a = nn.weight @w["a"] : tensor<4x2x64xf32>
  %v, %s = nn.quantize %a {format = #nn.block_format<i8, f16, 32, axis = 2>} : (tensor<4x2x64xf32>) -> (tensor<4x2x64xi8>, tensor<4x2x2xf16>)
  %d = nn.dequantize %v, %s {format = #nn.block_format<i8, f16, 32, axis = 2>} : (tensor<4x2x64xi8>, tensor<4x2x2xf16>) -> tensor<4x2x64xf32>
  %e = tensor.empty() : tensor<2x4x64xf32>
  %t = linalg.transpose ins(%d : tensor<4x2x64xf32>) outs(%e : tensor<2x4x64xf32>) permutation = [1, 0, 2]
  // expected-error@+1 {{'tensor.collapse_shape' op cannot be in the recipe of constant @c: a weight that is quantized keeps its rows at compile time, and one that is transposed too its shape}}
  %m = tensor.collapse_shape %t [[0, 1], [2]] : tensor<2x4x64xf32> into tensor<8x64xf32>
  rt.yield %m : tensor<8x64xf32>
}

// -----

rt.constant @c layout(#rt.row_major) : tensor<1x64xf32> {
  %a = arith.constant dense<1.0> : tensor<1x64xf32>
  // expected-error@+1 {{'nn.quantize' op cannot be in the recipe of constant @c: only matrices of an archive are quantized at compile time, once, along their last dimension and without scales of rows, integers with a sign also without zero points}}
  %v, %s = nn.quantize %a {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<1x64xf32>) -> (tensor<1x64xi8>, tensor<1x2xf16>)
  %d = nn.dequantize %v, %s {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<1x64xi8>, tensor<1x2xf16>) -> tensor<1x64xf32>
  rt.yield %d : tensor<1x64xf32>
}

// -----

nn.archive @w {file = "w.safetensors"}
rt.constant @c layout(#rt.row_major) : tensor<4x64xf16> {
  %a = nn.weight @w["a"] : tensor<4x64xf16>
  %v, %s = nn.quantize %a {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<4x64xf16>) -> (tensor<4x64xi8>, tensor<4x2xf16>)
  // expected-error@+1 {{'nn.dequantize' op cannot be in the recipe of constant @c: weights that are quantized at compile time are dequantized to f32 only}}
  %d = nn.dequantize %v, %s {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<4x64xi8>, tensor<4x2xf16>) -> tensor<4x64xf16>
  rt.yield %d : tensor<4x64xf16>
}

// -----

rt.constant @c layout(#rt.row_major) : tensor<1x64xf32> {
  %v = arith.constant dense<1> : tensor<1x64xi8>
  %s = arith.constant dense<1.0> : tensor<1x2xf16>
  // expected-error@+1 {{'nn.dequantize' op cannot be in the recipe of constant @c: what is dequantized at compile time must be what one nn.quantize gives, or what an archive holds}}
  %d = nn.dequantize %v, %s {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<1x64xi8>, tensor<1x2xf16>) -> tensor<1x64xf32>
  rt.yield %d : tensor<1x64xf32>
}

// -----

rt.constant @c layout(#rt.row_major) : tensor<4x32xf32> {
  %b = arith.constant dense<1> : tensor<4x18xi8>
  // expected-error@+1 {{'nn.dequantize' op cannot be in the recipe of constant @c: what is dequantized at compile time must be what one nn.quantize gives, or what an archive holds}}
  %d = nn.dequantize %b {format = #nn.ggml_type<q4_0>} : (tensor<4x18xi8>) -> tensor<4x32xf32>
  rt.yield %d : tensor<4x32xf32>
}

// -----

nn.archive @w {file = "w.safetensors"}
// expected-error@+1 {{is laid out as #nn.block_format<i4, f16, 32, axis = 1>, its recipe gives values quantized to #nn.block_format<i8, f16, 32, axis = 1>}}
rt.constant @c layout(#rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>) : tensor<8x64xf32> {
  %a = nn.weight @w["a"] : tensor<8x64xf32>
  %v, %s = nn.quantize %a {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<8x64xf32>) -> (tensor<8x64xi8>, tensor<8x2xf16>)
  %d = nn.dequantize %v, %s {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<8x64xi8>, tensor<8x2xf16>) -> tensor<8x64xf32>
  rt.yield %d : tensor<8x64xf32>
}

// -----

nn.archive @w {file = "w.safetensors"}
// expected-error@+1 {{is laid out as #nn.block_format<i4, f16, 32, axis = 1>, its recipe gives values quantized to unit}}
rt.constant @c layout(#rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>) : tensor<8x64xf32> {
  %a = nn.weight @w["a"] : tensor<8x64xf32>
  rt.yield %a : tensor<8x64xf32>
}

// -----

nn.archive @w {file = "w.safetensors"}
// expected-error@+1 {{is laid out as #nn.block_format<i4, f16, 32, axis = 1>, its recipe gives values quantized to #nn.block_format<i8, f16, 32, axis = 1>}}
rt.constant @c layout(#rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>) : tensor<8x64xf32> {
  %a = nn.weight @w["a"] : tensor<8x68xi8>
  %d = nn.dequantize %a {format = #nn.ggml_type<q8_0>} : (tensor<8x68xi8>) -> tensor<8x64xf32>
  rt.yield %d : tensor<8x64xf32>
}

// -----

// Rows that are no whole blocks, two of which are three blocks.
nn.archive @w {file = "w.safetensors"}
// expected-error@+1 {{is laid out as #nn.block_format<i4, f16, 32, axis = 1>, its recipe gives values quantized to unit}}
rt.constant @c layout(#rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>) : tensor<8x48xf32> {
  %a = nn.weight @w["a"] : tensor<4x54xi8>
  %d = nn.dequantize %a {format = #nn.ggml_type<q4_0>} : (tensor<4x54xi8>) -> tensor<4x96xf32>
  %r = tensor.expand_shape %d [[0], [1, 2]] output_shape [4, 2, 48] : tensor<4x96xf32> into tensor<4x2x48xf32>
  %m = tensor.collapse_shape %r [[0, 1], [2]] : tensor<4x2x48xf32> into tensor<8x48xf32>
  rt.yield %m : tensor<8x48xf32>
}

// -----

nn.archive @w {file = "w.safetensors"}
rt.constant @c layout(#rt.row_major) : tensor<64x4xbf16> {
  %v = nn.weight @w["v"] : tensor<64x4xi4>
  %s = nn.weight @w["s"] : tensor<2x4xi8>
  // expected-error@+1 {{'nn.dequantize' op cannot be in the recipe of constant @c: quantized values of an archive are dequantized at compile time along their last dimension, without zero points and without a scale of the tensor}}
  %d = nn.dequantize %v, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 0>} : (tensor<64x4xi4>, tensor<2x4xi8>) -> tensor<64x4xbf16>
  rt.yield %d : tensor<64x4xbf16>
}

// -----

nn.archive @w {file = "w.safetensors"}
rt.constant @c layout(#rt.row_major) : tensor<4x64xf16> {
  %v = nn.weight @w["v"] : tensor<4x64xi4>
  %s = nn.weight @w["s"] : tensor<4x2xi8>
  // expected-error@+1 {{'nn.dequantize' op cannot be in the recipe of constant @c: quantized values of an archive are dequantized at compile time to f32 and bf16 only}}
  %d = nn.dequantize %v, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<4x64xi4>, tensor<4x2xi8>) -> tensor<4x64xf16>
  rt.yield %d : tensor<4x64xf16>
}

// -----

// expected-error@+1 {{layout panels is in 0 slices, must be in one or several}}
rt.constant @c layout(#rt.panels<32 in 0 slices>) : tensor<64x4xf32> {
  %w = arith.constant dense<1.0> : tensor<64x4xf32>
  rt.yield %w : tensor<64x4xf32>
}

// -----

// expected-error@+1 {{Invalid attribute `layout` in property conversion: "panels"}}
"rt.constant"() <{layout = "panels", sym_name = "c", type = tensor<4xf32>}> ({
  %w = arith.constant dense<1.0> : tensor<4xf32>
  rt.yield %w : tensor<4xf32>
}) : () -> ()

// -----

// expected-error@+1 {{rt.device_configurations is 1 : i64, must be an array of dictionaries}}
module attributes {rt.device_configurations = 1 : i64} {}

// -----

// expected-error@+1 {{rt.device_configurations has 1 : i64, must have 'name', a string, 'count', an i64, 'devices', an array of strings, and 'nodes', an array of dictionaries}}
module attributes {rt.device_configurations = [1]} {}

// -----

// expected-error@+1 {{rt.device_configurations has {}, must have 'name'}}
module attributes {rt.device_configurations = [{}]} {}

// -----

// expected-error@+1 {{rt.device_configurations has the node {axes = array<i64>, devices = array<i64: 0>}, must have 'node', a string}}
module attributes {rt.device_configurations = [{name = "a", count = 1 : i64, devices = [], nodes = [{devices = array<i64: 0>, axes = array<i64>}]}]} {}

// -----

// expected-error@+1 {{rt.device_configurations has the node {axes = array<i64>, devices = array<i64>, node = "n", stage = 1 : i8}}}
module attributes {rt.device_configurations = [{name = "a", count = 1 : i64, devices = [], nodes = [{node = "n", devices = array<i64>, axes = array<i64>, stage = 1 : i8}]}]} {}

// -----

// expected-error@+1 {{rt.device_configurations stands on a 'func.func', must be on a 'builtin.module'}}
func.func private @f() attributes {rt.device_configurations = []}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{rt.wanted_stage is "first", must be an i64}}
  %0 = nn.relu %x {rt.wanted_stage = "first"} : tensor<4xf32>
  return
}
