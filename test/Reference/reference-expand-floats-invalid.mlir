// RUN: intarsia-opt %s --reference-expand-floats --split-input-file --verify-diagnostics

// Arithmetic is widened by a pass before this one.
func.func @add(%x: bf16) -> bf16 {
  // expected-error@+1 {{'arith.addf' op on 'bf16' has no reference}}
  %r = arith.addf %x, %x : bf16
  return %r : bf16
}

// -----

func.func @type(%x: f8E4M3FNUZ) -> f32 {
  // expected-error@+1 {{'arith.extf' op on 'f8E4M3FNUZ' has no reference}}
  %r = arith.extf %x : f8E4M3FNUZ to f32
  return %r : f32
}
