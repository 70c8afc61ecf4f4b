// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'nn.archive' op file is empty, must name an archive}}
nn.archive @w {file = ""}

// -----

// expected-error@+1 {{'nn.archive' op file is "../model.safetensors", which is not below the directory of the model: name archives from a directory that holds them all, and give that with --archives}}
nn.archive @w {file = "../model.safetensors"}

// -----

// expected-error@+1 {{file is "a/../../model.safetensors", which is not below}}
nn.archive @w {file = "a/../../model.safetensors"}

// -----

// expected-error@+1 {{file is "/tmp/model.safetensors", which is not below}}
nn.archive @w {file = "/tmp/model.safetensors"}

// -----

// expected-error@+1 {{file is "..\\model.safetensors", which is not below}}
nn.archive @w {file = "..\\model.safetensors"}

// -----

// Below it: in a folder, and with a name that begins with dots.
nn.archive @w {file = "a/..model.safetensors"}

// -----

func.func @f() {
  // expected-error@+1 {{'nn.weight' op archive @w is not defined}}
  %0 = nn.weight @w["a"] : tensor<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'nn.weight' op archive @f is a 'func.func', must be an 'nn.archive'}}
  %0 = nn.weight @f["a"] : tensor<4xf32>
  return
}

// -----

nn.archive @w {file = "a"}
func.func @f() {
  // expected-error@+1 {{'nn.weight' op key is empty, must name a tensor of the archive}}
  %0 = nn.weight @w[""] : tensor<4xf32>
  return
}

// -----

nn.archive @w {file = "a"}
func.func @f() {
  // expected-error@+1 {{'nn.weight' op has type 'tensor<?xf32>', a weight has a static shape}}
  %0 = nn.weight @w["a"] : tensor<?xf32>
  return
}

// -----

// expected-error@+1 {{nn.name of argument 0 is "", must be a string that is not empty}}
func.func @f(%x: tensor<?xf32> {nn.name = ""}) { return }

// -----

// expected-error@+1 {{arguments 0 and 1 are both named "x"}}
func.func @f(%x: tensor<?xf32> {nn.name = "x"}, %y: tensor<?xf32> {nn.name = "x"}) { return }

// -----

// expected-error@+1 {{results 0 and 1 are both named "x"}}
func.func private @f() -> (tensor<?xf32> {nn.name = "x"}, tensor<?xf32> {nn.name = "x"})

// -----

// expected-error@+1 {{nn.sizes of argument 0 is [1], must be a list of strings}}
func.func @f(%x: tensor<?xf32> {nn.sizes = [1]}) { return }

// -----

// expected-error@+1 {{nn.sizes of argument 0 stands on 'f32', which has no dimensions}}
func.func @f(%x: f32 {nn.sizes = ["a"]}) { return }

// -----

// expected-error@+1 {{nn.sizes of argument 0 has 1 names, 'tensor<?x4xf32>' has 2 dimensions}}
func.func @f(%x: tensor<?x4xf32> {nn.sizes = ["a"]}) { return }

// -----

// expected-error@+1 {{nn.sizes of result 0 names dimension 1 'b', the type says 4}}
func.func private @f() -> (tensor<?x4xf32> {nn.sizes = ["a", "b"]})

// -----

// expected-error@+1 {{nn.sizes of argument 0 names dimension 0 '?0'; names are letters, digits, '_' and '.', and begin with a letter or '_'}}
func.func private @f(tensor<?xf32> {nn.sizes = ["?0"]})

// -----

// expected-error@+1 {{nn.default of argument 0 is 7 : i64, not in its nn.range [0, 5)}}
func.func private @f(tensor<4xi64> {nn.default = 7 : i64, nn.range = array<i64: 0, 5>})

// -----

// expected-error@+1 {{nn.default of argument 0 is 70000000000 : i64, elements are 'i32'}}
func.func private @f(tensor<4xi32> {nn.default = 70000000000 : i64})

// -----

// expected-error@+1 {{nn.default of argument 0 is -1 : i64, elements are 'i1'}}
func.func private @f(tensor<4xi1> {nn.default = -1 : i64})

// -----

// expected-error@+1 {{nn.default of argument 0 is 9007199254740993 : i64, must be at most 2^53 (exact as f64)}}
func.func private @f(tensor<4xi64> {nn.default = 9007199254740993 : i64})

// -----

// expected-error@+1 {{nn.default of argument 0 is "one", must be an integer}}
func.func @f(%x: tensor<?xi64> {nn.default = "one"}) { return }

// -----

// expected-error@+1 {{nn.default of argument 0 stands on 'tensor<?xindex>', which holds no numbers}}
func.func @f(%x: tensor<?xindex> {nn.default = 1 : i64}) { return }

// -----

// expected-error@+1 {{nn.range of argument 0 is array<i64: 4, 4>, must be array<i64: low, high> with low < high}}
func.func @f(%x: tensor<?xi64> {nn.range = array<i64: 4, 4>}) { return }

// -----

// expected-error@+1 {{nn.range of argument 0 stands on 'tensor<?xf32>', which holds no integers}}
func.func @f(%x: tensor<?xf32> {nn.range = array<i64: 0, 4>}) { return }

// -----

// expected-error@+1 {{argument attribute nn.nmae of argument 0 is unknown; known are nn.name, nn.sizes, nn.default, nn.range}}
func.func @f(%x: tensor<?xf32> {nn.nmae = "x"}) { return }

// -----

// expected-error@+1 {{result attribute nn.range of result 0 is unknown; known are nn.name, nn.sizes}}
func.func private @f() -> (tensor<?xi64> {nn.range = array<i64: 0, 4>})

// -----

// expected-error@+1 {{nn.outlined_from is "main", must be a function's symbol}}
func.func private @f() attributes {nn.outlined_from = "main"}

// -----

// expected-error@+1 {{nn.metadata is 1 : i64, must be a dictionary}}
func.func private @f() attributes {nn.metadata = 1 : i64}

// -----

// expected-error@+1 {{nn.size_limits is 1 : i64, must be a dictionary}}
func.func private @f() attributes {nn.size_limits = 1 : i64}

// -----

// expected-error@+1 {{nn.size_limits gives sequence = 0 : i64, must be a positive integer}}
func.func private @f(tensor<?xf32> {nn.sizes = ["sequence"]}) attributes {nn.size_limits = {sequence = 0 : i64}}

// -----

// expected-error@+1 {{nn.size_limits gives m, which is no size of the arguments: they have n, arg1.0}}
func.func private @f(tensor<?xf32> {nn.sizes = ["n"]}, tensor<?xf32>) attributes {nn.size_limits = {m = 4 : i64}}

// -----

// expected-error@+1 {{nn.expected_sizes is 3 : i64, must be a dictionary}}
func.func private @f() attributes {nn.expected_sizes = 3 : i64}

// -----

// expected-error@+1 {{nn.expected_sizes gives n, which is no size of the arguments: they have none}}
func.func private @f(tensor<4xf32>) attributes {nn.expected_sizes = {n = 3 : i64}}

// -----

// expected-error@+1 {{nn.decisions is 3 : i64, must be a list of dictionaries}}
func.func private @f() attributes {nn.decisions = 3 : i64}

// -----

// expected-error@+1 {{function attribute nn.size_limit is unknown; known are nn.size_limits, nn.expected_sizes, nn.page_tokens, nn.metadata, nn.decisions}}
func.func private @f(tensor<?xf32> {nn.sizes = ["n"]}) attributes {nn.size_limit = {n = 4 : i64}}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{nn.name stands on an op that is no function}}
  %0 = arith.addf %x, %x {nn.name = "sum"} : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{nn.size_limits stands on an op that is no function}}
module attributes {nn.size_limits = {sequence = 4 : i64}} {}

// -----

// expected-error@+1 {{nn.files stands on an op that is no module}}
func.func private @f() attributes {nn.files = ["tokenizer.json"]}

// -----

// expected-error@+1 {{nn.files lists "../secret", which is not below the directory of the model: name files from a directory that holds them all, and give that with --archives}}
module attributes {nn.files = ["tokenizer.json", "../secret"]} {}

// -----

// expected-error@+1 {{nn.files is "tokenizer.json", must be a list of names}}
module attributes {nn.files = "tokenizer.json"} {}

// -----

// expected-error@+1 {{nn.files lists "tokenizer.json", must list names, each once}}
module attributes {nn.files = ["tokenizer.json", "tokenizer.json"]} {}

// -----

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.linear' op has the precision 'f64': f16, bf16 and tf32 are possible}}
  %0 = nn.linear %x, %w {precision = f64} : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<f32>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.linear' op input has rank 0, must have at least rank 1}}
  %0 = nn.linear %x, %w : (tensor<f32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// -----

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x8x1xf32>) {
  // expected-error@+1 {{'nn.linear' op weight has rank 3, must have rank 2}}
  %0 = nn.linear %x, %w : (tensor<?x8xf32>, tensor<4x8x1xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<?x768xf32>, %w: tensor<4x384xf32>) {
  // expected-error@+1 {{'nn.linear' op weight has 384 input features, input has 768}}
  %0 = nn.linear %x, %w : (tensor<?x768xf32>, tensor<4x384xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<?x8xbf16>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.linear' op weight holds 'f32', input holds 'bf16'}}
  %0 = nn.linear %x, %w : (tensor<?x8xbf16>, tensor<4x8xf32>) -> tensor<?x4xbf16>
  return
}

// -----

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>, %b: tensor<5xf32>) {
  // expected-error@+1 {{'nn.linear' op bias has 5 output features, weight has 4}}
  %0 = nn.linear %x, %w, %b : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<5xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.linear' op failed to infer returned types}}
  // expected-error@+1 {{'nn.linear' op inferred type(s) 'tensor<?x4xf32>' are incompatible with return type(s) of operation 'tensor<?x5xf32>'}}
  %0 = nn.linear %x, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x5xf32>
  return
}

// -----

func.func @matmul(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.matmul' op has the precision 'f8E4M3FN': f16, bf16 and tf32 are possible}}
  %0 = nn.matmul %a, %a {precision = f8E4M3FN, transpose_rhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<1x8x4xf32>) {
  // expected-error@+1 {{'nn.matmul' op lhs has rank 2, rhs has rank 3}}
  %0 = nn.matmul %a, %b : (tensor<4x8xf32>, tensor<1x8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul(%a: tensor<8xf32>) {
  // expected-error@+1 {{'nn.matmul' op lhs has rank 1, must have at least rank 2}}
  %0 = nn.matmul %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @matmul(%a: tensor<2x4x8xf32>, %b: tensor<3x8x4xf32>) {
  // expected-error@+1 {{'nn.matmul' op batch dimension 0 of lhs is 2, of rhs is 3}}
  %0 = nn.matmul %a, %b : (tensor<2x4x8xf32>, tensor<3x8x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<9x4xf32>) {
  // expected-error@+1 {{'nn.matmul' op sums over 8 elements of lhs, 9 of rhs}}
  %0 = nn.matmul %a, %b : (tensor<4x8xf32>, tensor<9x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>) {
  // expected-error@+1 {{'nn.attention' op has the precision 'f32': f16, bf16, i8 and tf32 are possible}}
  %0 = nn.attention %q, %q, %q {precision = f32, scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x?x768xf32>) {
  // expected-error@+1 {{'nn.attention' op key has rank 3, must have rank 4}}
  %0 = nn.attention %q, %k, %q {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x768xf32>, tensor<?x?x12x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x?x12x32xf32>) {
  // expected-error@+1 {{'nn.attention' op key has 32 features a head, query has 64}}
  %0 = nn.attention %q, %k, %q {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x32xf32>, tensor<?x?x12x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<2x?x12x64xf32>, %k: tensor<3x?x12x64xf32>) {
  // expected-error@+1 {{'nn.attention' op key has 3 batch entries, query has 2}}
  %0 = nn.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<2x?x12x64xf32>, tensor<3x?x12x64xf32>, tensor<3x?x12x64xf32>) -> tensor<2x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x7x12x64xf32>, %v: tensor<?x9x12x64xf32>) {
  // expected-error@+1 {{'nn.attention' op value has 9 positions, key has 7}}
  %0 = nn.attention %q, %k, %v {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x7x12x64xf32>, tensor<?x9x12x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x?x5x64xf32>) {
  // expected-error@+1 {{'nn.attention' op query has 12 heads, no multiple of the 5 heads of key}}
  %0 = nn.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x5x64xf32>, tensor<?x?x5x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{'nn.attention' op number of heads is dynamic, must be static}}
  %0 = nn.attention %q, %q, %q {scale = 1.0 : f32} : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %m: tensor<?x3x1x?xi1>) {
  // expected-error@+1 {{'nn.attention' op mask has size 3 in dimension 1 (heads), the scores have 12}}
  %0 = nn.attention %q, %q, %q mask %m {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x3x1x?xi1>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x8x12x64xf32>, %m: tensor<?x1x1x1xi1>) {
  // expected-error@+1 {{'nn.attention' op mask has size 1 in dimension 3 (keys), the scores have 8}}
  %0 = nn.attention %q, %q, %q mask %m {scale = 1.0 : f32} : (tensor<?x8x12x64xf32>, tensor<?x8x12x64xf32>, tensor<?x8x12x64xf32>, tensor<?x1x1x1xi1>) -> tensor<?x8x12x64xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf32>, %g: tensor<9xf32>) {
  // expected-error@+1 {{'nn.layer_norm' op scale has 9 features, input has 8}}
  %0 = nn.layer_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<?x8xf32>, tensor<9xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf16>, %g: tensor<8xf16>, %b: tensor<8xf32>) {
  // expected-error@+1 {{'nn.layer_norm' op bias holds 'f32', input holds 'f16'}}
  %0 = nn.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f32} : (tensor<?x8xf16>, tensor<8xf16>, tensor<8xf32>) -> tensor<?x8xf16>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) {
  // expected-error@+1 {{'nn.rms_norm' op epsilon is -1.000000e+00, must be finite and not negative}}
  %0 = nn.rms_norm %x, %g {epsilon = -1.0 : f32} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x10xf32>, %g: tensor<10xf32>) {
  // expected-error@+1 {{'nn.group_norm' op input has 10 features, no multiple of the 4 groups}}
  %0 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<?x10xf32>, tensor<10xf32>) -> tensor<?x10xf32>
  return
}

// -----

func.func @norm(%x: tensor<4x?xf32>, %g: tensor<?xf32>) {
  // expected-error@+1 {{'nn.group_norm' op number of input features is dynamic, must be static}}
  %0 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<4x?xf32>, tensor<?xf32>) -> tensor<4x?xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) {
  // expected-error@+1 {{'nn.group_norm' op attribute 'groups' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 0} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{'nn.group_norm' op bias has 4 features, input has 8}}
  %0 = nn.group_norm %x, %g, %b {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<?x8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @softmax(%x: tensor<f32>) {
  // expected-error@+1 {{'nn.softmax' op input has rank 0, must have at least rank 1}}
  %0 = nn.softmax %x : tensor<f32>
  return
}

// -----

func.func @embedding(%t: tensor<10x2x4xf32>, %i: tensor<?xi64>) {
  // expected-error@+1 {{'nn.embedding' op table has rank 3, must have rank 2}}
  %0 = nn.embedding %t, %i : (tensor<10x2x4xf32>, tensor<?xi64>) -> tensor<?x4xf32>
  return
}

// -----

func.func @embedding(%t: tensor<0x4xf32>, %i: tensor<?xi64>) {
  // expected-error@+1 {{'nn.embedding' op table has no rows}}
  %0 = nn.embedding %t, %i : (tensor<0x4xf32>, tensor<?xi64>) -> tensor<?x4xf32>
  return
}

// -----

func.func @embedding(%t: tensor<10x4xf32>) {
  %i = arith.constant dense<[0, 9, 10]> : tensor<3xi64>
  // expected-error@+1 {{'nn.embedding' op index 10 is outside of the table, which has 10 rows}}
  %0 = nn.embedding %t, %i : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @rope(%x: tensor<?x?x8x64xf32>, %p: tensor<?x?xi64>, %f: tensor<33xf32>) {
  // expected-error@+1 {{'nn.rope' op rotates 66 features, input has 64 a head}}
  %0 = nn.rope %x, %p, %f : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<33xf32>) -> tensor<?x?x8x64xf32>
  return
}

// -----

func.func @rope(%x: tensor<?x5x8x64xf32>, %p: tensor<?x4xi64>, %f: tensor<32xf32>) {
  // expected-error@+1 {{'nn.rope' op positions has 4 entries in dimension 1, input has 5}}
  %0 = nn.rope %x, %p, %f : (tensor<?x5x8x64xf32>, tensor<?x4xi64>, tensor<32xf32>) -> tensor<?x5x8x64xf32>
  return
}

// -----

func.func @rope(%x: tensor<?x5x8x?xf32>, %p: tensor<?x5xi64>, %f: tensor<32xf32>) {
  // expected-error@+1 {{'nn.rope' op number of features a head and of frequencies must be static}}
  %0 = nn.rope %x, %p, %f : (tensor<?x5x8x?xf32>, tensor<?x5xi64>, tensor<32xf32>) -> tensor<?x5x8x?xf32>
  return
}

// -----

// expected-error@+1 {{block format has elements nf4 and scales e8m0, no known format combines them}}
func.func private @f() attributes {nn.metadata = {a = #nn.block_format<nf4, e8m0, 32, axis = 0>}}

// -----

// expected-error@+1 {{block format of e2m1 with e8m0 scales has blocks of 16, must be one of 32}}
func.func private @f() attributes {nn.metadata = {a = #nn.block_format<e2m1, e8m0, 16, axis = 0>}}

// -----

// expected-error@+1 {{block format of e4m3 with f32 scales has blocks of 32, must be one of 0}}
func.func private @f() attributes {nn.metadata = {a = #nn.block_format<e4m3, f32, 32, axis = 0>}}

// -----

// expected-error@+1 {{block format has axis -1, must not be negative}}
func.func private @f() attributes {nn.metadata = {a = #nn.block_format<i4, f32, 32, axis = -1>}}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{needs an attribute format = #nn.block_format<…>}}
  %c, %s = nn.quantize %x : (tensor<64xf32>) -> (tensor<64xi4>, tensor<2xf32>)
  return
}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{has 1 results, the format implies 2, or one more for zero points}}
  %c = nn.quantize %x {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<64xf32>) -> (tensor<64xi4>)
  return
}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{'nn.quantize' op format has axis 1, the tensor has rank 1}}
  %c, %s = nn.quantize %x {format = #nn.block_format<i4, f32, 32, axis = 1>} : (tensor<64xf32>) -> (tensor<64xi4>, tensor<2xf32>)
  return
}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{'nn.quantize' op element of quantized values is 'i8', the format says 'i4'}}
  %c, %s = nn.quantize %x {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<64xf32>) -> (tensor<64xi8>, tensor<2xf32>)
  return
}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{'nn.quantize' op type of scales is 'tensor<3xf32>', the format implies 'tensor<2xf32>'}}
  %c, %s = nn.quantize %x {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<64xf32>) -> (tensor<64xi4>, tensor<3xf32>)
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<1xf32>, %z: tensor<1xi4>) {
  // expected-error@+1 {{'nn.dequantize' op has zero points, elements nf4 have none}}
  %0 = nn.dequantize %c, %s zero_points %z {format = #nn.block_format<nf4, f32, 64, axis = 0>} : (tensor<64xi4>, tensor<1xf32>, tensor<1xi4>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<1xf32>, %t: tensor<f32>) {
  // expected-error@+1 {{'nn.dequantize' op has a tensor scale, the format has none}}
  %0 = nn.dequantize %c, %s tensor_scale %t {format = #nn.block_format<nf4, f32, 64, axis = 0>} : (tensor<64xi4>, tensor<1xf32>, tensor<f32>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<4xi8>) {
  // expected-error@+1 {{'nn.dequantize' op has no tensor scale, the format needs one}}
  %0 = nn.dequantize %c, %s {format = #nn.block_format<e2m1, e4m3, 16, axis = 0>} : (tensor<64xi4>, tensor<4xi8>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<4xi8>, %t: tensor<4xf32>) {
  // expected-error@+1 {{'nn.dequantize' op type of tensor scale is 'tensor<4xf32>', the format implies 'tensor<1xf32>'}}
  %0 = nn.dequantize %c, %s tensor_scale %t {format = #nn.block_format<e2m1, e4m3, 16, axis = 0>} : (tensor<64xi4>, tensor<4xi8>, tensor<4xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<3x64xi4>, %s: tensor<3x4xi8>, %t: tensor<3xf32>) {
  // expected-error@+1 {{'nn.dequantize' op type of tensor scale is 'tensor<3xf32>', the format implies 'tensor<f32>'}}
  %0 = nn.dequantize %c, %s tensor_scale %t {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<3x64xi4>, tensor<3x4xi8>, tensor<3xf32>) -> tensor<3x64xf32>
  return
}

// -----

func.func @quantize(%x: tensor<3x64xf32>) {
  // expected-error@+1 {{'nn.quantize' op type of tensor scale is 'tensor<3x4xf32>', the format implies 'tensor<3x1xf32>'}}
  %c, %s, %t = nn.quantize %x {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<3x64xf32>) -> (tensor<3x64xi4>, tensor<3x4xi8>, tensor<3x4xf32>)
  return
}

// -----

func.func @group(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected one of [linear, matmul, attention, cached_attention, cache_append, route, experts, candidates, rows, generic] for what a kernel is built around, got: conv}}
  %0 = nn.group conv(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @group_of_an_earlier_form(%x: tensor<4xf32>) {
  // expected-error@+1 {{root is the string "rows", as Intarsia wrote it before kernel roots were words: write rows without quotes, or compile the model again with this version}}
  %0 = nn.group "rows"(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @group(%x: tensor<4xf32>) {
  // expected-error@+1 {{group has 1 inputs, its type 2}}
  %0 = nn.group rows(%a = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @group(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.group' op body has 0 arguments, the group has 1 inputs}}
  %0 = "nn.group"(%x) ({
    %1 = tensor.empty() : tensor<4xf32>
    nn.yield %1 : tensor<4xf32>
  }) {root = #nn.root<rows>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @group(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.group' op argument 0 of the body is 'tensor<5xf32>', the input is 'tensor<4xf32>'}}
  %0 = "nn.group"(%x) ({
  ^bb0(%a: tensor<5xf32>):
    nn.yield %a : tensor<5xf32>
  }) {root = #nn.root<rows>} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @group(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.group' op body ends with 'func.return', must end with 'nn.yield'}}
  nn.group rows(%a = %x) : (tensor<4xf32>) -> () {
    func.return
  }
  return
}

// -----

func.func @group(%x: tensor<4xf32>) {
  %0:2 = nn.group rows(%a = %x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    // expected-error@+1 {{'nn.yield' op gives 1 values, the group has 2 results}}
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @group(%x: tensor<4xf32>) {
  %0 = nn.group rows(%a = %x) : (tensor<4xf32>) -> tensor<?xf32> {
    // expected-error@+1 {{'nn.yield' op value 0 is 'tensor<4xf32>', the group's result is 'tensor<?xf32>'}}
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @group() {
  // expected-error@+1 {{'nn.group' op expects a non-empty block}}
  "nn.group"() ({
  ^bb0:
  }) {root = #nn.root<rows>} : () -> ()
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %v: tensor<?x?x6x64xf32>) {
  // expected-error@+1 {{'nn.attention' op value has 6 heads, key has 12}}
  %0 = nn.attention %q, %q, %v {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?x6x64xf32>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<2x?x12x64xf32>, %v: tensor<3x?x12x64xf32>) {
  // expected-error@+1 {{'nn.attention' op value has 3 batch entries, query has 2}}
  %0 = nn.attention %q, %q, %v {scale = 1.0 : f32} : (tensor<2x?x12x64xf32>, tensor<2x?x12x64xf32>, tensor<3x?x12x64xf32>) -> tensor<2x?x12x64xf32>
  return
}

// -----

func.func @attention(%q: tensor<?x?x12x64xf32>, %m: tensor<?x?xi1>) {
  // expected-error@+1 {{'nn.attention' op mask has rank 2, must have rank 4}}
  %0 = nn.attention %q, %q, %q mask %m {scale = 1.0 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>, tensor<?x?xi1>) -> tensor<?x?x12x64xf32>
  return
}

// -----

func.func @rope(%x: tensor<?x?x8x64xf32>, %p: tensor<?xi64>, %f: tensor<32xf32>) {
  // expected-error@+1 {{'nn.rope' op positions has rank 1, must have rank 2}}
  %0 = nn.rope %x, %p, %f : (tensor<?x?x8x64xf32>, tensor<?xi64>, tensor<32xf32>) -> tensor<?x?x8x64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<2xf32>, %z: tensor<1xi4>) {
  // expected-error@+1 {{'nn.dequantize' op type of zero points is 'tensor<1xi4>', the format implies 'tensor<2xi4>'}}
  %0 = nn.dequantize %c, %s zero_points %z {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<64xi4>, tensor<2xf32>, tensor<1xi4>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<4xi8>, %t: tensor<f16>) {
  // expected-error@+1 {{'nn.dequantize' op element of tensor scale is 'f16', the format says 'f32'}}
  %0 = nn.dequantize %c, %s tensor_scale %t {format = #nn.block_format<e2m1, e4m3, 16, axis = 0>} : (tensor<64xi4>, tensor<4xi8>, tensor<f16>) -> tensor<64xf32>
  return
}

// -----

// Its syntax could not print two types.
func.func @relu(%x: tensor<4xf32>) {
  // expected-error@+2 {{'nn.relu' op failed to infer returned types}}
  // expected-error@+1 {{'nn.relu' op inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<?xf32>'}}
  %0 = "nn.relu"(%x) : (tensor<4xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @softmax(%x: tensor<?xf32>) {
  // expected-error@+2 {{'nn.softmax' op failed to infer returned types}}
  // expected-error@+1 {{'nn.softmax' op inferred type(s) 'tensor<?xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'}}
  %0 = "nn.softmax"(%x) : (tensor<?xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x35xi8>) {
  // expected-error@+1 {{'nn.dequantize' op blocks have rows of 35 bytes, no multiple of the 34 bytes of a block of q8_0}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<4x35xi8>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x34xi8>) {
  // expected-error@+1 {{'nn.dequantize' op result is 'tensor<4x34xf32>', the format implies 'tensor<4x32xf32>'}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<4x34xi8>) -> tensor<4x34xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x40xi8>) {
  // expected-error@+1 {{ggml type 'q8_1' is not one that is decoded: f32, f16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq2_xxs, iq2_xs, iq3_xxs, iq1_s, iq4_nl, iq3_s, iq2_s, iq4_xs, iq1_m, bf16, tq1_0, tq2_0, mxfp4, nvfp4}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_1>} : (tensor<4x40xi8>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x34xi8>) {
  // expected-error@+1 {{'nn.dequantize' op result is 'tensor<4x32xf16>', the format implies 'tensor<4x32xf32>'}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<4x34xi8>) -> tensor<4x32xf16>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x34xi16>) {
  // expected-error@+1 {{'nn.dequantize' op blocks are 'tensor<4x34xi16>', must be rows of i8}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<4x34xi16>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x34xi8>, %s: tensor<4x1xf16>) {
  // expected-error@+1 {{'nn.dequantize' op has scales, blocks of q8_0 hold theirs}}
  %0 = nn.dequantize %b, %s {format = #nn.ggml_type<q8_0>} : (tensor<4x34xi8>, tensor<4x1xf16>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<4x32xi4>) {
  // expected-error@+1 {{'nn.dequantize' op has no scales, the format #nn.block_format<i4, f16, 32, axis = 1> needs them}}
  %0 = nn.dequantize %c {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<4x32xi4>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<4x32xi4>) {
  // expected-error@+1 {{'nn.dequantize' op attribute 'format' failed to satisfy constraint: BlockFormatAttrInterface instance}}
  %0 = nn.dequantize %c {format = "i4"} : (tensor<4x32xi4>) -> tensor<4x32xf32>
  return
}
