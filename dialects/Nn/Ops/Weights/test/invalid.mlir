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
