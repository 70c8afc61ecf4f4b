//===- GpuGroupTest.cpp - Exchanges in the memory of devices against plain loops ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuGroup.h"

#include "lib/Runtime/Core/Call.h"
#include "lib/Runtime/Core/Module.h"
#include "test/unit/Runtime/Collectives/Ranks.h"
#include "test/unit/Runtime/GPU/FakeNccl.h"
#include "test/unit/Runtime/GPU/GpuTest.h"

#include <algorithm>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {

constexpr int ranks = 3;

std::string manifest() {
  return R"({"format":1,"producer":"test 1.0","flags":[],
 "target":{"triple":"test","variants":[{"name":"plain","cpu":"x","features":[]}]},
 "devices":[{"name":"d","kind":"fake"}],"kernels":[],"labels":["layer.down"],"world":{"size":3,"groups":[[0,1,2],[2,0]]},
 "functions":[{"name":"exchange","devices":[0],"sizes":[{"name":"n"},{"name":"m"},{"name":"k"}],
   "inputs":[{"name":"x","dtype":"f32","shape":["n"]},{"name":"before","dtype":"f32","shape":["m"]},
             {"name":"what","dtype":"i64","shape":["k"]}],
   "outputs":[{"name":"y","dtype":"f32","shape":["m"]}]}]})";
}

using Floats = std::vector<float>;

float valueOf(int rank, uint64_t i) { return float((i * 7 + uint64_t(rank) * 31) % 23) - 11; }

Floats dataOf(int rank, uint64_t count) {
  Floats data(count);
  for (uint64_t i = 0; i < count; ++i)
    data[i] = valueOf(rank, i);
  return data;
}

/// An exchange of a rank: what the module is told, its x, and what y must be.
struct Case {
  std::vector<int64_t> what; // kind, group, rows, elements, rank that goes wrong, how, receiver
  Floats x, wanted;
  std::string text;
};

/// Returns the sum over members of their data.
Floats sumOf(const std::vector<int> &members, uint64_t count, bool isMaximum = false) {
  Floats sum = dataOf(members[0], count);
  for (size_t i = 1; i < members.size(); ++i)
    for (uint64_t k = 0; k < count; ++k)
      sum[k] = isMaximum ? std::max(sum[k], valueOf(members[i], k)) : sum[k] + valueOf(members[i], k);
  return sum;
}

/// Returns the exchanges of a rank in a group, in the order in which all make them.
std::vector<Case> casesOf(int rank, int group) {
  std::vector<int> members = group == 0 ? std::vector<int>{0, 1, 2} : std::vector<int>{2, 0};
  auto place = std::find(members.begin(), members.end(), rank);
  std::vector<Case> cases;
  if (place == members.end())
    return cases;
  uint64_t own = uint64_t(place - members.begin()), size = members.size();
  auto add = [&](int64_t kind, uint64_t rows, uint64_t elements, Floats x, Floats wanted) {
    cases.push_back(
        {{kind, group, int64_t(rows), int64_t(elements), -1, 0, -1},
         std::move(x),
         std::move(wanted),
         format("operation %lld of %llu in group %d", (long long)kind, (unsigned long long)elements, group)});
  };
  for (uint64_t count : {1, 7, 1000, 4099}) {
    add(ITX_COLLECTIVE_ALL_REDUCE, 0, count, dataOf(rank, count), sumOf(members, count));
    add(ITX_COLLECTIVE_ALL_REDUCE_INT8, 0, count, dataOf(rank, count), sumOf(members, count));
    add(ITX_COLLECTIVE_ALL_REDUCE_MAX, 0, count, dataOf(rank, count), sumOf(members, count, true));
    Floats all, parts, sum = sumOf(members, count * size);
    for (int member : members) {
      Floats data = dataOf(member, count), ofOwn = dataOf(member, count * size);
      all.insert(all.end(), data.begin(), data.end());
      parts.insert(parts.end(), ofOwn.begin() + ptrdiff_t(own * count), ofOwn.begin() + ptrdiff_t((own + 1) * count));
    }
    add(ITX_COLLECTIVE_ALL_GATHER, 0, count, dataOf(rank, count), all);
    add(ITX_COLLECTIVE_ALL_TO_ALL, 0, count * size, dataOf(rank, count * size), parts);
    add(ITX_COLLECTIVE_REDUCE_SCATTER, 0, count * size, dataOf(rank, count * size),
        Floats(sum.begin() + ptrdiff_t(own * count), sum.begin() + ptrdiff_t((own + 1) * count)));
    add(ITX_COLLECTIVE_BROADCAST, 0, count, dataOf(rank, count), dataOf(members[0], count));
  }
  // Twice, without anybody waiting between.
  Floats twice = sumOf(members, 100);
  for (float &value : twice)
    value *= float(size);
  add(1000 + ITX_COLLECTIVE_ALL_REDUCE, 0, 100, dataOf(rank, 100), twice);
  constexpr uint64_t width = 5;
  for (uint64_t rows : {1, 2, 3, 4, 6, 7, 50, 51}) {
    uint64_t each = (rows + size - 1) / size;
    Floats sum = sumOf(members, rows * width), ownSum, ownRows, allRows(rows * width);
    for (uint64_t row = own * each; row < (own + 1) * each; ++row)
      for (uint64_t k = 0; k < width; ++k) {
        ownSum.push_back(sum[std::min(row, rows - 1) * width + k]);
        ownRows.push_back(float(std::min(row, rows - 1) * width + k));
      }
    for (uint64_t i = 0; i < rows * width; ++i)
      allRows[i] = float(i);
    for (int64_t kind : {ITX_COLLECTIVE_REDUCE_SCATTER_ROWS, ITX_COLLECTIVE_REDUCE_SCATTER_ROWS_INT8})
      add(kind, rows, rows * width, dataOf(rank, rows * width), ownSum);
    add(ITX_COLLECTIVE_ALL_GATHER_ROWS, rows, rows * width, ownRows, allRows);
  }
  if (size == 2)
    for (uint64_t count : {1, 4099}) {
      add(ITX_COLLECTIVE_SEND, 0, count, dataOf(rank, count), own == 0 ? Floats(count, -5) : dataOf(members[0], count));
      cases.back().what[6] = members[1];
    }
  return cases;
}

/// What a test changes.
struct Changes {
  bool hasLibrary = true;
  bool shareUnit = false;          // all ranks have the first device
  int otherVersion = -1;           // a rank with another version of the library
  const char *exchanges = nullptr; // ITX_WORLD_EXCHANGES
};

class DeviceExchanges : public ::testing::Test {
protected:
  void SetUp() override { setenv("ITX_TEST_RANK", "0", 1); }

  /// Loads the module in this process, which is a rank.
  std::string load(World &world, const Changes &changes, std::shared_ptr<Module> &module) {
    setenv("ITX_TEST_RANK", std::to_string(world.rank()).c_str(), 1);
    if (changes.exchanges)
      setenv("ITX_WORLD_EXCHANGES", changes.exchanges, 1);
    LoadOptions options;
    FakeDriver::Settings settings;
    settings.devices = ranks;
    settings.delayMicroseconds = 50;
    driver = new FakeDriver(settings);
    if (changes.hasLibrary)
      driver->setExchangeLibrary(
          library.api(*driver, changes.otherVersion == world.rank() ? "NCCL 2.9.6" : "NCCL 2.27.3"));
    for (int number = 0; number < (changes.shareUnit ? 1 : ranks); ++number) {
      GpuProperties properties;
      (void)driver->readProperties(number, properties);
      options.made.push_back(std::make_shared<GpuDevice>(*driver, number, properties));
    }
    std::string elf = sampleElf(manifest(), ITX_TEST_RANKS_DEVICE), file;
    std::string path = folder / ("r" + std::to_string(world.rank()) + ".itx");
    if (Status status = writeArtifact(path, elf.data(), elf.size()); !status.ok())
      return status.message();
    return Module::load(path, options, module).message();
  }

  static std::string run(Module &module, const Case &given, Floats &y) {
    auto tensor = [](itx_dtype dtype, const auto &values, Tensor &made) {
      int64_t shape[1] = {int64_t(values.size())};
      Status status = makeTensor(dtype, shape, 1, made);
      if (status.ok() && !values.empty())
        std::memcpy(made.data.get(), values.data(), values.size() * sizeof(values[0]));
      return status.message();
    };
    Tensor x, before, what;
    for (std::string message : {tensor(ITX_F32, given.x, x), tensor(ITX_F32, Floats(given.wanted.size(), -5), before),
                                tensor(ITX_I64, given.what, what)})
      if (!message.empty())
        return message;
    std::unique_ptr<itx_call> call = module.takeCall();
    const Tensor *inputs[] = {&x, &before, &what};
    if (Status status = prepareCall(module, 0, inputs, 3, *call); !status.ok())
      return status.message();
    if (Status status = runCall(*call); !status.ok())
      return status.message();
    auto *data = static_cast<const float *>(call->outputs[0].data.get());
    y.assign(data, data + given.wanted.size());
    module.giveCall(std::move(call));
    return "";
  }

  /// Runs all exchanges of a rank; `joins` says whether devices make them.
  std::string runAll(World &world, const Changes &changes, bool joins) {
    std::shared_ptr<Module> module;
    if (std::string message = load(world, changes, module); !message.empty())
      return message;
    for (int group : {0, 1})
      for (const Case &given : casesOf(world.rank(), group)) {
        Floats y;
        if (std::string message = run(*module, given, y); !message.empty())
          return given.text + ": " + message;
        for (size_t i = 0; i < y.size(); ++i)
          if (y[i] != given.wanted[i])
            return format("%s: element %zu is %g, not %g", given.text.c_str(), i, y[i], given.wanted[i]);
      }
    DeviceGroup *group = nullptr;
    Status status = module->deviceGroups()->find(*module->groups()[0], group);
    return !status.ok() ? status.message() : (group != nullptr) == joins ? "" : joins ? "by the host" : "by devices";
  }

  /// Runs one exchange of a group on each of its ranks, of which one goes wrong.
  std::string runWrong(World &world, const Changes &changes, int wrong, int how) {
    std::shared_ptr<Module> module;
    if (std::string message = load(world, changes, module); !message.empty())
      return message;
    Floats y;
    Case fine = casesOf(world.rank(), 0)[7];
    if (std::string message = run(*module, fine, y); !message.empty())
      return message;
    fine.what[4] = wrong;
    fine.what[5] = how;
    std::string message = run(*module, fine, y);
    return message.empty() ? "no error" : message;
  }

  void expectAll(const std::vector<RankResult> &results, const std::string &message) {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      EXPECT_EQ(results[rank].signal, 0) << "rank " << rank;
      if (message.empty())
        EXPECT_EQ(results[rank].message, "") << "rank " << rank;
      else
        EXPECT_THAT(results[rank].message, HasSubstr(message)) << "rank " << rank;
    }
  }

  TemporaryFolder folder;
  FakeNccl library;
  FakeDriver *driver = nullptr; // lives as long as the rank
};

TEST_F(DeviceExchanges, ByTheLibrary) {
  expectAll(Ranks(ranks).run([&](World &world) { return runAll(world, {}, true); }), "");
}

TEST_F(DeviceExchanges, ByTheHostBecauseRanksShareADevice) {
  Changes changes;
  changes.shareUnit = true;
  expectAll(Ranks(ranks).run([&](World &world) { return runAll(world, changes, false); }), "");
}

TEST_F(DeviceExchanges, ByTheHostOnRequest) {
  Changes changes;
  changes.hasLibrary = false;
  // One rank's wish is enough.
  auto run = [&](World &world) {
    Changes own = changes;
    own.exchanges = world.rank() == 1 ? "host" : "devices";
    return runAll(world, own, false);
  };
  expectAll(Ranks(ranks).run(run), "");
}

TEST_F(DeviceExchanges, BetweenHosts) {
  // Sums whose messages are rounded go by way of the hosts.
  Changes changes;
  auto run = [&](World &world) -> std::string {
    std::shared_ptr<Module> module;
    if (std::string message = load(world, changes, module); !message.empty())
      return message;
    for (const Case &given : casesOf(world.rank(), 0)) {
      Floats y;
      if (std::string message = this->run(*module, given, y); !message.empty())
        return given.text + ": " + message;
      bool isRounded =
          given.what[0] == ITX_COLLECTIVE_ALL_REDUCE_INT8 || given.what[0] == ITX_COLLECTIVE_REDUCE_SCATTER_ROWS_INT8;
      float allowed = isRounded ? 0.5f : 0; // two messages of values up to 33
      for (size_t i = 0; i < y.size(); ++i)
        if (std::abs(y[i] - given.wanted[i]) > allowed)
          return format("%s: element %zu is %g, not %g", given.text.c_str(), i, y[i], given.wanted[i]);
    }
    return "";
  };
  expectAll(Ranks(ranks, 60, "aab").run(run), "");
}

TEST_F(DeviceExchanges, WithoutTheLibrary) {
  Changes changes;
  changes.hasLibrary = false;
  auto results = Ranks(ranks).run([&](World &world) { return runAll(world, changes, true); });
  expectAll(results, "rank 0: there is no FAKECCL: looked for libfakeccl.so. GPUs of different ranks exchange data by "
                     "this library: install it on each host, or set ITX_WORLD_EXCHANGES=host");
}

TEST_F(DeviceExchanges, OfAnotherVersion) {
  Changes changes;
  changes.otherVersion = 2;
  auto results = Ranks(ranks).run([&](World &world) { return runAll(world, changes, true); });
  expectAll(results, "rank 0 has NCCL 2.27.3, rank 2 NCCL 2.9.6: install one version");
}

TEST_F(DeviceExchanges, OfAnUnknownKind) {
  Changes changes;
  changes.exchanges = "gpu";
  auto results = Ranks(ranks).run([&](World &world) { return runAll(world, changes, true); });
  expectAll(results, "ITX_WORLD_EXCHANGES is 'gpu'; wanted is 'devices'");
}

TEST_F(DeviceExchanges, ARankIsKilled) {
  Ranks all(ranks);
  auto begin = std::chrono::steady_clock::now();
  auto results = all.run([&](World &world) { return runWrong(world, {}, 1, 1); });
  EXPECT_EQ(results[1].signal, SIGKILL);
  for (int rank : {0, 2}) {
    EXPECT_THAT(results[rank].message, HasSubstr("rank 1 (process "));
    EXPECT_THAT(results[rank].message, HasSubstr("has ended: no other rank can go on"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(DeviceExchanges, ARankFreesTheModule) {
  for (const char *hosts : {"", "aba"}) {
    auto begin = std::chrono::steady_clock::now();
    auto run = [&](World &world) -> std::string {
      std::shared_ptr<Module> module;
      if (std::string message = load(world, {}, module); !message.empty())
        return message;
      Floats y;
      Case fine = casesOf(world.rank(), 0)[7];
      for (int call = 0; call < (world.rank() == 1 ? 1 : 2); ++call)
        if (std::string message = this->run(*module, fine, y); !message.empty())
          return message;
      return "";
    };
    auto results = Ranks(ranks, 60, hosts).run(run);
    EXPECT_EQ(results[1].message, "");
    for (int rank : {0, 2}) {
      EXPECT_THAT(results[rank].message, HasSubstr("rank 1 (process "));
      EXPECT_THAT(results[rank].message, HasSubstr("frees a module while rank "));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  }
}

TEST_F(DeviceExchanges, ARankHangs) {
  Ranks all(ranks, /*deadlineS=*/2);
  for (int rank = 0; rank < ranks; ++rank)
    all.start(rank, [&](World &world) { return runWrong(world, {}, 2, 2); });
  // The one that hangs is ended when the others have.
  for (int rank : {0, 1})
    waitid(P_PID, id_t(all.process(rank)), nullptr, WEXITED | WNOWAIT);
  kill(all.process(2), SIGKILL);
  auto results = all.wait();
  for (int rank : {0, 1}) {
    EXPECT_THAT(results[rank].message, HasSubstr("rank 2 (process "));
    EXPECT_THAT(results[rank].message, HasSubstr("has not come to the next exchange within 2 s"));
  }
}

TEST_F(DeviceExchanges, RanksDoDifferentThings) {
  auto run = [&](World &world) -> std::string {
    std::shared_ptr<Module> module;
    if (std::string message = load(world, {}, module); !message.empty())
      return message;
    Floats y;
    Case given = casesOf(world.rank(), 0)[7];
    given.what[3] = world.rank() == 1 ? 1 : 7;
    std::string message = this->run(*module, given, y);
    return message.empty() ? "no error" : message;
  };
  auto results = Ranks(ranks).run(run);
  for (const RankResult &result : results)
    EXPECT_THAT(result.message, ::testing::AnyOf(HasSubstr("failed on the device 'fake"), HasSubstr("no error")));
}

TEST(GpuGroups, Elements) {
  nccl::Element element;
  EXPECT_TRUE(elementOf(ITX_BF16, element).ok());
  EXPECT_EQ(element, nccl::elementBfloat16);
  Status status = elementOf(ITX_BOOL, element);
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("do not add elements of type bool"));
}

TEST(OrderForRank, RanksHaveDifferentDevices) {
  FakeDriver::Settings settings;
  settings.devices = 4;
  FakeDriver driver(settings);
  std::vector<std::unique_ptr<GpuDevice>> made;
  std::vector<Device *> present = {&hostDevice()};
  for (int number = 0; number < 4; ++number) {
    GpuProperties properties;
    (void)driver.readProperties(number, properties);
    made.push_back(std::make_unique<GpuDevice>(driver, number, properties));
    present.push_back(made.back().get());
  }
  auto namesFor = [&](std::vector<std::string> kinds, size_t rank) {
    Manifest manifest;
    for (const std::string &kind : kinds) {
      manifest.devices.emplace_back();
      manifest.devices.back().kind = kind;
    }
    std::vector<Device *> ordered = present;
    orderForRank(manifest, rank, ordered);
    std::string names;
    for (Device *device : ordered)
      names += std::string(device->name()) + " ";
    return names;
  };
  EXPECT_EQ(namesFor({"fake"}, 0), "cpu fake fake:1 fake:2 fake:3 ");
  EXPECT_EQ(namesFor({"fake"}, 3), "cpu fake:3 fake fake:1 fake:2 ");
  EXPECT_EQ(namesFor({"fake"}, 5), "cpu fake:1 fake:2 fake:3 fake ");
  EXPECT_EQ(namesFor({"cpu", "fake", "fake"}, 1), "cpu fake:2 fake:3 fake fake:1 ");
  EXPECT_EQ(namesFor({"cpu"}, 1), "cpu fake fake:1 fake:2 fake:3 ");
}

} // namespace
