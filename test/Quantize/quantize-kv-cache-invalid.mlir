// RUN: intarsia-opt %s --quantize-kv-cache=formats=int8 --split-input-file --verify-diagnostics --allow-unregistered-dialect

func.func @twice(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf32> {nn.state, nn.name = "keys"}) -> (tensor<?x2x?x64xf32> {nn.state = 4 : i64}) {
  %k1 = nn.cache_append(%k) <keys, f32>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  // expected-error@+1 {{'nn.cache_append' op is the second of 'keys' in its function; quantized keys, whose last page lies in a tail, take one}}
  %k2 = nn.cache_append(%k1) <keys, f32>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  return %k2 : tensor<?x2x?x64xf32>
}

// -----

func.func @before(%q: tensor<?x4x64xf32>, %r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf32> {nn.state, nn.name = "keys"}, %v: tensor<?x2x?x64xf32> {nn.state}) -> (tensor<?x4x64xf32>) {
  // expected-error@+1 {{'nn.cached_attention' op reads 'keys' before its new rows are appended, which quantized keys do not allow}}
  %a = nn.cached_attention %q, (%k) <keys, f32>, (%v) <values, f32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return %a : tensor<?x4x64xf32>
}

// -----

func.func @no_state(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf32>) -> tensor<?x2x?x64xf32> {
  // expected-error@+1 {{'nn.cache_append' op is of a cache #nn.cache_format<keys, f32> that is no argument with nn.state, so that its pages cannot be laid out}}
  %k1 = nn.cache_append(%k) <keys, f32>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  return %k1 : tensor<?x2x?x64xf32>
}

// -----

func.func @disagree(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf32> {nn.state, nn.name = "keys"}) -> (tensor<?x2x?x64xf32> {nn.state = 4 : i64}) {
  %k1 = nn.cache_append(%k) <keys, f32>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  // expected-error@+1 {{'nn.cache_append' op uses the cache 'keys' as #nn.cache_format<values, f32>, another op as #nn.cache_format<keys, f32>}}
  %k2 = nn.cache_append(%k1) <values, f32>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  return %k2 : tensor<?x2x?x64xf32>
}

// -----

func.func @unknown_tail(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %l: tensor<?x2x?x64xf16> {nn.state}) -> (tensor<?x2x?x64xf16> {nn.state = 4 : i64}) {
  // expected-error@+1 {{'nn.cache_append' op updates the tail of a cache #nn.cache_format<keys, ui8> that no op before it uses}}
  %l1 = nn.cache_append(%l) <keys, ui8>, %r, %p, %s {tail} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x?x64xf16>
  return %l1 : tensor<?x2x?x64xf16>
}

// -----

// expected-error@+1 {{--kv=int8: 'cache' is quantized already, to #nn.cache_format<values, ui4>}}
func.func @quantized(%s: tensor<?xi64>, %p: tensor<?xi64>, %t: tensor<?x?xi64>, %r: tensor<?x2x64xf32>,
    %v: tensor<?x2x?x32xi8> {nn.state, nn.name = "cache"}, %q: tensor<?x2x2x?xi8> {nn.state})
    -> (tensor<?x2x?x32xi8> {nn.state = 4 : i64}, tensor<?x2x2x?xi8> {nn.state = 5 : i64}) {
  %v1, %q1 = nn.cache_append(%v, %q) <values, ui4>, %r, %p, %s, %t : (tensor<?x2x?x32xi8>, tensor<?x2x2x?xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x?x32xi8>, tensor<?x2x2x?xi8>)
  return %v1, %q1 : tensor<?x2x?x32xi8>, tensor<?x2x2x?xi8>
}

// -----

func.func @blocks(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf32> {nn.state}) -> (tensor<?x2x?x64xf32> {nn.state = 4 : i64}) {
  // expected-error@+1 {{'nn.cache_append' op is of a cache #nn.cache_format<keys, f32> in a function of several blocks, whose pages cannot be laid out}}
  %k1 = nn.cache_append(%k) <keys, f32>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  "test.jump"()[^bb1] : () -> ()
^bb1:
  return %k1 : tensor<?x2x?x64xf32>
}
