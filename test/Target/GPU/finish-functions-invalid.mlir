// RUN: intarsia-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gpu.module(target-gpu-finish-functions{architecture=sm_80}))'

gpu.module @module {
  // expected-error @below {{does not say how many threads a block has (gpu.known_block_size)}}
  llvm.func @kernel() attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
