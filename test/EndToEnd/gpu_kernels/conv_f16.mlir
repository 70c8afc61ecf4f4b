// The second layer of a block of ResNet-50, in f16.
func.func @main(%x: tensor<?x28x28x128xf16> {nn.name = "x", nn.sizes = ["batch", "", "", ""]}, %w: tensor<128x1152xf16> {nn.name = "w"})
    -> (tensor<?x28x28x128xf16> {nn.name = "y"}) {
  %c = nn.conv %x, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, precision = f16}
      : (tensor<?x28x28x128xf16>, tensor<128x1152xf16>) -> tensor<?x28x28x128xf16>
  %y = nn.relu %c : tensor<?x28x28x128xf16>
  return %y : tensor<?x28x28x128xf16>
}
