// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @group(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected one of [linear, matmul, attention, cached_attention, cache_append, route, experts, candidates, rows, generic, conv, recurrent] for what a kernel is built around, got: pool}}
  %0 = nn.group pool(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
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
