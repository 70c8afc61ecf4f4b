//===- HandOver.cpp - A sequence's cache on its way to another process --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/HandOver.h"

#include "lib/Formats/Dtype.h"
#include "lib/Formats/FloatFormats.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace intarsia::runtime {

// ---- Layouts ----------------------------------------------------------------------------------------------

Status describeState(const StateTensor &state, HandOverState &description) {
  description = {};
  if (state.name.size() >= sizeof(description.name) || state.shape.size() > std::size(description.shape))
    return error(ITX_UNSUPPORTED, "the state '%s' has a name or a rank that is too long to be handed over",
                 state.name.c_str());
  std::memcpy(description.name, state.name.data(), state.name.size());
  description.element = uint8_t(state.element);
  description.paged = state.paged;
  description.transposed = state.transposed;
  description.dtype = uint8_t(state.dtype);
  description.rank = uint32_t(state.shape.size());
  for (size_t i = 0; i < std::size(description.shape); ++i)
    description.shape[i] = i < state.shape.size() ? state.shape[i] : 1;
  description.unitBytes = state.unitBytes;
  description.firstHead = state.firstHead;
  description.allHeads = state.allHeads ? state.allHeads : description.shape[0];
  return Status::success();
}

static bool isFloat(const HandOverState &state) {
  return state.element == uint8_t(CacheElement::F32) || state.element == uint8_t(CacheElement::F16) ||
         state.element == uint8_t(CacheElement::BF16);
}

/// Elements whose pages can be cut anew: each stands for itself.
static bool standsAlone(const HandOverState &state) {
  return isFloat(state) || state.element == uint8_t(CacheElement::F8);
}

static uint64_t bytesOf(CacheElement element) {
  return element == CacheElement::F32 ? 4 : element == CacheElement::F8 ? 1 : 2;
}

static int64_t headsOf(const HandOverState &state) { return state.shape[0]; }
static int64_t featuresOf(const HandOverState &state) { return state.shape[state.transposed ? 1 : 2]; }
static int64_t slotsOf(const HandOverState &state) { return state.shape[state.transposed ? 2 : 1]; }

/// True if a unit is a page of elements of their size: converting it reads no byte behind it. The shape's product by
/// the size of the type is known not to overflow.
static bool isPage(const HandOverState &state, uint64_t pageTokens) {
  return state.rank == 3 && state.shape[3] == 1 && uint64_t(slotsOf(state)) == pageTokens &&
         uint64_t(headsOf(state) * featuresOf(state)) * pageTokens * bytesOf(CacheElement(state.element)) ==
             state.unitBytes;
}

/// True if heads of two states have the same bytes.
static bool haveSameHeads(const HandOverState &one, const HandOverState &other) {
  return one.element == other.element && one.paged == other.paged && one.transposed == other.transposed &&
         one.dtype == other.dtype && one.rank == other.rank &&
         std::equal(std::begin(one.shape) + 1, std::end(one.shape), std::begin(other.shape) + 1);
}

static uint64_t headBytes(const HandOverState &state) { return state.unitBytes / uint64_t(headsOf(state)); }

std::string whyNotConverted(const HandOverState &from, uint64_t fromPageTokens, const HandOverState &to,
                            uint64_t toPageTokens) {
  if (haveSameHeads(from, to) && fromPageTokens == toPageTokens && from.allHeads == to.allHeads)
    return "";
  if (from.paged != to.paged || !standsAlone(from) || !standsAlone(to))
    return format(
        "'%s' has %s in pages of %llu tokens, here %s in pages of %llu: quantized caches are handed over "
        "between artifacts of equal caches only; compile both with --kv=f16, or with the same --kv for devices "
        "with equal pages",
        from.name, nameOf(CacheElement(from.element)), (unsigned long long)fromPageTokens,
        nameOf(CacheElement(to.element)), (unsigned long long)toPageTokens);
  if (isFloat(from) != isFloat(to))
    return format("'%s' has elements of %s, here of %s: compile both with the same --kv", from.name,
                  nameOf(CacheElement(from.element)), nameOf(CacheElement(to.element)));
  if (from.rank != 3 || to.rank != 3 || from.allHeads != to.allHeads || featuresOf(from) != featuresOf(to))
    return format("'%s' has %lld heads of %lld features, here %lld of %lld", from.name, (long long)from.allHeads,
                  (long long)featuresOf(from), (long long)to.allHeads, (long long)featuresOf(to));
  return "";
}

static float readElement(CacheElement element, const uint8_t *at) {
  uint16_t half = 0;
  float whole = 0;
  if (element == CacheElement::F32) {
    std::memcpy(&whole, at, sizeof(whole));
    return whole;
  }
  std::memcpy(&half, at, sizeof(half));
  return element == CacheElement::F16 ? decodeF16(half) : decodeBf16(half);
}

static void writeElement(CacheElement element, float value, uint8_t *at) {
  if (element == CacheElement::F32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  uint16_t half = element == CacheElement::F16 ? encodeF16(value) : encodeBf16(value);
  std::memcpy(at, &half, sizeof(half));
}

Status findHeads(const std::vector<HandOver> &parts, const HandOverState &to, uint64_t toPageTokens, const char *where,
                 std::vector<HeadSource> &heads) {
  bool isThere = false;
  heads.resize(size_t(headsOf(to)));
  for (const HandOver &part : parts) {
    const uint8_t *units = part.payload.data();
    for (const HandOverState &from : part.states) {
      const uint8_t *own = units;
      units += from.unitBytes * part.units(from);
      if (std::strcmp(from.name, to.name) != 0)
        continue;
      isThere = true;
      if (std::string why = whyNotConverted(from, part.header.pageTokens, to, toPageTokens); !why.empty())
        return error(ITX_INVALID_ARGUMENT, "%s: the sequence that the other process sends cannot be taken over: %s",
                     where, why.c_str());
      for (int64_t head = 0; head < headsOf(from); ++head)
        if (int64_t place = from.firstHead + head - to.firstHead; place >= 0 && place < headsOf(to))
          heads[size_t(place)] = {&part, &from, own, head};
    }
  }
  if (!isThere)
    return error(ITX_INVALID_ARGUMENT,
                 "%s: the sequence that the other process sends has no '%s': does it run a part of the model, or keep "
                 "its cache in another format (--kv)?",
                 where, to.name);
  for (size_t head = 0; head < heads.size(); ++head)
    if (!heads[head].handOver)
      return error(ITX_INVALID_ARGUMENT,
                   "%s: head %lld of %lld of '%s' is in none of the %zu parts of the sequence that were sent: receive "
                   "from all ranks that share the layer",
                   where, (long long)(to.firstHead + int64_t(head)), (long long)to.allHeads, to.name, parts.size());
  return Status::success();
}

/// Gives `copy(from, to)` the offsets of each element of a head in a page.
template <typename Copy>
static void forEachElement(const HeadSource &source, const HandOverState &to, uint64_t toHead, uint64_t toPageTokens,
                           uint64_t page, Copy copy) {
  const HandOverState &from = *source.state;
  uint64_t fromPage = source.handOver->header.pageTokens, features = uint64_t(featuresOf(to));
  uint64_t first = page * toPageTokens, last = std::min(first + toPageTokens, source.handOver->header.tokens);
  uint64_t fromUnit = uint64_t(headsOf(from)) * features * fromPage;
  uint64_t fromFeature = from.transposed ? fromPage : 1, fromSlot = from.transposed ? 1 : features;
  uint64_t toFeature = to.transposed ? toPageTokens : 1, toSlot = to.transposed ? 1 : features;
  for (uint64_t token = first; token < last; ++token) {
    uint64_t at = token / fromPage * fromUnit + uint64_t(source.head) * features * fromPage +
                  token % fromPage * fromSlot;
    uint64_t target = toHead * features * toPageTokens + (token - first) * toSlot;
    for (uint64_t feature = 0; feature < features; ++feature)
      copy(at + feature * fromFeature, target + feature * toFeature);
  }
}

/// Makes one head of a unit.
static void convertHead(const HeadSource &source, const HandOverState &to, uint64_t toHead, uint64_t toPageTokens,
                        uint64_t page, uint8_t *unit) {
  const HandOverState &from = *source.state;
  const uint8_t *units = source.units;
  if (haveSameHeads(from, to) && source.handOver->header.pageTokens == toPageTokens) {
    std::memcpy(unit + toHead * headBytes(to), units + page * from.unitBytes + uint64_t(source.head) * headBytes(from),
                headBytes(to));
    return;
  }
  CacheElement element = CacheElement(from.element), target = CacheElement(to.element);
  auto move = [&]<typename Bits>(Bits) {
    forEachElement(source, to, toHead, toPageTokens, page, [&](uint64_t at, uint64_t where) {
      std::memcpy(unit + where * sizeof(Bits), units + at * sizeof(Bits), sizeof(Bits));
    });
  };
  if (element == target && element == CacheElement::F8)
    return move(uint8_t());
  if (element == target && element == CacheElement::F32)
    return move(uint32_t());
  if (element == target)
    return move(uint16_t());
  forEachElement(source, to, toHead, toPageTokens, page, [&](uint64_t at, uint64_t where) {
    writeElement(target, readElement(element, units + at * bytesOf(element)), unit + where * bytesOf(target));
  });
}

void convertUnit(const std::vector<HeadSource> &heads, const HandOverState &to, uint64_t toPageTokens, uint64_t page,
                 uint8_t *unit) {
  std::memset(unit, 0, to.unitBytes);
  for (size_t head = 0; head < heads.size(); ++head)
    convertHead(heads[head], to, head, toPageTokens, page, unit);
}

// ---- The connection ---------------------------------------------------------------------------------------

namespace {
/// A connected socket, with a limit for silence.
class Connection {
public:
  Connection(int socket, double seconds, const std::string &name)
      : socket_(socket), milliseconds_(int(std::clamp(seconds, 0.0, 1e6) * 1e3)), name_(name) {}

  /// Sends bytes and adds them to the hash.
  Status send(const void *data, uint64_t bytes) {
    hasher_.update(data, bytes);
    return sendPlain(data, bytes);
  }

  Status sendPlain(const void *data, uint64_t bytes) {
    const uint8_t *at = static_cast<const uint8_t *>(data);
    while (bytes != 0) {
      ITX_RETURN_IF_ERROR(wait(POLLOUT, "takes nothing"));
      ssize_t sent = ::send(socket_, at, std::min<uint64_t>(bytes, uint64_t(1) << 30), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && (errno == EINTR || errno == EAGAIN))
        continue;
      if (sent < 0)
        return ended(errno);
      at += sent;
      bytes -= uint64_t(sent);
      done_ += uint64_t(sent);
    }
    return Status::success();
  }

  Status receive(void *data, uint64_t bytes) {
    ITX_RETURN_IF_ERROR(receivePlain(data, bytes));
    hasher_.update(data, bytes);
    return Status::success();
  }

  Status receivePlain(void *data, uint64_t bytes) {
    uint8_t *at = static_cast<uint8_t *>(data);
    while (bytes != 0) {
      ITX_RETURN_IF_ERROR(wait(POLLIN, "sends nothing"));
      ssize_t got = ::recv(socket_, at, std::min<uint64_t>(bytes, uint64_t(1) << 30), MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN))
        continue;
      if (got <= 0)
        return ended(got < 0 ? errno : 0);
      at += got;
      bytes -= uint64_t(got);
      done_ += uint64_t(got);
    }
    return Status::success();
  }

  Hash128 hash() const { return hasher_.finish(); }

private:
  Status wait(short events, const char *silence) {
    pollfd one = {socket_, events, 0};
    int ready = 0;
    do
      ready = ::poll(&one, 1, milliseconds_);
    while (ready < 0 && errno == EINTR);
    if (ready < 0 || (one.revents & POLLNVAL))
      return error(ITX_INVALID_ARGUMENT, "%s: %d is no socket that a sequence could be handed over with", name_.c_str(),
                   socket_);
    if (ready == 0)
      return error(ITX_IO_ERROR, "%s: the other process %s for %g s, after %llu bytes of a sequence", name_.c_str(),
                   silence, milliseconds_ * 1e-3, (unsigned long long)done_);
    return Status::success();
  }

  Status ended(int code) const {
    return error(ITX_IO_ERROR, "%s: the connection ended after %llu bytes of a sequence%s%s", name_.c_str(),
                 (unsigned long long)done_, code ? ": " : "", code ? std::strerror(code) : "");
  }

  int socket_;
  int milliseconds_;
  const std::string &name_;
  Hasher hasher_;
  uint64_t done_ = 0;
};

constexpr uint8_t imported = 1;
constexpr uint32_t mostStates = 1 << 16;
constexpr int64_t mostHeads = int64_t(1) << 32; // a state that is no cache has any first size
constexpr uint64_t mostTokens = uint64_t(1) << 32;
} // namespace

Status sendHandOver(int socket, double timeoutSeconds, const std::string &name, const HandOver &handOver) {
  Connection connection(socket, timeoutSeconds, name);
  ITX_RETURN_IF_ERROR(connection.send(&handOver.header, sizeof(handOver.header)));
  ITX_RETURN_IF_ERROR(connection.send(handOver.states.data(), handOver.states.size() * sizeof(HandOverState)));
  ITX_RETURN_IF_ERROR(connection.send(handOver.tokens.data(), handOver.tokens.size() * sizeof(int64_t)));
  ITX_RETURN_IF_ERROR(connection.send(handOver.payload.data(), handOver.payload.size()));
  Hash128 hash = connection.hash();
  ITX_RETURN_IF_ERROR(connection.sendPlain(hash.data(), hash.size()));
  uint8_t answer = 0;
  Status status = connection.receivePlain(&answer, sizeof(answer));
  if (!status.ok())
    return error(status.code(), "%s: the other process did not import the sequence: %s", name.c_str(),
                 status.message().c_str());
  if (answer != imported)
    return error(ITX_CORRUPT, "%s: the other process gave the answer %d to a sequence, %d means that it has it",
                 name.c_str(), answer, imported);
  return Status::success();
}

Status receiveHandOver(int socket, double timeoutSeconds, const std::string &name, uint64_t mostBytes,
                       HandOver &handOver) {
  const char *where = name.c_str();
  Connection connection(socket, timeoutSeconds, name);
  HandOver result;
  HandOverHeader &header = result.header;
  ITX_RETURN_IF_ERROR(connection.receive(&header, sizeof(header)));
  if (std::memcmp(header.magic, handOverMagic, sizeof(handOverMagic)) != 0)
    return error(ITX_CORRUPT, "%s: what the other process sends is no sequence", where);
  if (header.version != handOverVersion)
    return error(
        ITX_VERSION_MISMATCH,
        "%s: the other process hands sequences over in version %u, this runtime in version %u: use one version "
        "of Intarsia for both",
        where, header.version, handOverVersion);
  Status damaged =
      error(ITX_CORRUPT, "%s: the sizes of the sequence that the other process sends contradict each other", where);
  if (header.states == 0 || header.states > mostStates || header.tokens > mostTokens || header.pageTokens == 0 ||
      header.pageTokens > mostTokens)
    return damaged;
  if (header.payloadBytes > mostBytes)
    return error(ITX_CACHE_FULL, "%s: the other process sends a sequence of %llu bytes, this cache has %llu", where,
                 (unsigned long long)header.payloadBytes, (unsigned long long)mostBytes);
  result.states.resize(header.states);
  ITX_RETURN_IF_ERROR(connection.receive(result.states.data(), result.states.size() * sizeof(HandOverState)));
  uint64_t needed = 0;
  for (HandOverState &state : result.states) {
    uint64_t bytes = 0;
    bool isKnown = state.name[sizeof(state.name) - 1] == 0 && state.paged <= 1 && state.transposed <= 1 &&
                   state.element <= uint8_t(CacheElement::Other) && state.rank <= std::size(state.shape) &&
                   state.firstHead >= 0 && state.allHeads <= mostHeads && state.shape[0] >= 1 &&
                   state.shape[0] <= mostHeads && state.firstHead <= state.allHeads - state.shape[0];
    if (!isKnown || !tensorBytes(itx_dtype(state.dtype), state.shape, std::size(state.shape), bytes).ok() ||
        bytes != state.unitBytes || __builtin_mul_overflow(bytes, result.units(state), &bytes) ||
        __builtin_add_overflow(needed, bytes, &needed))
      return damaged;
    bool hasPages = state.element != uint8_t(CacheElement::Other) && state.paged;
    if (hasPages && standsAlone(state) && !isPage(state, header.pageTokens))
      return damaged;
  }
  if (needed != header.payloadBytes)
    return damaged;
  result.tokens.resize(header.tokens);
  ITX_RETURN_IF_ERROR(connection.receive(result.tokens.data(), result.tokens.size() * sizeof(int64_t)));
  result.payload.resize(header.payloadBytes);
  ITX_RETURN_IF_ERROR(connection.receive(result.payload.data(), result.payload.size()));
  Hash128 expected = connection.hash(), sent = {};
  ITX_RETURN_IF_ERROR(connection.receivePlain(sent.data(), sent.size()));
  if (sent != expected)
    return error(ITX_CORRUPT, "%s: the sequence that the other process sent does not have the hash that it says",
                 where);
  handOver = std::move(result);
  return Status::success();
}

Status acknowledgeHandOver(int socket, double timeoutSeconds, const std::string &name) {
  return Connection(socket, timeoutSeconds, name).sendPlain(&imported, sizeof(imported));
}

} // namespace intarsia::runtime
