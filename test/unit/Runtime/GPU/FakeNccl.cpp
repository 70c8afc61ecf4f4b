//===- FakeNccl.cpp - A library between GPUs of several processes, for tests -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/GPU/FakeNccl.h"

#include "test/unit/Runtime/GPU/FakeDriver.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <sched.h>
#include <sys/mman.h>
#include <vector>

using namespace intarsia;
using namespace intarsia::runtime;

namespace intarsia::testing {

namespace {
constexpr int size = FakeNccl::largestSize;
constexpr int communicators = 8;
constexpr nccl::Result invalidUsage = 5;

/// What a member does next: kind, count, element, root.
struct Step {
  int kind;
  uint64_t elements;
  int element, root;
  bool operator==(const Step &) const = default;
};

struct Mail {
  std::atomic<uint32_t> isFull;
  uint64_t bytes;
  char data[FakeNccl::mailboxBytes];
};

struct SharedCommunicator {
  std::atomic<int> joined;
  std::atomic<uint64_t> arrivals;
  Step steps[size];
  char data[size][FakeNccl::mailboxBytes];
  Mail mail[size][size]; // from, to
};
} // namespace

struct FakeNccl::Shared {
  std::atomic<int> made;
  SharedCommunicator communicators[testing::communicators];
};

namespace {

struct Communicator {
  SharedCommunicator *shared;
  int index, count;
  uint64_t arrivals = 0;
  std::atomic<bool> isAborted{false};
  std::atomic<nccl::Result> error{0};
};

/// What this process has.
FakeNccl::Shared *allShared;
FakeDriver *ownDriver;
std::vector<std::unique_ptr<Communicator>> *owned;

uint64_t bytesOf(nccl::Element element) {
  switch (element) {
  case nccl::elementInt8:
  case nccl::elementUint8:
    return 1;
  case nccl::elementFloat16:
  case nccl::elementBfloat16:
    return 2;
  case nccl::elementInt32:
  case nccl::elementUint32:
  case nccl::elementFloat32:
    return 4;
  default:
    return 8;
  }
}

template <typename Condition> bool waitUntil(Communicator &own, Condition condition) {
  while (!condition()) {
    if (own.isAborted)
      return false;
    sched_yield();
  }
  return true;
}

bool meet(Communicator &own) {
  own.arrivals += uint64_t(own.count);
  own.shared->arrivals.fetch_add(1);
  return waitUntil(own, [&] { return own.shared->arrivals.load() >= own.arrivals; });
}

/// All members publish `sourceBytes`; `read` gets what they published.
bool exchange(Communicator &own, const Step &step, const void *source, uint64_t sourceBytes,
              const std::function<bool(char (*data)[FakeNccl::mailboxBytes])> &read) {
  SharedCommunicator &shared = *own.shared;
  shared.steps[own.index] = step;
  const void *memory = sourceBytes ? ownDriver->resolve(uint64_t(source), sourceBytes) : nullptr;
  if ((sourceBytes && !memory) || sourceBytes > FakeNccl::mailboxBytes)
    return false;
  if (sourceBytes)
    std::memcpy(shared.data[own.index], memory, sourceBytes);
  if (!meet(own))
    return true; // an aborted exchange ends
  for (int member = 0; member < own.count; ++member)
    if (!(shared.steps[member] == step))
      own.error = invalidUsage;
  bool isRead = own.error != 0 || read(shared.data);
  meet(own);
  return isRead;
}

template <typename T> void reduceInto(T *to, const T *from, uint64_t count, bool adds) {
  for (uint64_t i = 0; i < count; ++i)
    to[i] = adds ? to[i] + from[i] : std::max(to[i], from[i]);
}

/// Reduces `count` elements of all members, from an element on, into memory of this one.
bool reduceTo(void *destination, char (*data)[FakeNccl::mailboxBytes], uint64_t first, uint64_t count,
              nccl::Element element, bool adds, int members) {
  uint64_t width = bytesOf(element);
  void *to = ownDriver->resolve(uint64_t(destination), count * width);
  if (!to)
    return false;
  std::vector<char> sum(data[0] + first * width, data[0] + (first + count) * width);
  for (int member = 1; member < members; ++member) {
    const char *from = data[member] + first * width;
    if (element == nccl::elementFloat32)
      reduceInto(reinterpret_cast<float *>(sum.data()), reinterpret_cast<const float *>(from), count, adds);
    else if (element == nccl::elementInt32)
      reduceInto(reinterpret_cast<int32_t *>(sum.data()), reinterpret_cast<const int32_t *>(from), count, adds);
    else
      return false;
  }
  std::memcpy(to, sum.data(), sum.size());
  return true;
}

/// The calls of a group by their order: sends come before receives, as they go on at the same time. Calls of the same
/// order stay in that in which they were made.
std::multimap<int, std::function<bool()>> pieces;
int depth = 0;
void *pieceStream;

/// Starts the calls of a group that has ended.
void startGroup() {
  if (depth != 0 || pieces.empty())
    return;
  ownDriver->putWork(pieceStream, [all = std::move(pieces)] {
    return std::all_of(all.begin(), all.end(), [](const auto &piece) { return piece.second(); });
  });
  pieces.clear();
}

void put(void *stream, int order, std::function<bool()> run) {
  pieceStream = stream;
  pieces.emplace(order, std::move(run));
  startGroup();
}

enum { stepAllReduce, stepReduce, stepBroadcast, stepReduceScatter, stepAllGather };

nccl::Result getVersion(int *version) {
  *version = 22703;
  return 0;
}
nccl::Result makeId(nccl::UniqueId *id) {
  int number = allShared->made.fetch_add(1);
  std::memset(id->bytes, 0, sizeof(id->bytes));
  std::memcpy(id->bytes, &number, sizeof(number));
  return number < communicators ? 0 : invalidUsage;
}
nccl::Result join(nccl::Handle *communicator, int count, nccl::UniqueId id, int index) {
  int number = 0;
  std::memcpy(&number, id.bytes, sizeof(number));
  owned->push_back(std::make_unique<Communicator>());
  Communicator &own = *owned->back();
  own.shared = &allShared->communicators[number];
  own.index = index;
  own.count = count;
  own.shared->joined.fetch_add(1);
  while (own.shared->joined.load() < count)
    sched_yield();
  *communicator = &own;
  return 0;
}
nccl::Result destroy(nccl::Handle) { return 0; }
nccl::Result abortAll(nccl::Handle communicator) {
  static_cast<Communicator *>(communicator)->isAborted = true;
  return 0;
}
nccl::Result asyncError(nccl::Handle communicator, nccl::Result *result) {
  *result = static_cast<Communicator *>(communicator)->error;
  return 0;
}
nccl::Result beginGroup() {
  ++depth;
  return 0;
}
nccl::Result endGroup() {
  --depth;
  startGroup();
  return 0;
}
nccl::Result allReduce(const void *source, void *destination, size_t elements, nccl::Element element,
                       nccl::Operation operation, nccl::Handle communicator, nccl::Stream stream) {
  auto &own = *static_cast<Communicator *>(communicator);
  put(stream, 0, [=, &own] {
    return exchange(own, {stepAllReduce, elements, element, 0}, source, elements * bytesOf(element), [&](auto *data) {
      return reduceTo(destination, data, 0, elements, element, operation == nccl::operationSum, own.count);
    });
  });
  return 0;
}
nccl::Result reduce(const void *source, void *destination, size_t elements, nccl::Element element,
                    nccl::Operation operation, int root, nccl::Handle communicator, nccl::Stream stream) {
  auto &own = *static_cast<Communicator *>(communicator);
  put(stream, 0, [=, &own] {
    return exchange(own, {stepReduce, elements, element, root}, source, elements * bytesOf(element), [&](auto *data) {
      return own.index != root ||
             reduceTo(destination, data, 0, elements, element, operation == nccl::operationSum, own.count);
    });
  });
  return 0;
}
nccl::Result broadcast(const void *source, void *destination, size_t elements, nccl::Element element, int root,
                       nccl::Handle communicator, nccl::Stream stream) {
  auto &own = *static_cast<Communicator *>(communicator);
  uint64_t bytes = elements * bytesOf(element);
  put(stream, 0, [=, &own] {
    return exchange(own, {stepBroadcast, elements, element, root}, source, own.index == root ? bytes : 0,
                    [&](auto *data) {
                      void *to = ownDriver->resolve(uint64_t(destination), bytes);
                      if (to)
                        std::memcpy(to, data[root], bytes);
                      return to != nullptr;
                    });
  });
  return 0;
}
nccl::Result reduceScatter(const void *source, void *destination, size_t elements, nccl::Element element,
                           nccl::Operation operation, nccl::Handle communicator, nccl::Stream stream) {
  auto &own = *static_cast<Communicator *>(communicator);
  uint64_t bytes = elements * bytesOf(element) * uint64_t(own.count);
  put(stream, 0, [=, &own] {
    return exchange(own, {stepReduceScatter, elements, element, 0}, source, bytes, [&](auto *data) {
      return reduceTo(destination, data, uint64_t(own.index) * elements, elements, element,
                      operation == nccl::operationSum, own.count);
    });
  });
  return 0;
}
nccl::Result allGather(const void *source, void *destination, size_t elements, nccl::Element element,
                       nccl::Handle communicator, nccl::Stream stream) {
  auto &own = *static_cast<Communicator *>(communicator);
  uint64_t bytes = elements * bytesOf(element);
  put(stream, 0, [=, &own] {
    return exchange(own, {stepAllGather, elements, element, 0}, source, bytes, [&](auto *data) {
      auto *to = static_cast<char *>(ownDriver->resolve(uint64_t(destination), bytes * uint64_t(own.count)));
      for (int member = 0; to && member < own.count; ++member)
        std::memcpy(to + uint64_t(member) * bytes, data[member], bytes);
      return to != nullptr;
    });
  });
  return 0;
}
nccl::Result sendTo(const void *source, size_t elements, nccl::Element element, int peer, nccl::Handle communicator,
                    nccl::Stream stream) {
  auto &own = *static_cast<Communicator *>(communicator);
  uint64_t bytes = elements * bytesOf(element);
  Mail *mail = &own.shared->mail[own.index][peer];
  put(stream, 1, [=, &own] {
    const void *memory = ownDriver->resolve(uint64_t(source), bytes);
    if (!memory || bytes > FakeNccl::mailboxBytes)
      return false;
    if (!waitUntil(own, [&] { return mail->isFull.load() == 0; }))
      return true;
    std::memcpy(mail->data, memory, bytes);
    mail->bytes = bytes;
    mail->isFull.store(1);
    return true;
  });
  // A send ends when its data have been received.
  if (depth == 0)
    put(stream, 3, [=, &own] {
      waitUntil(own, [&] { return mail->isFull.load() == 0; });
      return true;
    });
  return 0;
}
nccl::Result receiveFrom(void *destination, size_t elements, nccl::Element element, int peer, nccl::Handle communicator,
                         nccl::Stream stream) {
  auto &own = *static_cast<Communicator *>(communicator);
  uint64_t bytes = elements * bytesOf(element);
  Mail *mail = &own.shared->mail[peer][own.index];
  put(stream, 2, [=, &own] {
    void *memory = ownDriver->resolve(uint64_t(destination), bytes);
    if (!memory)
      return false;
    if (!waitUntil(own, [&] { return mail->isFull.load() == 1; }))
      return true;
    if (mail->bytes != bytes)
      own.error = invalidUsage;
    std::memcpy(memory, mail->data, std::min(bytes, mail->bytes));
    mail->isFull.store(0);
    return true;
  });
  return 0;
}
const char *errorText(nccl::Result result) { return result == invalidUsage ? "invalid usage" : "unknown"; }

} // namespace

FakeNccl::FakeNccl() {
  shared_ = static_cast<Shared *>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

FakeNccl::~FakeNccl() { munmap(shared_, sizeof(Shared)); }

nccl::Api FakeNccl::api(FakeDriver &driver, const char *version) {
  static std::vector<std::unique_ptr<Communicator>> all;
  allShared = shared_;
  ownDriver = &driver;
  owned = &all;
  nccl::Api api;
  api.version = getVersion;
  api.makeId = makeId;
  api.join = join;
  api.destroy = destroy;
  api.abort = abortAll;
  api.asyncError = asyncError;
  api.beginGroup = beginGroup;
  api.endGroup = endGroup;
  api.allReduce = allReduce;
  api.reduce = reduce;
  api.broadcast = broadcast;
  api.reduceScatter = reduceScatter;
  api.allGather = allGather;
  api.send = sendTo;
  api.receive = receiveFrom;
  api.errorText = errorText;
  api.text = version;
  return api;
}

} // namespace intarsia::testing
