func.func @main(%x: tensor<4xi64>, %y: tensor<4xi64>) -> tensor<4xi64> {
  %a = arith.extsi %x : tensor<4xi64> to tensor<4xi128>
  %b = arith.extsi %y : tensor<4xi64> to tensor<4xi128>
  %c = arith.muli %a, %a : tensor<4xi128>
  %q = arith.divsi %c, %b : tensor<4xi128>
  %r = arith.trunci %q : tensor<4xi128> to tensor<4xi64>
  return %r : tensor<4xi64>
}
