//===- HandOver.h - A sequence's cache on its way to another process ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
// The socket carries a HandOverHeader, a HandOverState for each state, the tokens (64 bits each), the units of
// each state, and the XXH3-128 of all that. The receiver answers with one byte when it has imported the sequence.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_HANDOVER_H
#define INTARSIA_RUNTIME_CACHE_HANDOVER_H

#include "lib/Runtime/Cache/StepLayout.h"
#include "lib/Support/Hash.h"

namespace intarsia::runtime {

inline constexpr char handOverMagic[8] = {'I', 'T', 'X', 'C', 'A', 'C', 'H', 'E'};
inline constexpr uint32_t handOverVersion = 2;

struct HandOverHeader {
  char magic[8];
  uint32_t version;
  uint32_t states;
  uint8_t model[16]; // hash of the model that both artifacts were made from
  uint64_t tokens;
  uint64_t pageTokens;
  uint64_t payloadBytes; // of the units of all states
};
static_assert(sizeof(HandOverHeader) == 56);

struct HandOverState {
  char name[64];
  uint8_t element; // CacheElement
  uint8_t paged;
  uint8_t transposed;
  uint8_t dtype;
  uint32_t rank;
  int64_t shape[4]; // of a unit; 1 beyond the rank
  uint64_t unitBytes;
  int64_t firstHead; // of the model's, where a rank has some of them: the first size of the shape counts those
  int64_t allHeads;
};
static_assert(sizeof(HandOverState) == 128);

/// A sequence as it was sent.
struct HandOver {
  HandOverHeader header = {};
  std::vector<HandOverState> states;
  std::vector<int64_t> tokens;
  std::vector<uint8_t> payload;

  uint64_t pages() const { return (header.tokens + header.pageTokens - 1) / header.pageTokens; }
  uint64_t units(const HandOverState &state) const { return state.paged ? pages() : 1; }
};

/// Describes a state of a step function. Fails for one whose name or rank has no room.
Status describeState(const StateTensor &state, HandOverState &description);

/// Where a head of a state comes from: that of a rank which has sent it.
struct HeadSource {
  const HandOver *handOver = nullptr;
  const HandOverState *state = nullptr;
  const uint8_t *units = nullptr; // those of the state lie one after another
  int64_t head = 0;               // in them
  // These are set if the cache is quantized and is converted.
  const uint8_t *parameters = nullptr;
  const uint8_t *tail = nullptr; // null for values
};

/// How a state of this process is made from the heads that were sent.
struct Conversion {
  enum Kind { Copied, Elements, Parameters, Tail } kind = Copied; ///< pages as they are, or what they consist of
  HandOverState cache = {};                                       ///< the state of the cache's elements
  bool isOfKeys = false;
  std::vector<HeadSource> heads;
};

/// Returns why heads of one cache cannot become those of another in pages of `pageTokens` tokens; empty if they can.
/// Floats and quantized values are converted, pages are cut anew and transposed; E4M3 is copied as it is.
std::string whyNotConverted(const HandOverState &from, uint64_t fromPageTokens, const HandOverState &to,
                            uint64_t toPageTokens);

/// Finds the heads of a state, which is one of `own`. `where` starts a message that says which is missing, or why it
/// cannot be converted.
Status planConversion(const std::vector<HandOver> &parts, const std::vector<HandOverState> &own, size_t state,
                      uint64_t toPageTokens, const char *where, Conversion &conversion);

/// Makes one unit (of page number `page`) of a state.
void convertUnit(const Conversion &conversion, const HandOverState &to, uint64_t toPageTokens, uint64_t page,
                 uint8_t *unit);

/// Sends and waits for the answer. No silence is longer than the timeout. `name` starts each message.
Status sendHandOver(int socket, double timeoutSeconds, const std::string &name, const HandOver &handOver);
/// What a receiver takes.
struct HandOverLimits {
  uint64_t tokens; ///< the context of its model
  uint64_t bytes;  ///< of payload
};
/// Receives everything and checks it, as far as that does not depend on the receiving cache. Whatever size the
/// other process states, memory is at most 16 MiB or eight times what has come.
Status receiveHandOver(int socket, double timeoutSeconds, const std::string &name, const HandOverLimits &most,
                       HandOver &handOver);
/// Refuses timeouts that are no time.
Status checkTimeout(double seconds, const std::string &name);
/// Answers that the sequence was imported.
Status acknowledgeHandOver(int socket, double timeoutSeconds, const std::string &name);

} // namespace intarsia::runtime

#endif
