//===- Worlds.cpp - Ranks of a world and their exchanges ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "python/Worlds.h"

#include "python/Tensors.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

namespace intarsia::python {
namespace {

using Source = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Target = nb::ndarray<nb::c_contig, nb::device::cpu>;

/// Returns the type of an array's elements; for types without one the runtime gives an error.
itx_dtype dtypeOf(nb::dlpack::dtype type) {
  bool isFloat = type.code == uint8_t(nb::dlpack::dtype_code::Float);
  bool isInteger = type.code == uint8_t(nb::dlpack::dtype_code::Int);
  switch (type.bits) {
  case 64:
    return isFloat ? ITX_F64 : isInteger ? ITX_I64 : itx_dtype(-1);
  case 32:
    return isFloat ? ITX_F32 : isInteger ? ITX_I32 : itx_dtype(-1);
  case 16:
    return isFloat ? ITX_F16 : isInteger ? ITX_I16 : itx_dtype(-1);
  case 8:
    return isInteger ? ITX_I8 : ITX_U8;
  default:
    return itx_dtype(-1);
  }
}

/// A handle of a world or of a group in it.
class World {
public:
  World(int32_t size, int32_t rank, const std::string &address, double deadlineS, const std::string &tokenFile) {
    itx_world_options options = {sizeof(options), size, rank, address.c_str(), deadlineS, tokenFile.c_str()};
    nb::gil_scoped_release released;
    check(itx_world_join(&options, &world_));
  }
  explicit World(itx_world *world) : world_(world) {}
  World(const World &) = delete;
  ~World() { itx_world_free(world_); }

  int32_t rank() const { return itx_world_rank(world_); }
  int32_t size() const { return itx_world_size(world_); }

  std::unique_ptr<World> group(const std::vector<int32_t> &ranks) {
    itx_world *group = nullptr;
    nb::gil_scoped_release released;
    check(itx_world_group(world_, ranks.data(), ranks.size(), &group));
    return std::make_unique<World>(group);
  }

  void allReduce(int reduction, Target target, Source source) {
    nb::gil_scoped_release released;
    check(itx_world_all_reduce(world_, itx_reduction(reduction), dtypeOf(source.dtype()), target.data(), source.data(),
                               source.size()));
  }
  void reduceScatter(int reduction, Target target, Source source) {
    nb::gil_scoped_release released;
    check(itx_world_reduce_scatter(world_, itx_reduction(reduction), dtypeOf(source.dtype()), target.data(),
                                   source.data(), source.size()));
  }
  void allToAll(Target target, const std::vector<size_t> &receiveCounts, Source source,
                const std::vector<size_t> &sendCounts) {
    nb::gil_scoped_release released;
    check(itx_world_all_to_all(world_, dtypeOf(source.dtype()), target.data(), receiveCounts.data(), source.data(),
                               sendCounts.data()));
  }
  void allGather(Target target, Source source, const std::vector<size_t> &counts) {
    nb::gil_scoped_release released;
    check(itx_world_all_gather(world_, dtypeOf(source.dtype()), target.data(), source.data(), source.size(),
                               counts.data()));
  }
  void broadcast(int32_t root, Target data) {
    nb::gil_scoped_release released;
    check(itx_world_broadcast(world_, root, dtypeOf(data.dtype()), data.data(), data.size()));
  }
  void send(Source source) {
    nb::gil_scoped_release released;
    check(itx_world_send(world_, dtypeOf(source.dtype()), source.data(), source.size()));
  }
  void receive(Target data) {
    nb::gil_scoped_release released;
    check(itx_world_receive(world_, dtypeOf(data.dtype()), data.data(), data.size()));
  }
  void barrier() {
    nb::gil_scoped_release released;
    check(itx_world_barrier(world_));
  }

private:
  itx_world *world_ = nullptr;
};

} // namespace

void bindWorlds(nb::module_ &m) {
  nb::class_<World>(m, "World")
      .def(nb::init<int32_t, int32_t, const std::string &, double, const std::string &>(), nb::arg("size"),
           nb::arg("rank"), nb::arg("address"), nb::arg("deadline_s"), nb::arg("token_file"))
      .def_prop_ro("rank", &World::rank)
      .def_prop_ro("size", &World::size)
      .def("group", &World::group, nb::arg("ranks"))
      .def("all_reduce", &World::allReduce, nb::arg("reduction"), nb::arg("target"), nb::arg("source"))
      .def("reduce_scatter", &World::reduceScatter, nb::arg("reduction"), nb::arg("target"), nb::arg("source"))
      .def("all_to_all", &World::allToAll, nb::arg("target"), nb::arg("receive_counts"), nb::arg("source"),
           nb::arg("send_counts"))
      .def("all_gather", &World::allGather, nb::arg("target"), nb::arg("source"), nb::arg("counts"))
      .def("broadcast", &World::broadcast, nb::arg("root"), nb::arg("data"))
      .def("send", &World::send, nb::arg("source"))
      .def("receive", &World::receive, nb::arg("data"))
      .def("barrier", &World::barrier);
}

} // namespace intarsia::python
