// RUN: intarsia-opt %s --target-declare-devices -intarsia-fuse -intarsia-lower -split-input-file -verify-diagnostics | FileCheck %s

// The kernel writes the argument's own buffer, what reads the new state waits for it, and no result is made.
// A position that a call gives is refused where it points outside of the cache or the page table.
// CHECK-LABEL: func.func @step(%{{.*}}: memref<?x2x64xf32>
// CHECK-SAME:  memref<?xi64> {nn.below = [32, "entries"], nn.range = array<i64: 0, 9223372036854775807>, nn.sizes = ["tokens"]}
// CHECK-SAME:  memref<?xi64> {nn.below = [1, "sequences"],
// CHECK-SAME:  memref<?x?xi64> {nn.below = [1, "pages"],
// CHECK-SAME:  %[[CACHE:[^:]*]]: memref<?x2x64x32xf16> {{.*}}nn.state
// CHECK-SAME:  nn.page_tokens = 32 : i64
// CHECK:       %[[APPENDED:.*]] = rt.dispatch @cache_append{{.*}} outs(%[[CACHE]] : memref<?x2x64x32xf16>)
// CHECK:       rt.wait %[[APPENDED]]
// CHECK-NOT:   rt.output
func.func @step(%rows: tensor<?x2x64xf32> {nn.sizes = ["tokens", "", ""]},
                %positions: tensor<?xi64> {nn.sizes = ["tokens"]}, %sequences: tensor<?xi64> {nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]},
                %keys: tensor<?x2x64x32xf16> {nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 4 : i64}) {
  %k = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return %k : tensor<?x2x64x32xf16>
}

// -----

// A tail is updated once what reads it is done, also where nothing of that is read by the update.
// CHECK-LABEL: func.func @tail(
// CHECK-SAME:  %[[QUANTIZED:[^:]*]]: memref<?x2x64x16xi8> {{[^%]*}}nn.state{{[^%]*}}%[[PARAMETERS:[^:]*]]: memref<?x2x2x64xi8> {{[^%]*}}nn.state{{[^%]*}}%[[TAIL:[^:]*]]: memref<?x2x64x32xf16> {{[^%]*}}nn.state
// CHECK:       %[[APPENDED:.*]] = rt.dispatch @cache_append{{.*}} outs(%[[QUANTIZED]], %[[PARAMETERS]] : memref<?x2x64x16xi8>, memref<?x2x2x64xi8>)
// CHECK:       rt.dispatch @cache_append{{.*}} after(%[[APPENDED]]){{.*}} outs(%[[TAIL]] : memref<?x2x64x32xf16>)
func.func @tail(%rows: tensor<?x2x64xf32> {nn.sizes = ["tokens", "", ""]},
                %positions: tensor<?xi64> {nn.sizes = ["tokens"]}, %sequences: tensor<?xi64> {nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]},
                %quantized: tensor<?x2x64x16xi8> {nn.sizes = ["pages", "", "", ""], nn.state},
                %parameters: tensor<?x2x2x64xi8> {nn.sizes = ["pages", "", "", ""], nn.state},
                %tail: tensor<?x2x64x32xf16> {nn.sizes = ["sequences", "", "", ""], nn.state})
    -> (tensor<?x2x64x16xi8> {nn.state = 4 : i64}, tensor<?x2x2x64xi8> {nn.state = 5 : i64}, tensor<?x2x64x32xf16> {nn.state = 6 : i64}) {
  %c, %p = nn.cache_append(%quantized, %parameters, %tail) <keys, ui4, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  %t = nn.cache_append(%tail) <keys, ui4, page = 32, transposed>, %rows, %positions, %sequences {tail} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  return %c, %p, %t : tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>
}

// -----

func.func @tail_read_after(%rows: tensor<4x2x64xf32>, %positions: tensor<4xi64>, %sequences: tensor<4xi64>,
                           %pages: tensor<2x3xi64>, %quantized: tensor<6x2x64x16xi8> {nn.state},
                           %parameters: tensor<6x2x2x64xi8> {nn.state}, %tail: tensor<2x2x64x32xf16> {nn.state})
    -> (tensor<6x2x64x16xi8> {nn.state = 4 : i64}, tensor<6x2x2x64xi8> {nn.state = 5 : i64}, tensor<2x2x64x32xf16> {nn.state = 6 : i64}) {
  // expected-error@+1 {{'nn.cache_append' op updates a tensor in place that something else reads}}
  %t = nn.cache_append(%tail) <keys, ui4, page = 32, transposed>, %rows, %positions, %sequences {tail} : (tensor<2x2x64x32xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<2x2x64x32xf16>
  // expected-note@+1 {{'nn.group' uses the state 'arg6' as it was before}}
  %c, %p = nn.cache_append(%quantized, %parameters, %tail) <keys, ui4, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<6x2x64x16xi8>, tensor<6x2x2x64xi8>, tensor<2x2x64x32xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> (tensor<6x2x64x16xi8>, tensor<6x2x2x64xi8>)
  return %c, %p, %t : tensor<6x2x64x16xi8>, tensor<6x2x2x64xi8>, tensor<2x2x64x32xf16>
}

// -----

func.func @not_state(%rows: tensor<4x2x64xf32>, %positions: tensor<4xi64>, %sequences: tensor<4xi64>,
                     %pages: tensor<2x3xi64>, %keys: tensor<6x2x64x32xf16>) -> tensor<6x2x64x32xf16> {
  // expected-error@+1 {{'nn.cache_append' op updates a tensor in place that is no argument with nn.state}}
  %k = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<6x2x64x32xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> tensor<6x2x64x32xf16>
  return %k : tensor<6x2x64x32xf16>
}

// -----

func.func @read_after(%rows: tensor<4x2x64xf32>, %positions: tensor<4xi64>, %sequences: tensor<4xi64>,
                      %pages: tensor<2x3xi64>, %keys: tensor<6x2x64x32xf16> {nn.state})
    -> (tensor<6x2x64x32xf16> {nn.state = 4 : i64}, tensor<6x2x64x32xf16>) {
  // expected-error@+1 {{'nn.cache_append' op updates a tensor in place that something else reads}}
  %k = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<6x2x64x32xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> tensor<6x2x64x32xf16>
  // expected-note@+1 {{'func.return' uses the state 'arg4' as it was before}}
  return %k, %keys : tensor<6x2x64x32xf16>, tensor<6x2x64x32xf16>
}

// -----

func.func @old_state(%rows: tensor<4x2x64xf32>, %positions: tensor<4xi64>, %sequences: tensor<4xi64>,
                     %pages: tensor<2x3xi64>, %keys: tensor<6x2x64x32xf16> {nn.state},
                     %other: tensor<6x2x64x32xf16> {nn.state})
    -> (tensor<6x2x64x32xf16> {nn.state = 5 : i64}) {
  %k = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<6x2x64x32xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> tensor<6x2x64x32xf16>
  // expected-error@+1 {{'func.return' op result 0 is not argument 5 in its last state, as its nn.state says}}
  return %k : tensor<6x2x64x32xf16>
}

// -----

// Positions that a kernel computes are checked by the host before they are used.
// CHECK-LABEL: func.func @computed_positions(
// CHECK:       %[[COMPUTED:.*]] = rt.dispatch {{.*}} outs(%[[NEXT:.*]] : memref<4xi64>)
// CHECK-NEXT:  rt.wait %[[COMPUTED]]
// CHECK-NEXT:  rt.check_indices %[[NEXT]]() below %c96 {limit_text = "96", name = "positions", why = "'nn.cache_append' needs it"} : memref<4xi64>
// CHECK-NEXT:  rt.dispatch @cache_append{{.*}} ins({{[^:]*}}%[[NEXT]],
func.func @computed_positions(%rows: tensor<4x2x64xf32>, %positions: tensor<4xi64>, %sequences: tensor<4xi64>,
                           %pages: tensor<2x3xi64>, %keys: tensor<6x2x64x32xf16> {nn.state})
    -> (tensor<6x2x64x32xf16> {nn.state = 4 : i64}) {
  %next = arith.addi %positions, %sequences : tensor<4xi64>
  %k = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %next, %sequences, %pages : (tensor<6x2x64x32xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> tensor<6x2x64x32xf16>
  return %k : tensor<6x2x64x32xf16>
}

// -----

// CHECK-LABEL: func.func @partly_computed_positions(
// CHECK:       rt.check_indices %{{.*}}() below %c96 {{.*}} : memref<4xi64>
func.func @partly_computed_positions(%rows: tensor<4x2x64xf32>, %positions: tensor<2xi64>, %sequences: tensor<4xi64>,
                                  %pages: tensor<2x3xi64>, %keys: tensor<6x2x64x32xf16> {nn.state})
    -> (tensor<6x2x64x32xf16> {nn.state = 4 : i64}) {
  %next = arith.addi %positions, %positions : tensor<2xi64>
  %all = tensor.concat dim(0) %positions, %next : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %k = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %all, %sequences, %pages : (tensor<6x2x64x32xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> tensor<6x2x64x32xf16>
  return %k : tensor<6x2x64x32xf16>
}

// -----

func.func @open_pages(%rows: tensor<4x2x64xf32>, %positions: tensor<4xi64>, %sequences: tensor<4xi64>,
                      %pages: tensor<2x3xi64>, %keys: tensor<6x2x?x64xf16> {nn.state})
    -> (tensor<6x2x?x64xf16> {nn.state = 4 : i64}) {
  // expected-error@+1 {{'nn.cache_append' op is of a cache #nn.cache_format<keys, f16>, whose pages have no size yet; run the partition phase first}}
  %k = nn.cache_append(%keys) <keys, f16>, %rows, %positions, %sequences, %pages : (tensor<6x2x?x64xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> tensor<6x2x?x64xf16>
  return %k : tensor<6x2x?x64xf16>
}

// -----

func.func @two_pages(%rows: tensor<4x2x64xf32>, %positions: tensor<4xi64>, %sequences: tensor<4xi64>,
                     %pages: tensor<2x3xi64>, %keys: tensor<6x2x64x32xf16> {nn.state}, %values: tensor<6x2x16x64xf16> {nn.state})
    -> (tensor<6x2x64x32xf16> {nn.state = 4 : i64}, tensor<6x2x16x64xf16> {nn.state = 5 : i64}) {
  %k = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %positions, %sequences, %pages : (tensor<6x2x64x32xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> tensor<6x2x64x32xf16>
  // expected-error@+1 {{'nn.cache_append' op is of a cache with pages of 16 tokens, the function has pages of 32: one page table serves all caches}}
  %v = nn.cache_append(%values) <values, f16, page = 16>, %rows, %positions, %sequences, %pages : (tensor<6x2x16x64xf16>, tensor<4x2x64xf32>, tensor<4xi64>, tensor<4xi64>, tensor<2x3xi64>) -> tensor<6x2x16x64xf16>
  return %k, %v : tensor<6x2x64x32xf16>, tensor<6x2x16x64xf16>
}
