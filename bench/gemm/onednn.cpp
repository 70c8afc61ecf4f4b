//===- onednn.cpp - f32 GEMM by the system's oneDNN, as a worker of the harness -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: intarsia-bench-gemm-onednn M N K matmul|inner_product [COPIES]
// C[M, N] = A[M, K] * W[N, K]^T. W is in oneDNN's preferred layout (format any), reordered before the first call; A and
// C stay row-major. COPIES > 1 rotates through that many copies of W. Threads: OMP_NUM_THREADS.
//===----------------------------------------------------------------------------------------------------------===//
#include "../common/Worker.h"

#include <dnnl.hpp>
#include <unordered_map>

using namespace intarsia::bench;
using dnnl::memory;

namespace {

struct Gemm {
  dnnl::primitive primitive;
  memory::desc weightsLayout;
  std::string implementation;
};

/// Makes an inner_product, which takes W as [N, K], like PyTorch's linear.
Gemm makeInnerProduct(const dnnl::engine &engine, int64_t m, int64_t n, int64_t k) {
  memory::desc source({m, k}, memory::data_type::f32, memory::format_tag::ab);
  memory::desc weights({n, k}, memory::data_type::f32, memory::format_tag::any);
  memory::desc result({m, n}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::inner_product_forward::desc op(dnnl::prop_kind::forward_inference, source, weights, result);
  dnnl::inner_product_forward::primitive_desc descriptor(op, engine);
  return {dnnl::inner_product_forward(descriptor), descriptor.weights_desc(), descriptor.impl_info_str()};
}

/// Makes a matmul, which takes W as [K, N].
Gemm makeMatmul(const dnnl::engine &engine, int64_t m, int64_t n, int64_t k) {
  memory::desc source({m, k}, memory::data_type::f32, memory::format_tag::ab);
  memory::desc weights({k, n}, memory::data_type::f32, memory::format_tag::any);
  memory::desc result({m, n}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::matmul::desc op(source, weights, result);
  dnnl::matmul::primitive_desc descriptor(op, engine);
  return {dnnl::matmul(descriptor), descriptor.weights_desc(), descriptor.impl_info_str()};
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s M N K matmul|inner_product [COPIES]\n", argv[0]);
    return 1;
  }
  int64_t m = std::atoll(argv[1]), n = std::atoll(argv[2]), k = std::atoll(argv[3]);
  bool isMatmul = std::string(argv[4]) == "matmul";
  size_t copies = argc > 5 ? static_cast<size_t>(std::atoll(argv[5])) : 1;

  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  Gemm gemm = isMatmul ? makeMatmul(engine, m, n, k) : makeInnerProduct(engine, m, n, k);

  Buffer<float> a(m * k), w(n * k), c(m * n);
  fillTest(a, 1);
  fillTest(w, 2);
  memory plain(isMatmul ? memory::desc({k, n}, memory::data_type::f32, memory::format_tag::ba)
                        : memory::desc({n, k}, memory::data_type::f32, memory::format_tag::ab),
               engine, w.data());
  std::vector<memory> weights;
  for (size_t i = 0; i < copies; ++i) {
    weights.emplace_back(gemm.weightsLayout, engine);
    dnnl::reorder(plain, weights.back()).execute(stream, plain, weights.back());
  }
  memory source({{m, k}, memory::data_type::f32, memory::format_tag::ab}, engine, a.data());
  memory result({{m, n}, memory::data_type::f32, memory::format_tag::ab}, engine, c.data());
  std::vector<std::unordered_map<int, memory>> arguments;
  for (memory &copy : weights)
    arguments.push_back({{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, copy}, {DNNL_ARG_DST, result}});
  stream.wait();

  const dnnl_version_t *version = dnnl_version();
  std::ostringstream ready;
  ready << "{\"ready\": true, \"version\": \"oneDNN " << version->major << "." << version->minor << "."
        << version->patch << "\", \"settings\": {\"primitive\": \"" << argv[4] << "\", \"implementation\": \""
        << gemm.implementation << "\", \"weights\": \"format any, reordered before the first call\"}}";
  size_t next = 0;
  auto call = [&] {
    gemm.primitive.execute(stream, arguments[next]);
    stream.wait();
    next = next + 1 == copies ? 0 : next + 1;
  };
  return serve(ready.str(), call, [&](const std::string &path) { return saveRaw(path, c.data(), c.size()); });
}
