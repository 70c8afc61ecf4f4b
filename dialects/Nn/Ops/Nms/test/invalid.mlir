// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @box(%b: tensor<1x6x5xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %i: tensor<f32>) {
  // expected-error@+1 {{'nn.nms' op boxes is 'tensor<1x6x5xf32>', a box has 4 numbers}}
  %0:2 = nn.nms %b, %s, %n, %i : (tensor<1x6x5xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>)
  return
}

// -----

func.func @limit(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<1xi64>, %i: tensor<f32>) {
  // expected-error@+1 {{'nn.nms' op limit has rank 1, must have rank 0}}
  %0:2 = nn.nms %b, %s, %n, %i : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<1xi64>, tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>)
  return
}

// -----

func.func @batches(%b: tensor<2x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %i: tensor<f32>) {
  // expected-error@+1 {{'nn.nms' op boxes has 2 batches, scores has 1}}
  %0:2 = nn.nms %b, %s, %n, %i : (tensor<2x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<24x3xi64>, tensor<i64>)
  return
}

// -----

func.func @boxes(%b: tensor<1x6x4xf32>, %s: tensor<1x2x7xf32>, %n: tensor<i64>, %i: tensor<f32>) {
  // expected-error@+1 {{'nn.nms' op boxes has 6 boxes, scores has 7}}
  %0:2 = nn.nms %b, %s, %n, %i : (tensor<1x6x4xf32>, tensor<1x2x7xf32>, tensor<i64>, tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>)
  return
}
