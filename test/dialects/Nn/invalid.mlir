// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

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

// expected-error@+1 {{nn.size_limits gives m, and the arguments have no such size: they have n, arg1.0}}
func.func private @f(tensor<?xf32> {nn.sizes = ["n"]}, tensor<?xf32>) attributes {nn.size_limits = {m = 4 : i64}}

// -----

// expected-error@+1 {{nn.expected_sizes is 3 : i64, must be a dictionary}}
func.func private @f() attributes {nn.expected_sizes = 3 : i64}

// -----

// expected-error@+1 {{nn.expected_sizes gives n, and the arguments have no such size: they have none}}
func.func private @f(tensor<4xf32>) attributes {nn.expected_sizes = {n = 3 : i64}}

// -----

// expected-error@+1 {{nn.empty_sizes is "n", must be a list of names}}
func.func private @f(tensor<?xf32> {nn.sizes = ["n"]}) attributes {nn.empty_sizes = "n"}

// -----

// expected-error@+1 {{nn.empty_sizes has "m", and the arguments have no such size: they have n, arg1.0}}
func.func private @f(tensor<?xf32> {nn.sizes = ["n"]}, tensor<?xf32>) attributes {nn.empty_sizes = ["n", "arg1.0", "m"]}

// -----

// expected-error@+1 {{nn.decisions is 3 : i64, must be a list of dictionaries}}
func.func private @f() attributes {nn.decisions = 3 : i64}

// -----

func.func @replaces_without_known_scales(%x: tensor<2x4xf32>) -> (tensor<2x4xi8>, tensor<2x1xf32>) {
  // expected-error@+1 {{nn.replaces_input is unit, must be a unit attribute on an nn.quantize with unit_scale}}
  %q, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 1>, nn.replaces_input} : (tensor<2x4xf32>) -> (tensor<2x4xi8>, tensor<2x1xf32>)
  return %q, %s : tensor<2x4xi8>, tensor<2x1xf32>
}

// -----

// expected-error@+1 {{function attribute nn.size_limit is unknown; known are nn.size_limits, nn.empty_sizes, nn.expected_sizes, nn.page_tokens, nn.metadata, nn.decisions}}
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

// expected-error@+1 {{nn.unsigned of argument 0 is unit on 'tensor<4xf32>', must be a unit attribute on integers}}
func.func @unsigned(%x: tensor<4xf32> {nn.unsigned}) { return }

// -----

// expected-error@+1 {{nn.unsigned of argument 0 is true on 'tensor<4xi8>', must be a unit attribute on integers}}
func.func @unsigned(%x: tensor<4xi8> {nn.unsigned = true}) { return }

// -----

// expected-error@+1 {{nn.unsigned of result 0 is unit on 'tensor<4xi1>', must be a unit attribute on integers}}
func.func @unsigned(%x: tensor<4xi1>) -> (tensor<4xi1> {nn.unsigned}) { return %x : tensor<4xi1> }
