// RUN: intarsia-opt %s --fuse-verify --verify-diagnostics --split-input-file

nn.archive @weights {file = "model.safetensors"}

func.func @what_may_leave(%x: tensor<?x16xf32> {nn.sizes = ["rows", ""]}) -> tensor<?x4x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x16xf32>
  %w = nn.weight @weights["w"] : tensor<16x16xf32>
  %v = nn.weight @weights["v"] : tensor<16x16xf32>
  %wv = tensor.concat dim(0) %w, %v : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %h = nn.group linear(%a = %x, %b = %wv) : (tensor<?x16xf32>, tensor<32x16xf32>) -> tensor<?x32xf32> {
    %l = nn.linear %a, %b : (tensor<?x16xf32>, tensor<32x16xf32>) -> tensor<?x32xf32>
    nn.yield %l : tensor<?x32xf32>
  }
  %r = tensor.expand_shape %h [[0], [1, 2]] output_shape [%n, 4, 8] : tensor<?x32xf32> into tensor<?x4x8xf32>
  return %r : tensor<?x4x8xf32>
}

// -----

func.func @op_outside(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'nn.relu' is in no group after the fuse phase}}
  %r = nn.relu %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @slice_outside(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @below {{'tensor.extract_slice' is in no group after the fuse phase}}
  %r = tensor.extract_slice %x[1] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @wrong_root(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'linear' group has 0 of its root op, must have one}}
  %r = nn.group linear(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %y = nn.relu %a : tensor<4xf32>
    nn.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

func.func @two_norms(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{'rows' group has 2 norms or softmaxes, one is possible}}
  %r = nn.group rows(%a = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    %y = nn.softmax %a : tensor<4x8xf32>
    %z = nn.softmax %y : tensor<4x8xf32>
    nn.yield %z : tensor<4x8xf32>
  }
  return %r : tensor<4x8xf32>
}

// -----

// expected-error @below {{must be one block, without control flow}}
func.func @control_flow(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^next
^next:
  return %x : tensor<4xf32>
}

// -----

// Bodies of control flow meet the same.
func.func @loop(%x: tensor<4xf32>, %flags: tensor<1xi1>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c = tensor.extract %flags[%c0] : tensor<1xi1>
  %r = scf.if %c -> tensor<4xf32> {
    // expected-error @below {{'nn.relu' is in no group after the fuse phase}}
    %y = nn.relu %x : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
