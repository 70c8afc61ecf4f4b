// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

// Its syntax could not print two types.
func.func @relu(%x: tensor<4xf32>) {
  // expected-error@+2 {{'nn.relu' op failed to infer returned types}}
  // expected-error@+1 {{'nn.relu' op inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<?xf32>'}}
  %0 = "nn.relu"(%x) : (tensor<4xf32>) -> tensor<?xf32>
  return
}
