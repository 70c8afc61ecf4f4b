func.func @main(%l: tensor<?x128256xf32> {nn.name = "l", nn.sizes = ["rows", ""]},
                %t: tensor<?x2xf32> {nn.name = "t", nn.sizes = ["rows", ""]})
    -> (tensor<?x64xf32> {nn.name = "v"}, tensor<?x64xi32> {nn.name = "i"}, tensor<?x2xf32> {nn.name = "s"}) {
  %v, %i, %s = nn.candidates %l, %t {count = 64 : i64} : (tensor<?x128256xf32>, tensor<?x2xf32>)
      -> (tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>)
  return %v, %i, %s : tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>
}
