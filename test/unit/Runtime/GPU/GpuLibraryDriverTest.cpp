//===- GpuLibraryDriverTest.cpp - What drivers of CUDA and HIP do alike ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
// Each call reaches the function of the vendor's library with its arguments in their places, and what that returns
// comes back with the name of the function.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CUDA/CudaDriver.h"
#include "lib/Runtime/HIP/HipDriver.h"

#include "gtest/gtest.h"
#include <cstring>
#include <string>

using namespace intarsia::runtime;

namespace {

/// The arguments that the last function got.
struct Call {
  uintptr_t destination = 0, source = 0;
  uint64_t bytes = 0;
  void *pool = nullptr, *stream = nullptr;
} last;

template <typename Pointer> uintptr_t number(Pointer address) { return uintptr_t(address); }
void *pointer(uintptr_t number) { return reinterpret_cast<void *>(number); }

struct Cuda {
  using Driver = cuda::CudaDriver;
  using Api = cuda::Api;
  using Node = cuda::KernelNode;
  static constexpr const char *allocate = "cuMemAlloc_v2", *pool = "cuMemPoolCreate", *event = "cuEventQuery",
                              *graph = "cuGraphCreate";
  static void start(Api &api) {
    api.driverVersion = [](int *version) { return *version = 13000, 0; };
    api.deviceOf = [](int *device, int ordinal) { return *device = ordinal, 0; };
  }
};
struct Hip {
  using Driver = hip::HipDriver;
  using Api = hip::Api;
  using Node = hip::KernelNode;
  static constexpr const char *allocate = "hipMalloc", *pool = "hipMemPoolCreate", *event = "hipEventQuery",
                              *graph = "hipGraphCreate";
  static void start(Api &api) {
    api.runtimeVersion = [](int *version) { return *version = 60300000, 0; };
  }
};

template <typename Vendor> class GpuLibraryDriver : public ::testing::Test {
protected:
  using Api = typename Vendor::Api;
  using Address = typename Api::Address;
  using Handle = gpu::Handle;
  using Node = typename Vendor::Node;

  static Api sampleApi() {
    Api api;
    Vendor::start(api);
    api.init = [](unsigned) { return 0; };
    api.deviceCount = [](int *count) { return *count = 2, 0; };
    api.deviceAttribute = [](int *value, auto, int device) { return *value = device == 1, 0; };
    api.queryEvent = [](Handle event) { return event ? 600 : 700; };
    api.allocate = [](Address *address, size_t bytes) {
      last = {.bytes = bytes};
      std::memset(address, 0, sizeof(*address));
      return bytes > 100 ? 2 : 0;
    };
    api.allocateFromPool = [](Address *address, size_t bytes, Handle pool, Handle stream) {
      last = {.bytes = bytes, .pool = pool, .stream = stream};
      return *address = Address(uintptr_t(0x1234)), 0;
    };
    api.free = [](Address address) { return last = {.source = number(address)}, 0; };
    api.freeToPool = [](Address address, Handle stream) {
      return last = {.source = number(address), .stream = stream}, 0;
    };
    api.copyToHost = [](void *to, Address from, size_t bytes, Handle stream) {
      return last = {number(to), number(from), bytes, nullptr, stream}, 0;
    };
    api.copyOnDevice = [](Address to, Address from, size_t bytes, Handle stream) {
      return last = {number(to), number(from), bytes, nullptr, stream}, 0;
    };
    api.createPool = [](Handle *pool, const gpu::PoolProperties *properties) {
      return *pool = pointer(uintptr_t(properties->location)), 0;
    };
    api.setPoolAttribute = [](Handle, gpu::PoolAttribute, void *value) {
      return *static_cast<uint64_t *>(value) == ~uint64_t(0) ? 0 : 1;
    };
    api.trimPool = [](Handle, size_t) { return 0; };
    api.addGraphNode = [](Handle *node, Handle, const Handle *previous, size_t count, const Node *launch) {
      last = {.source = count ? number(*previous) : 0, .bytes = launch->blocks[1] * 100 + launch->threads[2]};
      return *node = launch->function, 0;
    };
    return api;
  }
};

using Vendors = ::testing::Types<Cuda, Hip>;
TYPED_TEST_SUITE(GpuLibraryDriver, Vendors);

TYPED_TEST(GpuLibraryDriver, NamesTheFunctionThatFailed) {
  typename TypeParam::Driver driver(this->sampleApi());
  ASSERT_TRUE(driver.init().ok());
  void *address = nullptr;
  GpuResult result = driver.allocate(nullptr, 101, nullptr, address);
  EXPECT_EQ(result.failure, GpuFailure::OutOfMemory);
  EXPECT_STREQ(result.call, TypeParam::allocate);
  result = driver.queryEvent(&result);
  EXPECT_EQ(result.failure, GpuFailure::NotReady);
  EXPECT_STREQ(result.call, TypeParam::event);
  EXPECT_EQ(driver.queryEvent(nullptr).failure, GpuFailure::Lost);
}

TYPED_TEST(GpuLibraryDriver, AllocatesAndCopies) {
  typename TypeParam::Driver driver(this->sampleApi());
  void *address = nullptr;
  EXPECT_TRUE(driver.allocate(nullptr, 7, nullptr, address).ok());
  EXPECT_EQ(last.bytes, 7u);
  EXPECT_TRUE(driver.allocate(pointer(1), 8, pointer(2), address).ok());
  EXPECT_EQ(address, pointer(0x1234));
  EXPECT_EQ(std::tuple(last.bytes, last.pool, last.stream), std::tuple(8u, pointer(1), pointer(2)));
  EXPECT_TRUE(driver.free(nullptr, pointer(3), pointer(4)).ok());
  EXPECT_EQ(std::tuple(last.source, last.stream), std::tuple(3u, nullptr));
  EXPECT_TRUE(driver.free(pointer(1), pointer(3), pointer(4)).ok());
  EXPECT_EQ(std::tuple(last.source, last.stream), std::tuple(3u, pointer(4)));
  EXPECT_TRUE(driver.copyToHost(pointer(5), pointer(6), 7, pointer(8)).ok());
  EXPECT_EQ(std::tuple(last.destination, last.source, last.bytes, last.stream), std::tuple(5u, 6u, 7u, pointer(8)));
  EXPECT_TRUE(driver.copyOnDevice(pointer(6), pointer(5), 8, pointer(7)).ok());
  EXPECT_EQ(std::tuple(last.destination, last.source, last.bytes, last.stream), std::tuple(6u, 5u, 8u, pointer(7)));
}

TYPED_TEST(GpuLibraryDriver, MakesPoolsWhereThereAreAny) {
  typename TypeParam::Api api = this->sampleApi();
  typename TypeParam::Driver driver(api);
  void *pool = nullptr;
  EXPECT_TRUE(driver.createPool(1, pool).ok());
  EXPECT_EQ(pool, pointer(1)) << "of the device's number";
  GpuResult result = driver.createPool(0, pool);
  EXPECT_EQ(result.failure, GpuFailure::Unsupported) << "the device says that it has none";
  EXPECT_STREQ(result.call, TypeParam::pool);
  api.trimPool = nullptr;
  EXPECT_EQ(typename TypeParam::Driver(api).createPool(1, pool).failure, GpuFailure::Unsupported) << "an older library";
}

TYPED_TEST(GpuLibraryDriver, DescribesLaunchesForGraphs) {
  typename TypeParam::Driver driver(this->sampleApi());
  void *node = nullptr, *graph = nullptr;
  GpuGrid grid{{1, 2, 3}, {4, 5, 6}, 7};
  EXPECT_TRUE(driver.addGraphNode(pointer(1), nullptr, pointer(9), grid, nullptr, node).ok());
  EXPECT_EQ(std::tuple(node, last.source, last.bytes), std::tuple(pointer(9), 0u, 206u));
  EXPECT_TRUE(driver.addGraphNode(pointer(1), node, pointer(8), grid, nullptr, node).ok());
  EXPECT_EQ(last.source, 9u);
  GpuResult result = driver.createGraph(graph);
  EXPECT_EQ(result.failure, GpuFailure::Unsupported) << "the library lacks functions of graphs";
  EXPECT_STREQ(result.call, TypeParam::graph);
}

} // namespace
