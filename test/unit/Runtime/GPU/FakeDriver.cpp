//===- FakeDriver.cpp - A driver of GPUs for tests, without a GPU ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/GPU/FakeDriver.h"

#include <chrono>
#include <cstring>
#include <deque>

namespace intarsia::testing {

using namespace intarsia::runtime;
using Clock = std::chrono::steady_clock;

static constexpr HostedNames names = {"fake", "the fake GPU", "ITX_FAKE"};

/// The device that a thread has entered, counted from 1; 0: none.
static thread_local int entered = 0;

struct FakeDriver::Event {
  std::mutex mutex;
  std::condition_variable happened;
  bool isTimed = false;
  uint64_t recorded = 0, done = 0;
  Clock::time_point time;
};

struct FakeDriver::Stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool ends = false;
  std::mt19937_64 random;
  std::thread thread;

  void put(std::function<void()> piece) {
    std::lock_guard lock(mutex);
    work.push_back(std::move(piece));
    changed.notify_one();
  }
  void run(uint64_t delayMicroseconds) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ends || !work.empty(); });
      if (work.empty())
        return;
      std::function<void()> piece = std::move(work.front());
      work.pop_front();
      lock.unlock();
      if (delayMicroseconds != 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % (delayMicroseconds + 1)));
      piece();
      lock.lock();
    }
  }
};

/// A launch of a graph. Only one behind another is possible, as in a stream.
struct FakeDriver::Node {
  Function *function;
  GpuGrid grid;
  FakeArguments arguments;
};

/// A graph and its only instance, which must not be changed as a graph any more.
struct FakeDriver::Graph {
  std::deque<Node> nodes;
  bool isInstance = false, isDestroyed = false;
};

FakeDriver::FakeDriver(const Settings &settings) : settings_(settings) {
  (void)HostedMemory::reserve(names, settings.memoryBytes, memory_);
}

FakeDriver::~FakeDriver() {
  for (std::unique_ptr<Stream> &stream : streams_) {
    {
      std::lock_guard lock(stream->mutex);
      stream->ends = true;
    }
    stream->changed.notify_one();
    stream->thread.join();
  }
}

void FakeDriver::addFunction(const std::string &name, size_t arguments, Body body, size_t tensorMaps) {
  std::lock_guard lock(mutex_);
  functions_[name] = {arguments, tensorMaps, std::move(body)};
}

void FakeDriver::failAt(const std::string &call, int n, GpuFailure failure) {
  std::lock_guard lock(mutex_);
  faults_[call] = {calls_[call] + n, failure};
}

void FakeDriver::clearFaults() {
  std::lock_guard lock(mutex_);
  faults_.clear();
}

int FakeDriver::calls(const std::string &call) const {
  std::lock_guard lock(mutex_);
  auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

void *FakeDriver::resolve(uint64_t address, uint64_t bytes) const {
  void *memory = nullptr;
  return memory_->resolve(reinterpret_cast<void *>(address), bytes, memory) ? memory : nullptr;
}

GpuResult FakeDriver::begin(const char *call, bool needsDevice) {
  std::lock_guard lock(mutex_);
  int number = ++calls_[call];
  auto fault = faults_.find(call);
  if (fault != faults_.end() && fault->second.first == number) {
    if (fault->second.second == GpuFailure::Lost)
      isLost_ = true;
    return {fault->second.second, int(fault->second.second), call};
  }
  if (needsDevice && isLost_)
    return {GpuFailure::Lost, int(GpuFailure::Lost), call};
  if (needsDevice && entered == 0)
    return {GpuFailure::Other, 201, call};
  return {};
}

std::string FakeDriver::explain(const GpuResult &result) const {
  return std::string(result.call) + ": FAKE_ERROR_" + std::to_string(result.code);
}

// ---- Devices --------------------------------------------------------------------------------------------------

GpuResult FakeDriver::countDevices(int &count) {
  count = settings_.devices;
  return begin("countDevices", false);
}

GpuResult FakeDriver::readProperties(int device, GpuProperties &properties) {
  properties.name = "Fake GPU " + std::to_string(device);
  properties.architecture = "fake_20";
  properties.pciBus = format("0000:%02x:00.0", unsigned(device));
  properties.memoryBytes = settings_.memoryBytes;
  properties.sharedBytes = 160 << 10;
  properties.defaultSharedBytes = 48 << 10;
  properties.processors = 4;
  properties.warpThreads = 32;
  return begin("readProperties", false);
}

std::optional<int> FakeDriver::rank(GpuCodeKind kind, const std::string &code, const std::string &device) const {
  if (kind == GpuCodeKind::Cubin && code == device)
    return 0;
  if (kind == GpuCodeKind::Cubin && code == "fake_10")
    return 1;
  if (kind == GpuCodeKind::Ptx && (code == device || code == "fake_10"))
    return 2;
  return std::nullopt;
}

GpuResult FakeDriver::open(int) { return begin("open", false); }

GpuResult FakeDriver::enter(int device, void *&previous) {
  if (GpuResult result = begin("enter", false); !result.ok())
    return result;
  previous = reinterpret_cast<void *>(intptr_t(entered));
  entered = device + 1;
  return {};
}

void FakeDriver::leave(int, void *previous) { entered = int(reinterpret_cast<intptr_t>(previous)); }

// ---- Streams and events ---------------------------------------------------------------------------------------

GpuResult FakeDriver::createStream(void *&stream) {
  if (GpuResult result = begin("createStream"); !result.ok())
    return result;
  auto made = std::make_unique<Stream>();
  made->thread = std::thread([this, raw = made.get()] { raw->run(settings_.delayMicroseconds); });
  stream = made.get();
  std::lock_guard lock(mutex_);
  made->random.seed(streams_.size());
  streams_.push_back(std::move(made));
  return {};
}

GpuResult FakeDriver::createEvent(bool isTimed, void *&event) {
  if (GpuResult result = begin("createEvent"); !result.ok())
    return result;
  auto made = std::make_unique<Event>();
  made->isTimed = isTimed;
  event = made.get();
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(made));
  return {};
}

void FakeDriver::destroyEvent(void *) { (void)begin("destroyEvent"); }

bool FakeDriver::isDone(Event &event, uint64_t recorded) {
  std::lock_guard lock(event.mutex);
  return event.done >= recorded;
}

GpuResult FakeDriver::recordEvent(void *event, void *stream) {
  if (GpuResult result = begin("recordEvent"); !result.ok())
    return result;
  auto &recorded = *static_cast<Event *>(event);
  uint64_t number;
  {
    std::lock_guard lock(recorded.mutex);
    number = ++recorded.recorded;
  }
  static_cast<Stream *>(stream)->put([&recorded, number] {
    std::lock_guard lock(recorded.mutex);
    recorded.done = number;
    recorded.time = Clock::now();
    recorded.happened.notify_all();
  });
  return {};
}

GpuResult FakeDriver::streamWait(void *stream, void *event) {
  if (GpuResult result = begin("streamWait"); !result.ok())
    return result;
  auto &awaited = *static_cast<Event *>(event);
  uint64_t number;
  {
    std::lock_guard lock(awaited.mutex);
    number = awaited.recorded;
  }
  static_cast<Stream *>(stream)->put([&awaited, number] {
    std::unique_lock lock(awaited.mutex);
    awaited.happened.wait(lock, [&] { return awaited.done >= number; });
  });
  return {};
}

GpuResult FakeDriver::queryEvent(void *event) {
  if (GpuResult result = begin("queryEvent"); !result.ok())
    return result;
  auto &queried = *static_cast<Event *>(event);
  std::lock_guard lock(queried.mutex);
  return {queried.done >= queried.recorded ? GpuFailure::None : GpuFailure::NotReady, 600, "queryEvent"};
}

GpuResult FakeDriver::synchronizeEvent(void *event) {
  if (GpuResult result = begin("synchronizeEvent"); !result.ok())
    return result;
  auto &awaited = *static_cast<Event *>(event);
  {
    std::unique_lock lock(awaited.mutex);
    awaited.happened.wait(lock, [&] { return awaited.done >= awaited.recorded; });
  }
  // Faults of the work before it are reported here.
  if (isLost_)
    return {GpuFailure::Lost, 700, "synchronizeEvent"};
  return {};
}

GpuResult FakeDriver::elapsed(void *begun, void *ended, float &milliseconds) {
  if (GpuResult result = begin("elapsed"); !result.ok())
    return result;
  auto &first = *static_cast<Event *>(begun), &last = *static_cast<Event *>(ended);
  if (!first.isTimed || !last.isTimed)
    return {GpuFailure::Other, 400, "elapsed"};
  if (!isDone(first, first.recorded) || !isDone(last, last.recorded))
    return {GpuFailure::NotReady, 600, "elapsed"};
  milliseconds = std::chrono::duration<float, std::milli>(last.time - first.time).count();
  return {};
}

// ---- Memory ---------------------------------------------------------------------------------------------------

GpuResult FakeDriver::createPool(int, void *&pool) {
  if (GpuResult result = begin("createPool"); !result.ok())
    return result;
  if (!settings_.hasPools)
    return {GpuFailure::Unsupported, 801, "createPool"};
  pool = this;
  return {};
}

GpuResult FakeDriver::trimPool(void *) {
  if (GpuResult result = begin("trimPool"); !result.ok())
    return result;
  std::lock_guard lock(mutex_);
  for (auto [address, bytes] : kept_)
    memory_->release(address);
  kept_.clear();
  return {};
}

GpuResult FakeDriver::allocate(void *, uint64_t bytes, void *, void *&address) {
  if (GpuResult result = begin("allocate"); !result.ok())
    return result;
  std::lock_guard lock(mutex_);
  uint64_t used = settings_.otherProcessBytes + bytes;
  for (const auto &memory : {allocated_, kept_})
    for (auto [other, size] : memory)
      used += size;
  if (used > settings_.memoryBytes || !memory_->allocate(bytes, address).ok())
    return {GpuFailure::OutOfMemory, 2, "allocate"};
  allocated_[address] = bytes;
  owners_[address] = entered - 1;
  return {};
}

GpuResult FakeDriver::free(void *pool, void *address, void *stream) {
  if (GpuResult result = begin("free"); !result.ok())
    return result;
  std::lock_guard lock(mutex_);
  auto found = allocated_.find(address);
  if (found == allocated_.end())
    return {GpuFailure::Other, 1, "free"};
  uint64_t bytes = found->second;
  allocated_.erase(found);
  // In the stream's order; without a pool at once, since nothing may use the memory any more.
  auto drop = [this, address, bytes] {
    std::lock_guard lock(mutex_);
    kept_[address] = bytes;
  };
  if (pool)
    static_cast<Stream *>(stream)->put(drop);
  else
    memory_->release(address);
  return {};
}

GpuResult FakeDriver::memoryInfo(uint64_t &freeBytes, uint64_t &totalBytes) {
  if (GpuResult result = begin("memoryInfo"); !result.ok())
    return result;
  std::lock_guard lock(mutex_);
  totalBytes = settings_.memoryBytes;
  freeBytes = totalBytes - settings_.otherProcessBytes;
  for (const auto &memory : {allocated_, kept_})
    for (auto [address, bytes] : memory)
      freeBytes -= std::min(freeBytes, bytes);
  return {};
}

GpuResult FakeDriver::allocateHost(uint64_t bytes, void *&address) {
  if (GpuResult result = begin("allocateHost"); !result.ok())
    return result;
  auto memory = std::make_unique<uint8_t[]>(bytes);
  std::memset(memory.get(), 0xee, bytes);
  address = memory.get();
  std::lock_guard lock(mutex_);
  pinnedBytes_[memory.get()] = bytes;
  pinned_[memory.get()] = std::move(memory);
  return {};
}

bool FakeDriver::isPinned(const void *address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  auto *begin = static_cast<const uint8_t *>(address);
  for (auto [memory, size] : pinnedBytes_)
    if (begin >= memory && begin + bytes <= memory + size)
      return true;
  return false;
}

// ---- Work -----------------------------------------------------------------------------------------------------

GpuResult FakeDriver::copyToDevice(void *destination, const void *source, uint64_t bytes, void *stream) {
  if (GpuResult result = begin("copyToDevice"); !result.ok())
    return result;
  if (!isPinned(source, bytes) || !resolve(uint64_t(destination), bytes))
    return {GpuFailure::Other, 1, "copyToDevice"};
  static_cast<Stream *>(stream)->put([=, this] {
    if (void *memory = resolve(uint64_t(destination), bytes); memory && !isLost_)
      std::memcpy(memory, source, bytes);
    else
      isLost_ = true;
  });
  return {};
}

GpuResult FakeDriver::copyToHost(void *destination, const void *source, uint64_t bytes, void *stream) {
  if (GpuResult result = begin("copyToHost"); !result.ok())
    return result;
  if (!isPinned(destination, bytes) || !resolve(uint64_t(source), bytes))
    return {GpuFailure::Other, 1, "copyToHost"};
  static_cast<Stream *>(stream)->put([=, this] {
    if (void *memory = resolve(uint64_t(source), bytes); memory && !isLost_)
      std::memcpy(destination, memory, bytes);
    else
      isLost_ = true;
  });
  return {};
}

GpuResult FakeDriver::copyOnDevice(void *destination, const void *source, uint64_t bytes, void *stream) {
  if (GpuResult result = begin("copyOnDevice"); !result.ok())
    return result;
  static_cast<Stream *>(stream)->put([=, this] {
    void *to = resolve(uint64_t(destination), bytes), *from = resolve(uint64_t(source), bytes);
    if (to && from && !isLost_)
      std::memmove(to, from, bytes);
    else
      isLost_ = true;
  });
  return {};
}

GpuResult FakeDriver::copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice,
                                 uint64_t bytes, void *stream) {
  if (GpuResult result = begin("copyToPeer"); !result.ok())
    return result;
  auto isOwned = [&](const void *address, int device) {
    std::lock_guard lock(mutex_);
    auto found = owners_.find(const_cast<void *>(address));
    return found != owners_.end() && found->second == device;
  };
  if (destinationDevice == sourceDevice || !isOwned(destination, destinationDevice) || !isOwned(source, sourceDevice))
    return {GpuFailure::Other, 1, "copyToPeer"};
  static_cast<Stream *>(stream)->put([=, this] {
    void *to = resolve(uint64_t(destination), bytes), *from = resolve(uint64_t(source), bytes);
    if (to && from && !isLost_)
      std::memcpy(to, from, bytes);
    else
      isLost_ = true;
  });
  return {};
}

GpuResult FakeDriver::fill(void *destination, uint8_t value, uint64_t bytes, void *stream) {
  if (GpuResult result = begin("fill"); !result.ok())
    return result;
  static_cast<Stream *>(stream)->put([=, this] {
    if (void *memory = resolve(uint64_t(destination), bytes); memory && !isLost_)
      std::memset(memory, value, bytes);
    else
      isLost_ = true;
  });
  return {};
}

void FakeDriver::putWork(void *stream, std::function<bool()> work) {
  static_cast<Stream *>(stream)->put([this, work = std::move(work)] {
    if (!isLost_ && !work())
      isLost_ = true;
  });
}

/// Numbers of a tensor map.
static constexpr size_t tensorNumbers = 7;

/// Reads the arguments of a launch.
static FakeArguments readArguments(size_t count, size_t tensorMaps, void **arguments) {
  FakeArguments values(count + tensorMaps * tensorNumbers);
  for (size_t i = 0; i < count; ++i)
    std::memcpy(&values[i], arguments[i], sizeof(values[i]));
  for (size_t i = 0; i < tensorMaps; ++i)
    std::memcpy(&values[count + i * tensorNumbers], arguments[count + i], tensorNumbers * sizeof(values[0]));
  return values;
}

GpuResult FakeDriver::describeTensor(void *address, const GpuTensorBox &box, GpuTensorDescriptor &descriptor) {
  if (GpuResult result = begin("describeTensor"); !result.ok())
    return result;
  if (!settings_.hasTensorMaps)
    return {GpuFailure::Unsupported, 801, "describeTensor"};
  descriptor = {reinterpret_cast<uintptr_t>(address),
                box.rows,
                box.columns,
                box.elementBytes,
                box.boxRows,
                box.boxColumns,
                box.swizzleBytes};
  return {};
}

GpuResult FakeDriver::launch(void *function, const GpuGrid &grid, void *stream, void **arguments) {
  if (GpuResult result = begin("launch"); !result.ok())
    return result;
  auto &started = *static_cast<Function *>(function);
  for (size_t i = 0; i < 3; ++i)
    if (grid.blocks[i] == 0 || grid.threads[i] == 0)
      return {GpuFailure::Other, 1, "launch"};
  if (grid.sharedBytes > started.allowedShared)
    return {GpuFailure::Other, 1, "launch"};
  FakeArguments values = readArguments(started.arguments, started.tensorMaps, arguments);
  static_cast<Stream *>(stream)->put([this, &started, grid, values] {
    if (!isLost_ && !started.body(*this, grid, values))
      isLost_ = true;
  });
  return {};
}

// ---- Graphs ---------------------------------------------------------------------------------------------------

GpuResult FakeDriver::createGraph(void *&graph) {
  if (GpuResult result = begin("createGraph"); !result.ok())
    return result;
  if (!settings_.hasGraphs)
    return {GpuFailure::Unsupported, 801, "createGraph"};
  std::lock_guard lock(mutex_);
  graphs_.push_back(std::make_unique<Graph>());
  graph = graphs_.back().get();
  return {};
}

GpuResult FakeDriver::addGraphNode(void *graph, void *previous, void *function, const GpuGrid &grid, void **arguments,
                                   void *&node) {
  if (GpuResult result = begin("addGraphNode"); !result.ok())
    return result;
  auto &added = *static_cast<Graph *>(graph);
  if (added.isInstance || previous != (added.nodes.empty() ? nullptr : &added.nodes.back()))
    return {GpuFailure::Other, 1, "addGraphNode"};
  auto *started = static_cast<Function *>(function);
  added.nodes.push_back({started, grid, readArguments(started->arguments, started->tensorMaps, arguments)});
  node = &added.nodes.back();
  return {};
}

GpuResult FakeDriver::instantiateGraph(void *graph, void *&instance) {
  if (GpuResult result = begin("instantiateGraph"); !result.ok())
    return result;
  static_cast<Graph *>(graph)->isInstance = true;
  instance = graph;
  return {};
}

GpuResult FakeDriver::setGraphNode(void *instance, void *node, void *function, const GpuGrid &, void **arguments) {
  if (GpuResult result = begin("setGraphNode"); !result.ok())
    return result;
  auto &changed = *static_cast<Node *>(node);
  if (static_cast<Graph *>(instance)->isDestroyed || changed.function != function)
    return {GpuFailure::Other, 1, "setGraphNode"};
  changed.arguments = readArguments(changed.function->arguments, changed.function->tensorMaps, arguments);
  return {};
}

GpuResult FakeDriver::launchGraph(void *instance, void *stream) {
  if (GpuResult result = begin("launchGraph"); !result.ok())
    return result;
  auto &graph = *static_cast<Graph *>(instance);
  if (!graph.isInstance || graph.isDestroyed)
    return {GpuFailure::Other, 1, "launchGraph"};
  // With the arguments of now: they may be changed while it runs.
  static_cast<Stream *>(stream)->put([this, nodes = graph.nodes] {
    for (const Node &node : nodes)
      if (!isLost_ && !node.function->body(*this, node.grid, node.arguments))
        isLost_ = true;
  });
  return {};
}

void FakeDriver::destroyGraph(void *graph, void *) {
  (void)begin("destroyGraph");
  if (graph)
    static_cast<Graph *>(graph)->isDestroyed = true;
}

// ---- Code -----------------------------------------------------------------------------------------------------

GpuResult FakeDriver::loadModule(const std::string &code, std::string &log, void *&module) {
  if (GpuResult result = begin("loadModule"); !result.ok())
    return result;
  log.clear();
  if (code.find("damaged") != std::string::npos) {
    log = "line 3: this is damaged\n";
    return {GpuFailure::BadCode, 218, "loadModule"};
  }
  if (code.find(".version 9") != std::string::npos)
    return {GpuFailure::OldDriver, 222, "loadModule"};
  if (code.find("for another") != std::string::npos)
    return {GpuFailure::NoCode, 209, "loadModule"};
  module = this;
  return {};
}

void FakeDriver::unloadModule(void *) { (void)begin("unloadModule"); }

GpuResult FakeDriver::findFunction(void *, const char *name, void *&function) {
  if (GpuResult result = begin("findFunction"); !result.ok())
    return result;
  std::lock_guard lock(mutex_);
  auto found = functions_.find(name);
  if (found == functions_.end())
    return {GpuFailure::NotFound, 500, "findFunction"};
  function = &found->second;
  return {};
}

GpuResult FakeDriver::allowShared(void *function, uint32_t bytes) {
  if (GpuResult result = begin("allowShared"); !result.ok())
    return result;
  static_cast<Function *>(function)->allowedShared = bytes;
  return {};
}

} // namespace intarsia::testing
