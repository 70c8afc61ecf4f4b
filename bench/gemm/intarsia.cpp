//===- intarsia.cpp - A compiled nn.linear through the C API, as a worker of the harness ----------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: intarsia-bench-gemm M K ARTIFACT...
// Each artifact holds main(x[M, K]) -> y[M, N] with its own weights; calls rotate through the artifacts. The time is
// that of the whole itx_invoke: checks, the result's memory and the kernel. Threads: ITX_THREADS.
//===----------------------------------------------------------------------------------------------------------===//
#include "../common/Worker.h"
#include "intarsia/runtime.h"

using namespace intarsia::bench;

namespace {

void require(itx_status status) {
  if (status == ITX_OK)
    return;
  std::fprintf(stderr, "error: %s\n", itx_last_error());
  std::exit(1);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s M K ARTIFACT...\n", argv[0]);
    return 1;
  }
  int64_t shape[2] = {std::atoll(argv[1]), std::atoll(argv[2])};
  Buffer<float> a(shape[0] * shape[1]);
  fillTest(a, 1);
  itx_tensor *input = nullptr;
  require(itx_tensor_wrap(a.data(), ITX_F32, 2, shape, nullptr, nullptr, &input));

  std::vector<const itx_function *> functions;
  std::string variant;
  for (int i = 3; i < argc; ++i) {
    itx_module *module = nullptr; // lives until the process ends
    require(itx_module_load(argv[i], nullptr, &module));
    variant = itx_module_variant(module);
    const itx_function *function = nullptr;
    require(itx_module_function(module, "main", &function));
    functions.push_back(function);
  }

  itx_tensor *output = nullptr;
  size_t next = 0;
  auto call = [&] {
    itx_tensor_free(output);
    output = nullptr;
    require(itx_invoke(functions[next], &input, 1, &output, 1));
    next = next + 1 == functions.size() ? 0 : next + 1;
  };
  std::ostringstream ready;
  ready << "{\"ready\": true, \"version\": \"Intarsia " << itx_version()
        << "\", \"settings\": {\"threads\": " << itx_threads() << ", \"variant\": \"" << variant
        << "\", \"call\": \"itx_invoke\"}}";
  return serve(ready.str(), call, [&](const std::string &path) {
    return output && saveRaw(path, static_cast<const float *>(itx_tensor_data(output)),
                             static_cast<size_t>(itx_tensor_elements(output)));
  });
}
