// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{a cache holds 'keys' or 'values', not 'rows'}}
module attributes {test.format = #nn.cache_format<rows, f16>} {}

// -----

// expected-error@+1 {{a cache of 'f64': elements are f32, f16, bf16, f8E4M3FN, ui4 or ui8}}
module attributes {test.format = #nn.cache_format<keys, f64>} {}

// -----

// expected-error@+1 {{a cache of 'i8': elements are f32, f16, bf16, f8E4M3FN, ui4 or ui8}}
module attributes {test.format = #nn.cache_format<keys, i8>} {}

// -----

// expected-error@+1 {{a page of 32 tokens of undecided elements: say which, as in <keys, f32, page = 32>}}
module attributes {test.format = #nn.cache_format<keys, page = 32>} {}

// -----

// expected-error@+1 {{a page of 0 tokens, must have at least 1}}
module attributes {test.format = #nn.cache_format<keys, f16, page = 0>} {}

// -----

// expected-error@+1 {{expected 'transposed'}}
module attributes {test.format = #nn.cache_format<keys, f16, page = 32, rows>} {}

// -----

// expected-error@+1 {{expected 'page'}}
module attributes {test.format = #nn.cache_format<keys, f16, transposed>} {}

// -----

// expected-error@+1 {{pages of quantized values cannot be transposed: a group is the row of a token}}
module attributes {test.format = #nn.cache_format<values, ui8, page = 32, transposed>} {}

// -----

// expected-error@+1 {{transposed pages of 16 tokens of 4 bits, must have a multiple of 32}}
module attributes {test.format = #nn.cache_format<keys, ui4, page = 16, transposed>} {}

// -----

// expected-error@+1 {{only quantized keys are unrotated}}
module attributes {test.format = #nn.cache_format<values, ui4, unrotated>} {}

// -----

// expected-error@+1 {{only quantized keys are unrotated}}
module attributes {test.format = #nn.cache_format<keys, f16, unrotated>} {}
