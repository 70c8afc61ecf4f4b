//===- WorldApi.cpp - The C interface of worlds ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Operations.h"
#include "lib/Runtime/Collectives/World.h"
#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/ProcessNumber.h"

#include <cstdlib>
#include <cstring>

using namespace intarsia;
using namespace intarsia::runtime;

struct itx_world {
  std::shared_ptr<World> world;
  Communicator *group = nullptr;
  uint64_t process = processNumber(); // that has joined
};

static Status readOptions(const itx_world_options *given, WorldSettings &settings) {
  itx_world_options options = {};
  if (given && given->struct_bytes < sizeof(given->struct_bytes))
    return error(ITX_INVALID_ARGUMENT, "struct_bytes of the world options is %zu: set it to sizeof(itx_world_options)",
                 given->struct_bytes);
  if (given)
    std::memcpy(&options, given, std::min(given->struct_bytes, sizeof(options)));
  if (options.size == 0) {
    ITX_RETURN_IF_ERROR(readWorldSettings(settings));
  } else {
    settings.size = options.size;
    settings.rank = options.rank;
    settings.address = options.address ? options.address : "";
    if (const char *file = std::getenv("ITX_WORLD_TOKEN_FILE"))
      settings.tokenFile = file;
  }
  if (options.token_file && *options.token_file)
    settings.tokenFile = options.token_file;
  if (!(options.deadline_s >= 0))
    return error(ITX_INVALID_ARGUMENT, "a deadline of %g s; it must be positive, 0 means the default",
                 options.deadline_s);
  if (options.deadline_s > 0)
    settings.deadlineS = options.deadline_s;
  return Status::success();
}

itx_status itx_world_join(const itx_world_options *options, itx_world **world) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(world);
    WorldSettings settings;
    ITX_RETURN_IF_ERROR(readOptions(options, settings));
    if (settings.size == 0)
      return error(ITX_NOT_FOUND, "this process was not started as a rank of a world: start it with intarsia-run "
                                  "--world, with mpirun, or with ITX_WORLD_SIZE, ITX_WORLD_RANK and ITX_WORLD_ADDRESS");
    auto handle = std::make_unique<itx_world>();
    ITX_RETURN_IF_ERROR(World::join(settings, handle->world));
    handle->group = &handle->world->all();
    *world = handle.release();
    return Status::success();
  });
}

/// Runs an action as the next thing that the world does.
template <typename Action> static itx_status inWorld(itx_world *world, Action action) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(world);
    if (world->process != processNumber())
      return error(ITX_INVALID_ARGUMENT,
                   "this process is a child of the one that joined the world, which it is not in");
    std::lock_guard lock(world->world->mutex());
    ITX_RETURN_IF_ERROR(world->world->late().finish());
    return action(*world->group);
  });
}

itx_status itx_world_group(itx_world *world, const int32_t *ranks, size_t count, itx_world **group) {
  return inWorld(world, [&](Communicator &) -> Status {
    ITX_REQUIRE(ranks);
    ITX_REQUIRE(group);
    auto handle = std::make_unique<itx_world>();
    handle->world = world->world;
    ITX_RETURN_IF_ERROR(world->world->group(std::vector<int32_t>(ranks, ranks + count), handle->group));
    *group = handle.release();
    return Status::success();
  });
}

void itx_world_free(itx_world *world) { delete world; }

int32_t itx_world_rank(const itx_world *world) { return world ? world->group->index() : -1; }

int32_t itx_world_size(const itx_world *world) { return world ? int32_t(world->group->size()) : -1; }

static Status readReduction(itx_reduction given, Reduction &reduction) {
  if (given != ITX_SUM && given != ITX_MAXIMUM && given != ITX_SUM_INT8)
    return error(ITX_INVALID_ARGUMENT, "the unknown reduction %d", int(given));
  reduction = given == ITX_SUM ? Reduction::Sum : given == ITX_MAXIMUM ? Reduction::Maximum : Reduction::SumInt8;
  return Status::success();
}

/// Refuses null pointers where there are elements.
static Status checkData(const void *data, uint64_t elements, const char *what) {
  if (data || elements == 0)
    return Status::success();
  return error(ITX_INVALID_ARGUMENT, "the argument '%s' is null", what);
}

itx_status itx_world_all_reduce(itx_world *world, itx_reduction given, itx_dtype dtype, void *destination,
                                const void *source, size_t elements) {
  return inWorld(world, [&](Communicator &group) -> Status {
    Reduction reduction;
    ITX_RETURN_IF_ERROR(readReduction(given, reduction));
    ITX_RETURN_IF_ERROR(checkData(destination, elements, "destination"));
    ITX_RETURN_IF_ERROR(checkData(source, elements, "source"));
    return allReduce(group, reduction, dtype, destination, source, elements);
  });
}

itx_status itx_world_reduce_scatter(itx_world *world, itx_reduction given, itx_dtype dtype, void *destination,
                                    const void *source, size_t elements) {
  return inWorld(world, [&](Communicator &group) -> Status {
    Reduction reduction;
    ITX_RETURN_IF_ERROR(readReduction(given, reduction));
    ITX_RETURN_IF_ERROR(checkData(destination, elements, "destination"));
    ITX_RETURN_IF_ERROR(checkData(source, elements, "source"));
    return reduceScatter(group, reduction, dtype, destination, source, elements);
  });
}

itx_status itx_world_all_gather(itx_world *world, itx_dtype dtype, void *destination, const void *source,
                                size_t elements, const size_t *counts) {
  return inWorld(world, [&](Communicator &group) -> Status {
    std::vector<uint64_t> expected(group.size(), elements);
    if (counts)
      expected.assign(counts, counts + group.size());
    uint64_t total = 0;
    for (uint64_t count : expected)
      total += count;
    ITX_RETURN_IF_ERROR(checkData(destination, total, "destination"));
    ITX_RETURN_IF_ERROR(checkData(source, elements, "source"));
    return allGather(group, dtype, destination, source, elements, expected.data());
  });
}

itx_status itx_world_all_to_all(itx_world *world, itx_dtype dtype, void *destination, const size_t *receiveCounts,
                                const void *source, const size_t *sendCounts) {
  return inWorld(world, [&](Communicator &group) -> Status {
    ITX_REQUIRE(receiveCounts);
    ITX_REQUIRE(sendCounts);
    std::vector<uint64_t> sent(sendCounts, sendCounts + group.size());
    std::vector<uint64_t> received(receiveCounts, receiveCounts + group.size());
    uint64_t sends = 0, receives = 0;
    for (size_t i = 0; i < group.size(); ++i) {
      sends += sent[i];
      receives += received[i];
    }
    ITX_RETURN_IF_ERROR(checkData(destination, receives, "destination"));
    ITX_RETURN_IF_ERROR(checkData(source, sends, "source"));
    return allToAllUnequal(group, dtype, destination, source, sent.data(), received.data());
  });
}

itx_status itx_world_broadcast(itx_world *world, int32_t root, itx_dtype dtype, void *data, size_t elements) {
  return inWorld(world, [&](Communicator &group) -> Status {
    ITX_RETURN_IF_ERROR(checkData(data, elements, "data"));
    if (root < 0)
      return error(ITX_INVALID_ARGUMENT, "a broadcast from rank %d", root);
    return broadcast(group, dtype, size_t(root), data, data, elements);
  });
}

itx_status itx_world_send(itx_world *world, itx_dtype dtype, const void *source, size_t elements) {
  return inWorld(world, [&](Communicator &group) -> Status {
    ITX_RETURN_IF_ERROR(checkData(source, elements, "source"));
    return send(group, dtype, source, elements);
  });
}

itx_status itx_world_receive(itx_world *world, itx_dtype dtype, void *destination, size_t elements) {
  return inWorld(world, [&](Communicator &group) -> Status {
    ITX_RETURN_IF_ERROR(checkData(destination, elements, "destination"));
    return receive(group, dtype, destination, elements);
  });
}

itx_status itx_world_barrier(itx_world *world) {
  return inWorld(world, [](Communicator &group) { return barrier(group); });
}
