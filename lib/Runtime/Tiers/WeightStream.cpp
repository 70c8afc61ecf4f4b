//===- WeightStream.cpp - Weights that are read from disk while a model runs --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Tiers/WeightStream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace intarsia::runtime {

/// A process takes so much beside the memory that it has touched itself: tables of pages, buffers of the kernel, the
/// code of the artifact, and pages of files that are in use. It was 9 to 14 MiB for a model of 650 MB.
static constexpr uint64_t otherBytes = 16 << 20;

// ---- All streams of the process ---------------------------------------------------------------------------

namespace {
struct Streams {
  std::mutex mutex;
  std::vector<WeightStream *> all;
};
} // namespace

static std::atomic<uint32_t> streamCount{0};
static std::atomic<int> streamProcess{0}; // that has the streams: a child of a fork may find their lock held for ever

/// Never destroyed: memory may be allocated while static objects are destroyed.
static Streams &streams() {
  static Streams *known = new Streams;
  return *known;
}

void makeRoomForAllocation(uint64_t bytes) {
  // Smaller blocks are not worth a look at the memory of the process.
  constexpr uint64_t leastBytes = 64 << 10;
  if (bytes < leastBytes || streamCount.load(std::memory_order_relaxed) == 0 || streamProcess != getpid())
    return;
  std::lock_guard lock(streams().mutex);
  for (WeightStream *stream : streams().all)
    stream->makeRoom(bytes);
}

uint64_t anonymousBytes() {
  char text[128] = {};
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t bytes = file >= 0 ? read(file, text, sizeof(text) - 1) : 0;
  if (file >= 0)
    close(file);
  unsigned long long all = 0, resident = 0, shared = 0;
  if (bytes <= 0 || std::sscanf(text, "%llu %llu %llu", &all, &resident, &shared) != 3)
    return 0;
  return (resident - std::min(resident, shared)) * uint64_t(sysconf(_SC_PAGESIZE));
}

// ---- Begin and end ----------------------------------------------------------------------------------------

static uint64_t pageFloor(uint64_t byte) { return byte / filePageBytes * filePageBytes; }
static uint64_t pageCeil(uint64_t byte) { return pageFloor(byte + filePageBytes - 1); }

static uint64_t othersOfProcess(uint64_t resident) {
  uint64_t touched = anonymousBytes();
  return touched - std::min(touched, resident);
}

template <typename Tensor> static void setBytes(Tensor &tensor, uint64_t first, uint64_t last) {
  tensor.first = first;
  tensor.last = last;
  tensor.begin = pageCeil(first);
  tensor.end = std::max(tensor.begin, pageFloor(last));
}

WeightStream::WeightStream(std::string name, const SafetensorsFile &archive, MemoryLimit limit, OthersInMemory others)
    : name_(std::move(name)), archive_(archive), limit_(limit),
      othersInMemory_(others ? std::move(others) : othersOfProcess), process_(getpid()) {}

Status WeightStream::create(const std::string &name, const SafetensorsFile &archive,
                            const std::vector<const ArchiveTensor *> &tensors, MemoryLimit limit,
                            std::unique_ptr<WeightStream> &stream, OthersInMemory others) {
  if (!archive.mapping())
    return error(ITX_UNSUPPORTED,
                 "%s: its weights were given in memory, so that there is no file that they could be "
                 "read from again: load the artifact by its path, or without a limit of memory",
                 name.c_str());
  std::unique_ptr<WeightStream> result(new WeightStream(name, archive, limit, std::move(others)));
  ITX_RETURN_IF_ERROR(result->start(tensors));
  stream = std::move(result);
  return Status::success();
}

Status WeightStream::start(const std::vector<const ArchiveTensor *> &entries) {
  ITX_RETURN_IF_ERROR(file_.open(*archive_.mapping(), archive_.name()));
  rangeBytes_ = pageCeil(archive_.size());
  void *range = mmap(nullptr, rangeBytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    return error(ITX_OUT_OF_MEMORY, "%s: no addresses for %llu bytes of weights: %s", name_.c_str(),
                 (unsigned long long)rangeBytes_, std::strerror(errno));
  range_ = static_cast<uint8_t *>(range);
  // Huge pages would be split whenever a part of one is dropped.
  madvise(range_, rangeBytes_, MADV_NOHUGEPAGE);
  madvise(range_, rangeBytes_, MADV_DONTFORK);
  for (const ArchiveTensor *entry : entries) {
    Tensor tensor;
    tensor.mapped = static_cast<const uint8_t *>(entry->data);
    setBytes(tensor, entry->begin, entry->end);
    firstOrder_.push_back(uint32_t(tensors_.size()));
    sizes_.push_back(tensor.size());
    tensors_.push_back(std::move(tensor));
  }
  byAddress_ = firstOrder_;
  std::sort(byAddress_.begin(), byAddress_.end(),
            [&](uint32_t left, uint32_t right) { return tensors_[left].mapped < tensors_[right].mapped; });
  {
    std::lock_guard lock(mutex_);
    ITX_RETURN_IF_ERROR(divide());
  }
  try {
    for (uint32_t i = 0; i < readerCount; ++i)
      threads_.emplace_back([this] { readAll(); });
  } catch (const std::system_error &failure) {
    return error(ITX_OUT_OF_MEMORY, "%s: cannot start a thread that reads weights: %s", name_.c_str(), failure.what());
  }
  std::lock_guard lock(streams().mutex);
  streams().all.push_back(this);
  streamProcess = process_;
  streamCount = uint32_t(streams().all.size());
  return Status::success();
}

WeightStream::~WeightStream() {
  if (getpid() != process_) {
    for (std::thread &thread : threads_)
      thread.detach(); // it is the other process's
    return;
  }
  {
    std::lock_guard lock(streams().mutex);
    auto &all = streams().all;
    all.erase(std::remove(all.begin(), all.end(), this), all.end());
    streamCount = uint32_t(all.size());
  }
  {
    std::lock_guard lock(mutex_);
    isStopping_ = true;
  }
  work_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
  if (range_)
    munmap(range_, rangeBytes_);
}

// ---- Memory -----------------------------------------------------------------------------------------------

Status WeightStream::divide() {
  uint64_t others = othersInMemory_(resident_) + otherBytes + promised_;
  uint64_t available = limit_.bytes - std::min(limit_.bytes, others);
  uint64_t least = smallestMemory(sizes_) + expertsOfLaunch_;
  if (!limit_.isPromise)
    available = std::max(available, least);
  // What was promised is not given away before the call is over; small changes are not worth new reads.
  bool isEnough = divided_ != 0 && available >= divided_;
  if (isEnough && (promised_ != 0 || available - divided_ < divided_ / 32))
    return Status::success();
  std::optional<MemorySplit> split;
  if (available >= expertsOfLaunch_)
    split = splitMemory(sizes_, available - expertsOfLaunch_);
  if (!split)
    return error(ITX_OUT_OF_MEMORY,
                 "%s: %llu bytes of memory are too few: %llu are used by all but its weights, and those need at least "
                 "%llu to be read while they are used: allow at least %llu, or take fewer tokens at once or a smaller "
                 "cache",
                 name_.c_str(), (unsigned long long)limit_.bytes, (unsigned long long)others, (unsigned long long)least,
                 (unsigned long long)(others + least));
  divided_ = available;
  window_ = split->window;
  expertRoom_ = available - std::min(available, window_);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    Tensor &tensor = tensors_[i];
    tensor.kept = std::min(tensor.size(), pageCeil(split->kept[i]));
    expertRoom_ -= std::min(expertRoom_, tensor.kept);
    bool isAhead = tensor.reserved != 0 || tensor.users != 0 || tensor.reads != 0;
    reserved_ -= tensor.reserved;
    tensor.reserved = isAhead ? tensor.size() - tensor.kept : 0;
    reserved_ += tensor.reserved;
    if (!isAhead)
      drop(tensor);
  }
  // What was read ahead for a larger window goes; what is being read goes once it has been (readAll).
  for (size_t i = sizes_.size(); i-- > 0 && reserved_ > window_;)
    if (Tensor &tensor = tensors_[i]; tensor.reserved != 0 && tensor.users == 0 && tensor.reads == 0)
      drop(tensor);
  expertRoom_ = std::max(expertRoom_, expertsOfLaunch_);
  evictExperts(0);
  return Status::success();
}

void WeightStream::drop(Tensor &tensor) {
  reserved_ -= tensor.reserved;
  tensor.reserved = 0;
  if (tensor.loaded <= tensor.kept)
    return;
  madvise(range_ + tensor.begin + tensor.kept, tensor.size() - tensor.kept, MADV_DONTNEED);
  resident_ -= tensor.loaded - tensor.kept;
  tensor.loaded = tensor.kept;
}

void WeightStream::makeRoom(uint64_t bytes) {
  if (getpid() != process_)
    return;
  std::lock_guard lock(mutex_);
  promised_ += bytes;
  if (Status status = divide(); !status.ok())
    status_ = std::move(status);
}

uint64_t WeightStream::spareBytes() const {
  std::lock_guard lock(mutex_);
  uint64_t needed = othersInMemory_(resident_) + otherBytes + promised_ + smallestMemory(sizes_) + expertsOfLaunch_;
  return limit_.bytes - std::min(limit_.bytes, needed);
}

void WeightStream::evict(uint64_t bytes, const WeightPass &pass) {
  const std::vector<uint32_t> &order = orderOf(pass.function);
  while (reserved_ + bytes > window_) {
    Tensor *last = nullptr;
    size_t lastDistance = 0;
    for (uint32_t i = 0; i < sizes_.size(); ++i) {
      Tensor &tensor = tensors_[i];
      if (tensor.reserved == 0 || tensor.users != 0 || tensor.reads != 0)
        continue;
      auto found = std::find(order.begin() + ptrdiff_t(std::min(pass.position, order.size())), order.end(), i);
      size_t distance = size_t(found - order.begin()) + 1;
      if (distance > lastDistance) {
        last = &tensor;
        lastDistance = distance;
      }
    }
    if (!last)
      return; // the launch needs its weights all the same
    drop(*last);
  }
}

// ---- Experts ----------------------------------------------------------------------------------------------

void WeightStream::evictExperts(uint64_t bytes) {
  for (auto place = recent_.end(); place != recent_.begin() && expertBytes_ + bytes > expertRoom_;) {
    Tensor &expert = tensors_[*--place];
    if (expert.users != 0 || expert.reads != 0)
      continue;
    expertBytes_ -= expert.size();
    expert.isListed = false;
    place = recent_.erase(place);
    drop(expert);
  }
}

/// Returns a signed integer of so many bytes.
static int64_t integerAt(const void *data, uint32_t bytes, uint64_t index) {
  switch (bytes) {
  case 1:
    return static_cast<const int8_t *>(data)[index];
  case 2:
    return static_cast<const int16_t *>(data)[index];
  case 4:
    return static_cast<const int32_t *>(data)[index];
  default:
    return static_cast<const int64_t *>(data)[index];
  }
}

uint64_t WeightStream::addExperts(const LaunchOperands &launch, uint32_t operand, WeightUse &use) {
  const OperandInfo &weight = (*launch.infos)[operand], &indices = (*launch.infos)[weight.indices];
  auto data = static_cast<const uint8_t *>(launch.buffers[operand]);
  auto [known, isNew] = experts_.try_emplace(data, uint32_t(tensors_.size()));
  uint64_t bytes = weight.bytes / weight.parts, first = uint64_t(data - archive_.data());
  for (uint32_t i = 0; isNew && i < weight.parts; ++i) {
    Tensor expert;
    expert.mapped = data + i * bytes;
    setBytes(expert, first + i * bytes, first + (i + 1) * bytes);
    expert.isExpert = true;
    tensors_.push_back(std::move(expert));
  }
  uint64_t count = indices.bytesIn(launch.sizes, launch.sizeCount).value_or(0) / weight.indexBytes, missing = 0;
  std::vector<bool> isUsed(weight.parts, false);
  for (uint64_t i = 0; i < count; ++i) {
    int64_t index = integerAt(launch.buffers[weight.indices], weight.indexBytes, i);
    if (index < 0 || index >= int64_t(weight.parts) || isUsed[size_t(index)])
      continue; // the kernel gives NaN for an index that no expert has, and nothing for -1
    isUsed[size_t(index)] = true;
    uint32_t number = known->second + uint32_t(index);
    use.tensors.push_back(number);
    if (!tensors_[number].isThere() && tensors_[number].reads == 0)
      missing += tensors_[number].size();
  }
  return missing;
}

Status WeightStream::requestExperts(uint64_t missing, const WeightUse &use) {
  uint64_t all = 0;
  for (uint32_t number : use.tensors)
    all += tensors_[number].isExpert ? tensors_[number].size() : 0;
  if (all > expertsOfLaunch_) {
    uint64_t before = std::exchange(expertsOfLaunch_, all);
    divided_ = all > expertRoom_ ? 0 : divided_; // anew
    if (Status status = divided_ == 0 ? divide() : Status::success(); !status.ok()) {
      expertsOfLaunch_ = before; // smaller launches are possible all the same
      return status;
    }
  }
  evictExperts(missing);
  for (uint32_t number : use.tensors) {
    Tensor &expert = tensors_[number];
    if (!expert.isExpert)
      continue;
    if (expert.isListed) {
      recent_.splice(recent_.begin(), recent_, expert.place);
    } else {
      expertBytes_ += expert.size();
      expert.isListed = true;
      expert.place = recent_.insert(recent_.begin(), number);
    }
    if (!expert.isThere() && expert.reads == 0)
      request(number, true);
  }
  return Status::success();
}

// ---- Reading ----------------------------------------------------------------------------------------------

void WeightStream::request(uint32_t index, bool isUrgent) {
  Tensor &tensor = tensors_[index];
  reserved_ -= tensor.reserved;
  tensor.reserved = tensor.isExpert ? 0 : tensor.size() - tensor.kept;
  reserved_ += tensor.reserved;
  uint64_t from = tensor.begin + tensor.loaded;
  auto count = uint32_t((tensor.end - from + readBytes - 1) / readBytes);
  tensor.reads = count;
  tensor.arrived = 0;
  tensor.status = Status::success(); // of an earlier read
  auto add = [&](uint64_t begin, uint64_t end) {
    isUrgent ? reads_.push_front({index, begin, end}) : reads_.push_back({index, begin, end});
  };
  if (!tensor.hasEdges) {
    ++tensor.reads;
    add(tensor.begin, tensor.begin);
  }
  for (uint32_t i = 0; i < count; ++i) {
    // Urgent reads come before others, the first of them first.
    uint64_t begin = from + (isUrgent ? count - 1 - i : i) * readBytes;
    add(begin, std::min(begin + readBytes, tensor.end));
  }
  work_.notify_all();
}

void WeightStream::readAll() {
  std::unique_lock lock(mutex_);
  const uint64_t offset = archive_.mapping()->offset();
  for (;;) {
    work_.wait(lock, [&] { return isStopping_ || !reads_.empty(); });
    if (isStopping_)
      return;
    Read read = reads_.front();
    reads_.pop_front();
    bool isEdges = read.begin == read.end;
    uint64_t first = tensors_[read.tensor].first, last = tensors_[read.tensor].last;
    lock.unlock();
    Status status =
        isEdges ? readEdges(first, last) : file_.read(offset + read.begin, read.end - read.begin, range_ + read.begin);
    lock.lock();
    Tensor &tensor = tensors_[read.tensor];
    tensor.hasEdges |= isEdges && status.ok();
    if (!status.ok())
      tensor.status = std::move(status);
    resident_ += read.end - read.begin;
    readBytes_ += read.end - read.begin;
    tensor.arrived += read.end - read.begin;
    if (--tensor.reads != 0)
      continue;
    tensor.loaded += tensor.arrived;
    tensor.arrived = 0;
    if (!tensor.status.ok()) {
      uint64_t kept = std::exchange(tensor.kept, 0);
      drop(tensor);
      tensor.kept = kept;
      if (tensor.isListed) {
        expertBytes_ -= tensor.size();
        tensor.isListed = false;
        recent_.erase(tensor.place);
      }
    }
    if (tensor.reserved != 0 && tensor.users == 0 && reserved_ > window_)
      drop(tensor); // the window has become smaller
    ready_.notify_all();
  }
}

Status WeightStream::readEdges(uint64_t first, uint64_t last) const {
  alignas(filePageBytes) uint8_t page[filePageBytes];
  // Only the tensor's own bytes are written: others of these pages may be in use.
  auto copy = [&](uint64_t from, uint64_t to) -> Status {
    if (from >= to)
      return Status::success();
    uint64_t at = pageFloor(from);
    ITX_RETURN_IF_ERROR(file_.read(archive_.mapping()->offset() + at, filePageBytes, page));
    std::memcpy(range_ + from, page + (from - at), to - from);
    return Status::success();
  };
  uint64_t begin = pageCeil(first);
  ITX_RETURN_IF_ERROR(copy(first, std::min(begin, last)));
  return copy(std::max(begin, pageFloor(last)), last);
}

const std::vector<uint32_t> &WeightStream::orderOf(size_t function) const {
  return function < orders_.size() && !orders_[function].empty() ? orders_[function] : firstOrder_;
}

void WeightStream::readAhead(const WeightPass &pass) {
  const std::vector<uint32_t> &order = orderOf(pass.function);
  for (size_t i = 0; i < order.size(); ++i) {
    uint32_t index = order[(pass.position + i) % order.size()];
    Tensor &tensor = tensors_[index];
    if (tensor.isThere() || tensor.reads != 0)
      continue;
    if (reserved_ + tensor.size() - tensor.kept > window_)
      return;
    request(index, false);
  }
}

// ---- Calls ------------------------------------------------------------------------------------------------

Status WeightStream::begin(size_t function, WeightPass &pass) {
  pass.function = function;
  pass.used.clear();
  pass.position = 0;
  if (getpid() != process_)
    return Status::success();
  std::lock_guard lock(mutex_);
  status_ = Status::success();
  promised_ = 0;
  ITX_RETURN_IF_ERROR(divide());
  readAhead(pass);
  return Status::success();
}

void WeightStream::end(const WeightPass &pass, bool isGood) {
  if (getpid() != process_ || !isGood)
    return;
  std::lock_guard lock(mutex_);
  orders_.resize(std::max(orders_.size(), pass.function + 1));
  orders_[pass.function] = pass.used;
}

int64_t WeightStream::find(const void *address) const {
  auto data = static_cast<const uint8_t *>(address);
  if (data < archive_.data() || data >= archive_.data() + archive_.size())
    return -1;
  auto after = std::upper_bound(byAddress_.begin(), byAddress_.end(), data,
                                [&](const uint8_t *wanted, uint32_t index) { return wanted < tensors_[index].mapped; });
  if (after == byAddress_.begin())
    return -1;
  uint32_t index = *(after - 1);
  return uint64_t(data - archive_.data()) < tensors_[index].last ? int64_t(index) : -1;
}

Status WeightStream::acquire(WeightPass &pass, const LaunchOperands &launch, WeightUse &use) {
  use.tensors.clear();
  use.buffers.assign(launch.buffers, launch.buffers + launch.bufferCount);
  if (getpid() != process_)
    return Status::success();
  std::unique_lock lock(mutex_);
  uint64_t missing = 0;
  for (uint32_t i = 0; i < launch.bufferCount; ++i) {
    auto data = static_cast<const uint8_t *>(launch.buffers[i]);
    if (data < archive_.data() || data >= archive_.data() + archive_.size())
      continue;
    const OperandInfo *info = launch.infos && i < launch.infos->size() ? &(*launch.infos)[i] : nullptr;
    bool isGathered = info && info->isGathered;
    int64_t index = isGathered ? -1 : find(data);
    if (isGathered && info->parts != 0 && info->bytes > archive_.size() - uint64_t(data - archive_.data()))
      return error(ITX_CORRUPT,
                   "%s: its manifest says that operand %u of a kernel has %llu bytes, which go beyond the "
                   "weights",
                   name_.c_str(), i, (unsigned long long)info->bytes);
    if (isGathered && info->parts != 0)
      missing += addExperts(launch, i, use);
    else if (index >= 0)
      use.tensors.push_back(uint32_t(index));
    else
      continue;
    use.buffers[i] = range_ + (data - archive_.data());
  }
  if (use.tensors.empty())
    return Status::success();
  if (Status status = std::exchange(status_, Status::success()); !status.ok()) {
    use.tensors.clear();
    return status;
  }
  for (uint32_t index : use.tensors)
    ++tensors_[index].users; // so that nothing evicts them
  if (Status status = requestExperts(missing, use); !status.ok()) {
    for (uint32_t index : use.tensors)
      --tensors_[index].users;
    use.tensors.clear();
    return status;
  }
  const std::vector<uint32_t> &order = orderOf(pass.function);
  for (uint32_t index : use.tensors) {
    if (tensors_[index].isExpert)
      continue;
    pass.used.push_back(index);
    auto from = order.begin() + ptrdiff_t(std::min(pass.position, order.size()));
    if (auto found = std::find(from, order.end(), index); found != order.end())
      pass.position = size_t(found - order.begin()) + 1;
  }
  for (uint32_t index : use.tensors) {
    Tensor &tensor = tensors_[index];
    if (tensor.isThere() || tensor.reads != 0 || tensor.isExpert)
      continue;
    evict(tensor.size() - tensor.kept, pass);
    request(index, true);
  }
  readAhead(pass);
  auto areThere = [&] {
    return std::all_of(use.tensors.begin(), use.tensors.end(), [&](uint32_t index) {
      return tensors_[index].isThere() || (!tensors_[index].status.ok() && tensors_[index].reads == 0);
    });
  };
  if (!areThere()) {
    auto from = std::chrono::steady_clock::now();
    ready_.wait(lock, areThere);
    waitedNs_ += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - from).count();
  }
  for (uint32_t index : use.tensors)
    if (!tensors_[index].status.ok())
      return tensors_[index].status;
  return Status::success();
}

void WeightStream::release(WeightUse &use) {
  if (use.tensors.empty() || getpid() != process_)
    return;
  std::lock_guard lock(mutex_);
  for (uint32_t index : use.tensors) {
    Tensor &tensor = tensors_[index];
    if (--tensor.users != 0)
      continue;
    tensor.status = Status::success(); // the next launch tries again
    if (tensor.reads == 0 && !tensor.isExpert)
      drop(tensor);
  }
  use.tensors.clear();
  if (expertBytes_ > expertRoom_)
    evictExperts(0);
}

std::string WeightStream::figures() const {
  std::lock_guard lock(mutex_);
  uint64_t all = 0, kept = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    all += sizes_[i];
    kept += tensors_[i].kept;
  }
  return format("{\"limit_bytes\":%llu,\"weight_bytes\":%llu,\"kept_bytes\":%llu,\"expert_bytes\":%llu,"
                "\"read_bytes\":%llu,\"wait_seconds\":%.6f,\"direct\":%s}",
                (unsigned long long)limit_.bytes, (unsigned long long)all, (unsigned long long)kept,
                (unsigned long long)expertBytes_, (unsigned long long)readBytes_, double(waitedNs_) * 1e-9,
                file_.isDirect() ? "true" : "false");
}

} // namespace intarsia::runtime
