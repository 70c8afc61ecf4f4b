//===- HandOver.cpp - A sequence's cache on its way to another process --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/HandOver.h"

#include "lib/Formats/Dtype.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Runtime/Cache/QuantizedGroups.h"

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

/// Bits of a quantized element; 0 for others.
static int quantizedBits(const HandOverState &state) {
  return state.element == uint8_t(CacheElement::U8) ? 8 : state.element == uint8_t(CacheElement::U4) ? 4 : 0;
}

/// Elements whose pages can be cut anew: each stands for itself.
static bool standsAlone(const HandOverState &state) {
  return isFloat(state) || state.element == uint8_t(CacheElement::F8);
}

static uint64_t bytesOf(CacheElement element) {
  return element == CacheElement::F32 ? 4 : element == CacheElement::F8 ? 1 : 2;
}

static int64_t headsOf(const HandOverState &state) { return state.shape[0]; }
/// Elements of a row of a page. Of 4 bits a byte has two.
static int64_t columnsOf(const HandOverState &state) {
  return state.shape[2] * (state.element == uint8_t(CacheElement::U4) ? 2 : 1);
}
static int64_t featuresOf(const HandOverState &state) { return state.transposed ? state.shape[1] : columnsOf(state); }
static int64_t slotsOf(const HandOverState &state) { return state.transposed ? columnsOf(state) : state.shape[1]; }

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
  auto isConverted = [](const HandOverState &state) { return isFloat(state) || quantizedBits(state) != 0; };
  bool areBytes = from.element == uint8_t(CacheElement::F8) && to.element == uint8_t(CacheElement::F8);
  if (from.paged != to.paged || !(areBytes || (isConverted(from) && isConverted(to))))
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

/// Returns the units of a state of a part; null if it has none of this name, or with another number of heads.
static const uint8_t *unitsOf(const HandOver &part, const std::string &name, const HandOverState **found) {
  const uint8_t *units = part.payload.data();
  for (const HandOverState &state : part.states) {
    if (name == state.name) {
      *found = &state;
      return units;
    }
    units += state.unitBytes * part.units(state);
  }
  *found = nullptr;
  return nullptr;
}

static bool hasEnding(const std::string &text, const std::string &ending) {
  return text.size() > ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

/// Splits a name: "cache.0.key_tail" belongs to "cache.0.keys". Returns what the state is.
static Conversion::Kind kindOf(const std::string &name, std::string &cache) {
  for (auto [ending, kind] : {std::pair("_parameters", Conversion::Parameters), std::pair("_tail", Conversion::Tail)})
    if (hasEnding(name, ending)) {
      cache = name.substr(0, name.size() - std::strlen(ending)) + "s";
      return kind;
    }
  cache = name;
  return Conversion::Elements;
}

/// Finds parameters and tail of a quantized cache that was sent. They have sizes that follow from the cache's, which
/// reading relies on.
static bool findParameters(const HandOver &part, const HandOverState &cache, bool isOfKeys, HeadSource &source) {
  std::string stem = std::string(cache.name).substr(0, std::strlen(cache.name) - 1);
  uint64_t heads = uint64_t(headsOf(cache)), features = uint64_t(featuresOf(cache)), page = part.header.pageTokens;
  const HandOverState *parameters, *tail;
  source.parameters = unitsOf(part, stem + "_parameters", &parameters);
  source.tail = unitsOf(part, stem + "_tail", &tail);
  if (cache.rank != 3 || uint64_t(slotsOf(cache)) != page || cache.shape[3] != 1 ||
      cache.unitBytes != heads * page * features * uint64_t(quantizedBits(cache)) / 8 ||
      (quantizedBits(cache) == 4 && columnsOf(cache) % 32 != 0))
    return false;
  bool hasParameters =
      parameters && parameters->paged && parameters->unitBytes == heads * 2 * (isOfKeys ? features : page);
  bool hasTail = !isOfKeys || (tail && !tail->paged && tail->unitBytes == heads * page * features * 2);
  return hasParameters && hasTail;
}

/// Finds the heads of a state among the parts. `copies`: those of this name; else those of the cache that it is of.
static Status findHeads(const std::vector<HandOver> &parts, const HandOverState &to, const char *where,
                        Conversion &conversion) {
  bool isCopied = conversion.kind == Conversion::Copied;
  const HandOverState &cache = isCopied ? to : conversion.cache;
  conversion.heads.assign(size_t(headsOf(to)), {});
  for (const HandOver &part : parts) {
    const HandOverState *from;
    const uint8_t *units = unitsOf(part, cache.name, &from);
    if (!units)
      continue;
    HeadSource source = {&part, from, units};
    if (!isCopied && quantizedBits(*from) != 0 && !findParameters(part, *from, conversion.isOfKeys, source))
      return error(ITX_CORRUPT, "%s: the quantized cache '%s' that was sent has no parameters that belong to it", where,
                   cache.name);
    for (source.head = 0; source.head < headsOf(*from); ++source.head)
      if (int64_t place = from->firstHead + source.head - to.firstHead; place >= 0 && place < headsOf(to))
        conversion.heads[size_t(place)] = source;
  }
  for (size_t head = 0; head < conversion.heads.size(); ++head)
    if (!conversion.heads[head].handOver)
      return error(ITX_INVALID_ARGUMENT,
                   "%s: head %lld of %lld of '%s' is in none of the %zu parts of the sequence that were sent: receive "
                   "from all ranks that share the layer",
                   where, (long long)(to.firstHead + int64_t(head)), (long long)to.allHeads, to.name, parts.size());
  return Status::success();
}

Status planConversion(const std::vector<HandOver> &parts, const std::vector<HandOverState> &own, size_t state,
                      uint64_t toPageTokens, const char *where, Conversion &conversion) {
  const HandOverState &to = own[state];
  std::string cache;
  Conversion::Kind kind = kindOf(to.name, cache);
  conversion.cache = to;
  for (const HandOverState &other : own)
    if (cache == other.name)
      conversion.cache = other;
  if (cache != conversion.cache.name) // it only looks like a part of a cache
    kind = Conversion::Elements;
  conversion.isOfKeys = hasEnding(conversion.cache.name, "keys");
  bool isThere = false, isSame = true;
  for (const HandOver &part : parts) {
    const HandOverState *from;
    if (!unitsOf(part, conversion.cache.name, &from))
      continue;
    isThere = true;
    std::string why = whyNotConverted(*from, part.header.pageTokens, conversion.cache, toPageTokens);
    if (!why.empty())
      return error(ITX_INVALID_ARGUMENT, "%s: the sequence that the other process sends cannot be taken over: %s",
                   where, why.c_str());
    isSame &= haveSameHeads(*from, conversion.cache) && part.header.pageTokens == toPageTokens;
    const HandOverState *same;
    isSame &= unitsOf(part, to.name, &same) != nullptr && haveSameHeads(*same, to);
  }
  if (!isThere)
    return error(ITX_INVALID_ARGUMENT,
                 "%s: the sequence that the other process sends has no '%s': does it run a part of the model, or keep "
                 "its cache in another format (--kv)?",
                 where, conversion.cache.name);
  conversion.kind = isSame ? Conversion::Copied : kind;
  return findHeads(parts, to, where, conversion);
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
    uint64_t at =
        token / fromPage * fromUnit + uint64_t(source.head) * features * fromPage + token % fromPage * fromSlot;
    uint64_t target = toHead * features * toPageTokens + (token - first) * toSlot;
    for (uint64_t feature = 0; feature < features; ++feature)
      copy(at + feature * fromFeature, target + feature * toFeature);
  }
}

/// Returns the place of an element in a head of a page, which has a row for each slot, or for each feature.
static uint64_t placeIn(const HandOverState &cache, uint64_t pageTokens, uint64_t slot, uint64_t feature) {
  return cache.transposed ? feature * pageTokens + slot : slot * uint64_t(featuresOf(cache)) + feature;
}

/// Returns an element of a cache that was sent.
static float sentValue(const HeadSource &source, bool isOfKeys, uint64_t token, uint64_t feature) {
  const HandOverState &from = *source.state;
  uint64_t page = source.handOver->header.pageTokens, features = uint64_t(featuresOf(from));
  uint64_t heads = uint64_t(headsOf(from)), head = uint64_t(source.head), slot = token % page;
  uint64_t place = placeIn(from, page, slot, feature), elements = features * page, groups = isOfKeys ? features : page;
  int bits = quantizedBits(from);
  if (bits == 0)
    return readElement(CacheElement(from.element), source.units + ((token / page * heads + head) * elements + place) *
                                                                      bytesOf(CacheElement(from.element)));
  if (isOfKeys && token >= source.handOver->header.tokens / page * page)
    return readElement(CacheElement::F16, source.tail + (head * elements + place) * 2);
  const uint8_t *quantized = source.units + token / page * from.unitBytes + head * elements * uint64_t(bits) / 8;
  const uint8_t *parameters = source.parameters + (token / page * heads + head) * 2 * groups;
  uint64_t group = isOfKeys ? feature : slot;
  return groupValue({parameters[group], parameters[groups + group]}, bits, readQuantized(quantized, bits, place));
}

/// Returns the values of a group of a head: of keys a feature in a page, of values the row of a token.
static std::vector<float> valuesOfGroup(const HeadSource &source, bool isOfKeys, uint64_t pageTokens, uint64_t page,
                                        uint64_t group, uint64_t features) {
  std::vector<float> values;
  for (uint64_t i = 0; i < (isOfKeys ? pageTokens : features); ++i) {
    uint64_t token = page * pageTokens + (isOfKeys ? i : group);
    float value = sentValue(source, isOfKeys, token, isOfKeys ? group : i);
    values.push_back(isOfKeys ? decodeF16(encodeF16(value)) : value); // keys come from the tail
  }
  return values;
}

/// Makes one head of quantized elements, or of their parameters.
static void quantizeHead(const Conversion &conversion, const HeadSource &source, uint64_t head, uint64_t pageTokens,
                         uint64_t page, uint8_t *unit) {
  bool isOfKeys = conversion.isOfKeys;
  int bits = quantizedBits(conversion.cache);
  uint64_t features = uint64_t(featuresOf(conversion.cache)), headSize = features * pageTokens * uint64_t(bits) / 8;
  uint64_t groups = isOfKeys ? features : pageTokens, tokens = source.handOver->header.tokens;
  for (uint64_t group = 0; group < groups; ++group) {
    // Keys are quantized when their page is full.
    if ((isOfKeys ? (page + 1) * pageTokens : page * pageTokens + group + 1) > tokens)
      continue;
    std::vector<float> values = valuesOfGroup(source, isOfKeys, pageTokens, page, group, features);
    GroupParameters parameters = chooseGroup(values, bits);
    if (conversion.kind == Conversion::Parameters) {
      unit[head * 2 * groups + group] = parameters.scale;
      unit[(head * 2 + 1) * groups + group] = parameters.zero;
      continue;
    }
    for (uint64_t i = 0; i < values.size(); ++i) {
      uint64_t place = placeIn(conversion.cache, pageTokens, isOfKeys ? i : group, isOfKeys ? group : i);
      writeQuantized(unit + head * headSize, bits, place, quantizeInGroup(parameters, bits, values[i]));
    }
  }
}

/// Makes one head of the tail: keys of the last page.
static void fillTail(const Conversion &conversion, const HeadSource &source, uint64_t head, uint64_t pageTokens,
                     uint8_t *unit) {
  uint64_t tokens = source.handOver->header.tokens, features = uint64_t(featuresOf(conversion.cache));
  for (uint64_t token = tokens / pageTokens * pageTokens; token < tokens; ++token)
    for (uint64_t feature = 0; feature < features; ++feature)
      writeElement(
          CacheElement::F16, sentValue(source, true, token, feature),
          unit +
              (head * pageTokens * features + placeIn(conversion.cache, pageTokens, token % pageTokens, feature)) * 2);
}

/// Makes one head of elements that are not quantized.
static void convertHead(const Conversion &conversion, const HeadSource &source, const HandOverState &to,
                        uint64_t toHead, uint64_t toPageTokens, uint64_t page, uint8_t *unit) {
  CacheElement element = CacheElement(source.state->element), target = CacheElement(to.element);
  const uint8_t *units = source.units;
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
  uint64_t features = uint64_t(featuresOf(to)), tokens = source.handOver->header.tokens;
  for (uint64_t token = page * toPageTokens; token < std::min((page + 1) * toPageTokens, tokens); ++token)
    for (uint64_t feature = 0; feature < features; ++feature) {
      uint64_t place = placeIn(to, toPageTokens, token % toPageTokens, feature);
      writeElement(target, sentValue(source, conversion.isOfKeys, token, feature),
                   unit + (toHead * features * toPageTokens + place) * bytesOf(target));
    }
}

void convertUnit(const Conversion &conversion, const HandOverState &to, uint64_t toPageTokens, uint64_t page,
                 uint8_t *unit) {
  std::memset(unit, 0, to.unitBytes);
  for (size_t head = 0; head < conversion.heads.size(); ++head) {
    const HeadSource &source = conversion.heads[head];
    if (conversion.kind == Conversion::Copied)
      std::memcpy(unit + head * headBytes(to),
                  source.units + page * source.state->unitBytes + uint64_t(source.head) * headBytes(*source.state),
                  headBytes(to));
    else if (conversion.kind == Conversion::Tail)
      fillTail(conversion, source, head, toPageTokens, unit);
    else if (quantizedBits(conversion.cache) != 0)
      quantizeHead(conversion, source, head, toPageTokens, page, unit);
    else
      convertHead(conversion, source, to, head, toPageTokens, page, unit);
  }
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
constexpr uint64_t mostPageTokens = uint64_t(1) << 32;
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

/// Receives that many bytes. Memory for all of them is taken once an eighth of them has come; before that, for at most
/// three times those that have.
static Status receiveBytes(Connection &connection, uint64_t count, std::vector<uint8_t> &bytes) {
  constexpr uint64_t atFirst = uint64_t(16) << 20;
  for (uint64_t done = 0; done < count; done = bytes.size()) {
    if (done >= count / 8)
      bytes.reserve(count);
    bytes.resize(done + std::min(count - done, std::max(done, atFirst)));
    ITX_RETURN_IF_ERROR(connection.receive(bytes.data() + done, bytes.size() - done));
  }
  return Status::success();
}

Status checkTimeout(double seconds, const std::string &name) {
  return seconds >= 0
             ? Status::success()
             : error(ITX_INVALID_ARGUMENT, "%s: a timeout of %g s; 0 and more are possible", name.c_str(), seconds);
}

Status receiveHandOver(int socket, double timeoutSeconds, const std::string &name, const HandOverLimits &most,
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
  if (header.states == 0 || header.states > mostStates || header.pageTokens == 0 || header.pageTokens > mostPageTokens)
    return damaged;
  if (header.tokens > most.tokens)
    return error(ITX_INVALID_ARGUMENT,
                 "%s: the other process sends a sequence of %llu tokens, the context of this artifact is %llu: compile "
                 "both with the same --context",
                 where, (unsigned long long)header.tokens, (unsigned long long)most.tokens);
  if (header.payloadBytes > most.bytes)
    return error(ITX_CACHE_FULL, "%s: the other process sends a sequence of %llu bytes, this cache has %llu", where,
                 (unsigned long long)header.payloadBytes, (unsigned long long)most.bytes);
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
  ITX_RETURN_IF_ERROR(receiveBytes(connection, header.payloadBytes, result.payload));
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
