//===- WeightStream.h - Weights that are read from disk while a model runs ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_TIERS_WEIGHTSTREAM_H
#define INTARSIA_RUNTIME_TIERS_WEIGHTSTREAM_H

#include "lib/Formats/Manifest.h"
#include "lib/Formats/Safetensors.h"
#include "lib/Runtime/Tiers/MemorySplit.h"
#include "lib/Runtime/Tiers/PagedFile.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace intarsia::runtime {

/// The memory of this process that belongs to it alone and was touched, in bytes.
uint64_t anonymousBytes();
/// Tells all weight streams of this process that so many bytes are about to be allocated, or touched for the first
/// time: they make room. Does little if there are none.
void makeRoomForAllocation(uint64_t bytes);

/// The memory that a process may use.
struct MemoryLimit {
  uint64_t bytes = 0;
  /// False if nobody has asked for it: where even the least that is possible does not fit, more is used.
  bool isPromise = true;
};

/// The weights that a call has used so far, in order.
struct WeightPass {
  size_t function = 0;
  std::vector<uint32_t> used;
  size_t position = 0; ///< in the order of the function's last call: what is expected next
};

/// The operands of a launch: its buffers, the values of its sizes, and what the manifest says of each buffer, null
/// where it says nothing.
struct LaunchOperands {
  void *const *buffers = nullptr;
  uint32_t bufferCount = 0;
  const int64_t *sizes = nullptr;
  uint32_t sizeCount = 0;
  const std::vector<OperandInfo> *infos = nullptr;
};

/// The weights that a launch uses, from its begin to its end.
struct WeightUse {
  std::vector<uint32_t> tensors;
  std::vector<void *> buffers; ///< those of the launch, with the addresses where weights are in memory
};

/// The weights of a module that does not get memory for all of them. Kernels read copies: in a range of addresses
/// as large as the archive, each tensor has its place, of which the beginning stays in memory and the rest is there
/// while it is needed. Reading threads go ahead of the calls: functions use weights in the same order each time, so the
/// order of a function's last call says what comes next; before the first one it is that of the manifest.
///
/// Everything that the process allocates counts against the limit. What is kept shrinks when caches and scratch memory
/// grow, and grows when there is memory again.
///
/// Experts are read when a launch's indices choose them, all at once, and stay until others need their memory, those
/// that were used longest ago first. They have what the other tensors leave. Tables of embeddings are not copied: the
/// system reads their pages when they are touched, and forgets them first when memory is short.
///
/// Members may be called by several threads. A process that was forked has no reading threads and uses the mapping.
class WeightStream {
public:
  /// What else the process has in memory, in bytes, if so many bytes of weights are there.
  using OthersInMemory = std::function<uint64_t(uint64_t resident)>;

  /// `tensors`: those that kernels read as a whole, in the order of their first use. `others` is for tests; without it,
  /// the system is asked. ITX_OUT_OF_MEMORY says what the least limit is.
  static Status create(const std::string &name, const SafetensorsFile &archive,
                       const std::vector<const ArchiveTensor *> &tensors, MemoryLimit limit,
                       std::unique_ptr<WeightStream> &stream, OthersInMemory others = {});
  ~WeightStream();
  WeightStream(const WeightStream &) = delete;
  WeightStream &operator=(const WeightStream &) = delete;

  /// Begins a call of a function. ITX_OUT_OF_MEMORY if what else the process has allocated leaves too little.
  Status begin(size_t function, WeightPass &pass);
  /// Ends it; the order of a call that failed is not kept.
  void end(const WeightPass &pass, bool isGood);
  /// Waits until the weights of a launch are in memory: it reads them in `use.buffers`. Its indices have been computed.
  Status acquire(WeightPass &pass, const LaunchOperands &launch, WeightUse &use);
  /// Lets go of what acquire has given, when the launch is done.
  void release(WeightUse &use);
  /// Returns the bytes that the rest of the process could take more, if the weights had the least that is possible.
  uint64_t spareBytes() const;
  /// Gives up memory that is not in use if the process is about to allocate so many bytes.
  void makeRoom(uint64_t bytes);
  /// A JSON object: limit_bytes, weight_bytes, kept_bytes, expert_bytes, read_bytes, wait_seconds, direct.
  std::string figures() const;

private:
  /// A tensor, or one expert of a tensor of experts.
  struct Tensor {
    const uint8_t *mapped = nullptr; ///< the data in the archive's mapping
    uint64_t first = 0, last = 0;    ///< its bytes in the archive
    uint64_t begin = 0, end = 0;     ///< the pages of the range that are its alone
    uint64_t kept = 0;               ///< bytes from begin that stay, whole pages
    uint64_t loaded = 0;             ///< bytes from begin that are in memory
    uint64_t arrived = 0;            ///< bytes of reads that are done, while others are not
    uint64_t reserved = 0;           ///< its part of the window
    uint32_t reads = 0;              ///< that are not done
    uint32_t users = 0;
    bool hasEdges = false; ///< its bytes in pages that others share are there; they stay
    bool isExpert = false;
    bool isListed = false;               ///< in recent_
    std::list<uint32_t>::iterator place; ///< in recent_
    Status status;                       ///< of a read that failed

    uint64_t size() const { return end - begin; }
    bool isThere() const { return loaded == size() && hasEdges && reads == 0; }
  };
  struct Read {
    uint32_t tensor = 0;
    uint64_t begin = 0, end = 0; ///< in the range; equal for the edges of the tensor
  };

  WeightStream(std::string name, const SafetensorsFile &archive, MemoryLimit limit, OthersInMemory others);
  Status start(const std::vector<const ArchiveTensor *> &tensors);
  /// Divides memory anew if there is less than before, or clearly more.
  Status divide();
  void readAll();
  /// Reads the bytes of a tensor in pages that it shares with its neighbours.
  Status readEdges(uint64_t first, uint64_t last) const;
  void request(uint32_t index, bool isUrgent);
  void readAhead(const WeightPass &pass);
  /// Frees parts of the window that are expected last, until `bytes` of it are free.
  void evict(uint64_t bytes, const WeightPass &pass);
  /// Keeps the beginning of a tensor that nobody uses.
  void drop(Tensor &tensor);
  /// Frees experts that were used longest ago, until `bytes` more have room.
  void evictExperts(uint64_t bytes);
  /// Adds the experts that a launch uses to `use`; returns their bytes that are not in memory.
  uint64_t addExperts(const LaunchOperands &launch, uint32_t operand, WeightUse &use);
  /// Makes room for the experts of a launch, and requests those that are missing.
  Status requestExperts(uint64_t missing, const WeightUse &use);
  const std::vector<uint32_t> &orderOf(size_t function) const;
  /// Returns the tensor that an address of the mapping lies in; -1 if none.
  int64_t find(const void *address) const;

  const std::string name_;
  const SafetensorsFile &archive_;
  const MemoryLimit limit_;
  const OthersInMemory othersInMemory_;
  const int process_; ///< that has the reading threads
  PagedFile file_;
  uint8_t *range_ = nullptr; ///< where byte 0 of the archive would be
  uint64_t rangeBytes_ = 0;
  std::vector<uint32_t> byAddress_; ///< numbers of tensors

  mutable std::mutex mutex_;
  std::condition_variable work_, ready_;
  bool isStopping_ = false;
  Status status_;               ///< of makeRoom, for the next launch
  std::vector<Tensor> tensors_; ///< those of `sizes_`, then experts
  std::vector<uint64_t> sizes_;
  std::map<const uint8_t *, uint32_t> experts_; ///< the first expert of each tensor, by the address in the mapping
  std::list<uint32_t> recent_;                  ///< experts that are in memory or being read, the last used first
  uint64_t expertBytes_ = 0;                    ///< their bytes
  uint64_t expertRoom_ = 0;                     ///< the most bytes of experts
  uint64_t expertsOfLaunch_ = 0;                ///< the most bytes of experts that a launch has used
  std::vector<uint32_t> firstOrder_;
  std::vector<std::vector<uint32_t>> orders_; ///< by function
  std::deque<Read> reads_;
  uint64_t window_ = 0, reserved_ = 0;
  uint64_t divided_ = 0;  ///< bytes that were divided last
  uint64_t promised_ = 0; ///< bytes that the process has allocated since the last call began
  uint64_t resident_ = 0; ///< bytes of the range that are in memory
  uint64_t readBytes_ = 0;
  int64_t waitedNs_ = 0;
  std::vector<std::thread> threads_;
};

} // namespace intarsia::runtime

#endif
