// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{layout panels has width 0, must be from 1 to 512}}
rt.constant @c {archives = [@w], keys = ["a"], layout = #rt.layout<panels>, type = tensor<4x4xf32>}

// -----

// expected-error@+1 {{layout panels has width 2143289344, must be from 1 to 512}}
rt.constant @c {archives = [@w], keys = ["a"], layout = #rt.layout<panels, 2143289344>, type = tensor<4x4xf32>}

// -----

// expected-error@+1 {{'rt.constant' op layout of the constant is in 576460752303423488 slices of whole panels, which the rows of 'tensor<64x4xf32>' are not}}
rt.constant @c {archives = [@w], keys = ["a"], layout = #rt.layout<panels, 32 in 576460752303423488 slices>, type = tensor<64x4xf32>}

// -----

// expected-error@+1 {{layout row_major has width 4, takes none}}
rt.constant @c {archives = [@w], keys = ["a"], layout = #rt.layout<row_major, 4>, type = tensor<4x4xf32>}

// -----

// expected-error@+1 {{'rt.constant' op layout of the constant is panels, which needs at least rank 2, 'tensor<4xf32>' has rank 1}}
rt.constant @c {archives = [@w], keys = ["a"], layout = #rt.layout<panels, 32>, type = tensor<4xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has type 'tensor<?xf32>', a constant has a static shape}}
rt.constant @c {archives = [@w], keys = ["a"], layout = #rt.layout<row_major>, type = tensor<?xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has a value and keys of archives, must have one of them}}
rt.constant @c {archives = [@w], keys = ["a"], value = dense<1.0> : tensor<4xf32>, layout = #rt.layout<row_major>, type = tensor<4xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has strides, which are for keys that are not transposed}}
rt.constant @c {archives = [@w], keys = ["a"], transposed, strides = array<i64: 1, 2>, layout = #rt.layout<row_major>, type = tensor<2x2xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has 1 strides, 'tensor<2x2xf32>' has rank 2}}
rt.constant @c {archives = [@w], keys = ["a"], strides = array<i64: 1>, layout = #rt.layout<row_major>, type = tensor<2x2xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has strides [1, 3], which lead outside of 'tensor<2x2xf32>'}}
rt.constant @c {archives = [@w], keys = ["a"], strides = array<i64: 1, 3>, layout = #rt.layout<row_major>, type = tensor<2x2xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has strides [-1, 2], which lead outside of 'tensor<2x2xf32>'}}
rt.constant @c {archives = [@w], keys = ["a"], strides = array<i64: -1, 2>, layout = #rt.layout<row_major>, type = tensor<2x2xf32>}

// -----

// expected-error@+1 {{'rt.constant' op is mxfp4, which needs keys of blocks and scales and a type of bf16, not transposed}}
rt.constant @c {archives = [@w], keys = ["a"], mxfp4, layout = #rt.layout<row_major>, type = tensor<4x32xbf16>}

// -----

// expected-error@+1 {{'rt.constant' op has neither a value nor keys of archives}}
rt.constant @c {layout = #rt.layout<row_major>, type = tensor<4xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has 2 keys and 1 archives}}
rt.constant @c {archives = [@w], keys = ["a", "b"], layout = #rt.layout<row_major>, type = tensor<4xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has 2 keys and 1 entries in blocks}}
rt.constant @c {archives = [@w, @w], blocks = [#nn.ggml_type<q4_0>], keys = ["a", "b"], layout = #rt.layout<row_major>, type = tensor<64xf32>}

// -----

// expected-error@+1 {{'rt.constant' op has blocks ["q4_0"], each must be an #nn.ggml_type or unit}}
rt.constant @c {archives = [@w], blocks = ["q4_0"], keys = ["a"], layout = #rt.layout<row_major>, type = tensor<64xf32>}

// -----

// expected-error@+1 {{'rt.constant' op is decoded from blocks, which gives f32 that is not transposed}}
rt.constant @c {archives = [@w], blocks = [#nn.ggml_type<q4_0>], keys = ["a"], layout = #rt.layout<row_major>, type = tensor<64xf16>}

// -----

// expected-error@+1 {{'rt.constant' op value has type 'tensor<4xf32>', the constant 'tensor<5xf32>'}}
rt.constant @c {value = dense<1.0> : tensor<4xf32>, layout = #rt.layout<row_major>, type = tensor<5xf32>}

// -----

// expected-error@+1 {{argument attribute rt.place of argument 0 is unknown; known is rt.layout}}
func.func @f(%x: tensor<4xf32> {rt.place = 1 : i64}) { return }

// -----

// expected-error@+1 {{rt.layout of argument 0 stands on a 'func.func', must be on an 'rt.kernel'}}
func.func @f(%x: tensor<4xf32> {rt.layout = #rt.layout<row_major>}) { return }

// -----

// expected-error@+1 {{rt.layout of argument 0 is "panels", must be #rt.layout<…>}}
rt.kernel @k(%x: tensor<4xf32> {rt.layout = "panels"}) attributes {root = #nn.root<rows>, sizes = []} {
  rt.yield
}

// -----

// expected-error@+1 {{layout of argument 0 stands on 'f32', which has no dimensions}}
rt.kernel @k(%x: f32 {rt.layout = #rt.layout<row_major>}) attributes {root = #nn.root<rows>, sizes = []} {
  rt.yield
}

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

rt.constant @c {value = dense<1.0> : tensor<4xf32>, layout = #rt.layout<row_major>, type = tensor<4xf32>}
func.func @f() {
  // expected-error@+1 {{'rt.constant_data' op has type 'memref<5xf32>', constant @c is 'tensor<4xf32>'}}
  %0 = rt.constant_data @c : memref<5xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'rt.alloc' op is given 0 sizes, 'memref<?xf32>' has 1 dynamic dimensions}}
  %0 = rt.alloc () : memref<?xf32>
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

// expected-error@+1 {{layout row_major has format #nn.block_format<i4, f16, 32, axis = 1>, only panels hold codes}}
rt.constant @c {archives = [@w], keys = ["k"], layout = #rt.layout<row_major, 0, #nn.block_format<i4, f16, 32, axis = 1>>, type = tensor<8x64xf32>}

// -----

// expected-error@+1 {{is laid out as #nn.block_format<i4, f16, 32, axis = 1>, its numbers are rounded to #nn.block_format<i8, f16, 32, axis = 1>}}
rt.constant @c {archives = [@w], format = #nn.block_format<i8, f16, 32, axis = 1>, keys = ["k"], layout = #rt.layout<panels, 32, #nn.block_format<i4, f16, 32, axis = 1>>, type = tensor<8x64xf32>}

// -----

// expected-error@+1 {{has a value and a format, only weights of archives are rounded}}
rt.constant @c {format = #nn.block_format<i8, f16, 32, axis = 1>, layout = #rt.layout<row_major>, type = tensor<1x2xf32>, value = dense<1.0> : tensor<1x2xf32>}

// -----

// expected-error@+1 {{is laid out as #nn.block_format<i4, f16, 32, axis = 1>, its numbers are rounded to unit}}
rt.constant @c {archives = [@w, @w], keys = ["k", "s"], layout = #rt.layout<panels, 32, #nn.block_format<i4, f16, 32, axis = 1>>, mxfp4, type = tensor<2x8x64xbf16>}

// -----

// expected-error@+1 {{is laid out as #nn.block_format<i4, f16, 32, axis = 1>, which blocks of #nn.ggml_type<q8_0> are not}}
rt.constant @c {archives = [@w], blocks = [#nn.ggml_type<q8_0>], keys = ["k"], layout = #rt.layout<panels, 32, #nn.block_format<i4, f16, 32, axis = 1>>, type = tensor<8x64xf32>}

// -----

// expected-error@+1 {{is laid out as #nn.block_format<i4, f16, 32, axis = 1>, rows of 'tensor<8x48xf32>' are no whole blocks}}
rt.constant @c {archives = [@w], blocks = [#nn.ggml_type<q4_0>], keys = ["k"], layout = #rt.layout<panels, 32, #nn.block_format<i4, f16, 32, axis = 1>>, type = tensor<8x48xf32>}

// -----

// expected-error@+1 {{layout is in 2 slices, must be in one, or in several of panels}}
rt.constant @c {archives = [@w], keys = ["a"], layout = #rt.layout<row_major in 2 slices>, type = tensor<64x4xf32>}

// -----

// expected-error@+1 {{'rt.constant' op layout of the constant is in 2 slices of whole panels, which the rows of 'tensor<96x4xf32>' are not}}
rt.constant @c {archives = [@w], keys = ["a"], layout = #rt.layout<panels, 32 in 2 slices>, type = tensor<96x4xf32>}

// -----

// expected-error@+1 {{target 'cpu' has a variant without a name; this machine is "native"}}
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3", ""]>}
