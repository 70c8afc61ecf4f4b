//===- Messages.h - What a worker and its front end tell each other -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// python/intarsia/serve/worker_protocol.py has the same in Python. A change of any field, or of what one means, is a
// new version: both ends come from one release, so that no end speaks two versions.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_WORKER_MESSAGES_H
#define INTARSIA_RUNTIME_WORKER_MESSAGES_H

#include "intarsia/engine.h"
#include "lib/Runtime/Worker/Wire.h"

namespace intarsia::runtime {

/// "itxworkr" in ASCII: tells a front end from another program that has found the socket.
inline constexpr uint64_t workerMagic = 0x726B726F77787469;
inline constexpr uint32_t workerVersion = 1;
/// The most bytes of a body: a prompt of 8 million tokens, or the masks of 1,000 rows of 500,000 tokens.
inline constexpr uint32_t largestBody = 64u << 20;
inline constexpr size_t headerBytes = 8;

enum class MessageKind : uint32_t {
  // From the front end:
  Hello = 1,
  Submit = 2,
  Cancel = 3,
  Masks = 4,
  AskStatistics = 5,
  Ping = 6,
  Drain = 7,
  // From the worker:
  Welcome = 65,
  Accepted = 66,
  Refused = 67,
  Events = 68,
  AskMasks = 69,
  Statistics = 70,
  Pong = 71,
  Problem = 72,
  Drained = 73,
};

/// The first message of a front end.
struct Hello {
  static constexpr MessageKind kind = MessageKind::Hello;
  uint64_t magic = workerMagic;
  uint32_t version = workerVersion;

  template <typename Wire> void fields(Wire &wire) {
    wire("magic", magic);
    wire("version", version);
  }
};

/// A request; the fields are those of itx_request. Answered with Accepted or Refused.
struct Submit {
  static constexpr MessageKind kind = MessageKind::Submit;
  static constexpr uint32_t hasSeed = 1, hasMask = 2;
  uint64_t tag = 0; ///< comes back in the answer
  double temperature = 0, topP = 0, minP = 0;
  double repetitionPenalty = 0, presencePenalty = 0, frequencyPenalty = 0;
  double deadlineSeconds = 0;
  int64_t maxTokens = 0, minTokens = 0, topK = 0, seed = 0;
  uint32_t seedSpawn = 0, flags = 0;
  int32_t samples = 0, logprobs = 0, promptLogprobs = 0, draftTokens = 0, priority = 0;
  std::vector<int64_t> prompt, stopTokens, biasTokens;
  std::vector<float> biasValues;
  std::string key, salt;

  template <typename Wire> void fields(Wire &wire) {
    wire("tag", tag);
    wire("temperature", temperature);
    wire("top_p", topP);
    wire("min_p", minP);
    wire("repetition_penalty", repetitionPenalty);
    wire("presence_penalty", presencePenalty);
    wire("frequency_penalty", frequencyPenalty);
    wire("deadline_seconds", deadlineSeconds);
    wire("max_tokens", maxTokens);
    wire("min_tokens", minTokens);
    wire("top_k", topK);
    wire("seed", seed);
    wire("seed_spawn", seedSpawn);
    wire("flags", flags);
    wire("samples", samples);
    wire("logprobs", logprobs);
    wire("prompt_logprobs", promptLogprobs);
    wire("draft_tokens", draftTokens);
    wire("priority", priority);
    wire("prompt", prompt);
    wire("stop_tokens", stopTokens);
    wire("bias_tokens", biasTokens);
    wire("bias_values", biasValues);
    wire("key", key);
    wire("salt", salt);
  }
};

struct Cancel {
  static constexpr MessageKind kind = MessageKind::Cancel;
  uint64_t request = 0;

  template <typename Wire> void fields(Wire &wire) { wire("request", request); }
};

/// The answer to AskMasks: its rows in their order.
struct Masks {
  static constexpr MessageKind kind = MessageKind::Masks;
  uint64_t round = 0;
  std::vector<uint8_t> complete; ///< of each row: 1 if its text is complete, else 0
  std::vector<uint32_t> bits;    ///< [rows, ceil(vocabulary / 32)]

  template <typename Wire> void fields(Wire &wire) {
    wire("round", round);
    wire("complete", complete);
    wire("bits", bits);
  }
};

/// Messages that hold a tag alone: AskStatistics is answered with Statistics, Ping with Pong.
template <MessageKind ownKind> struct Tagged {
  static constexpr MessageKind kind = ownKind;
  uint64_t tag = 0;

  template <typename Wire> void fields(Wire &wire) { wire("tag", tag); }
};
using AskStatistics = Tagged<MessageKind::AskStatistics>;
using Ping = Tagged<MessageKind::Ping>;
using Pong = Tagged<MessageKind::Pong>;

/// Drain: requests that come are refused, and when none is left the worker says Drained and ends.
template <MessageKind ownKind> struct Empty {
  static constexpr MessageKind kind = ownKind;

  template <typename Wire> void fields(Wire &) {}
};
using Drain = Empty<MessageKind::Drain>;
using Drained = Empty<MessageKind::Drained>;

/// The answer to Hello: what the engine serves, a JSON object.
struct Welcome {
  static constexpr MessageKind kind = MessageKind::Welcome;
  std::string info;

  template <typename Wire> void fields(Wire &wire) { wire("info", info); }
};

struct Accepted {
  static constexpr MessageKind kind = MessageKind::Accepted;
  uint64_t tag = 0, request = 0;

  template <typename Wire> void fields(Wire &wire) {
    wire("tag", tag);
    wire("request", request);
  }
};

struct Refused {
  static constexpr MessageKind kind = MessageKind::Refused;
  uint64_t tag = 0;
  std::string status; ///< its name (itx_status_name)
  std::string message;

  template <typename Wire> void fields(Wire &wire) {
    wire("tag", tag);
    wire("status", status);
    wire("message", message);
  }
};

/// The fields of itx_engine_event, always of the same size.
struct EventRecord {
  static constexpr size_t leastBytes = 72;
  uint8_t kind = 0, finish = 0;
  uint16_t topCount = 0; ///< of the next elements of Events::top
  int32_t sample = 0;
  uint64_t request = 0;
  int64_t token = 0;
  float logprob = 0;
  uint32_t messageBytes = 0; ///< of the next bytes of Events::messages
  int64_t promptTokens = 0, cachedTokens = 0, tokens = 0;
  double waitedSeconds = 0, promptSeconds = 0;

  template <typename Wire> void fields(Wire &wire) {
    wire("kind", kind);
    wire("finish", finish);
    wire("top_count", topCount);
    wire("sample", sample);
    wire("request", request);
    wire("token", token);
    wire("logprob", logprob);
    wire("message_bytes", messageBytes);
    wire("prompt_tokens", promptTokens);
    wire("cached_tokens", cachedTokens);
    wire("tokens", tokens);
    wire("waited_seconds", waitedSeconds);
    wire("prompt_seconds", promptSeconds);
  }
};

/// A token and the natural logarithm of its probability.
struct LogProbability {
  static constexpr size_t leastBytes = 12;
  int64_t token = 0;
  float value = 0;

  template <typename Wire> void fields(Wire &wire) {
    wire("token", token);
    wire("value", value);
  }
};

/// The events of one forward step.
struct Events {
  static constexpr MessageKind kind = MessageKind::Events;
  uint64_t step = 0;
  std::vector<EventRecord> events;
  std::vector<LogProbability> top;
  std::string messages;

  template <typename Wire> void fields(Wire &wire) {
    wire("step", step);
    wire("events", events);
    wire("top", top);
    wire("messages", messages);
  }
};

/// A row of itx_mask_row: the text is the first `kept` tokens of that of the last row of the same sample, and `added`.
struct MaskQuestion {
  static constexpr size_t leastBytes = 20;
  uint64_t request = 0;
  int32_t sample = 0;
  uint32_t kept = 0;
  std::vector<int64_t> added;

  template <typename Wire> void fields(Wire &wire) {
    wire("request", request);
    wire("sample", sample);
    wire("kept", kept);
    wire("added", added);
  }
};

/// Asks which tokens may come next; the engine waits for the answer.
struct AskMasks {
  static constexpr MessageKind kind = MessageKind::AskMasks;
  uint64_t round = 0;
  std::vector<MaskQuestion> rows;

  template <typename Wire> void fields(Wire &wire) {
    wire("round", round);
    wire("rows", rows);
  }
};

/// The fields of itx_engine_stats, a JSON object.
struct Statistics {
  static constexpr MessageKind kind = MessageKind::Statistics;
  uint64_t tag = 0;
  std::string values;

  template <typename Wire> void fields(Wire &wire) {
    wire("tag", tag);
    wire("values", values);
  }
};

/// What the front end has done wrong; the worker then closes the connection.
struct Problem {
  static constexpr MessageKind kind = MessageKind::Problem;
  std::string status; ///< its name (itx_status_name)
  std::string message;

  template <typename Wire> void fields(Wire &wire) {
    wire("status", status);
    wire("message", message);
  }
};

/// Returns a message as bytes.
template <typename Message> std::string writeMessage(Message &&message) {
  WireWriter writer{uint32_t(std::remove_cvref_t<Message>::kind)};
  message.fields(writer);
  return writer.finish();
}

/// Reads the body of a message, and checks what the fields of one message say of each other.
template <typename Message> Status readBody(const uint8_t *data, size_t bytes, Message &message) {
  WireReader reader(data, bytes);
  message.fields(reader);
  ITX_RETURN_IF_ERROR(reader.finish());
  if constexpr (requires { check(message); })
    return check(message);
  else
    return Status::success();
}

Status check(const Hello &hello);
Status check(const Submit &submit);
Status check(const Masks &masks);
Status check(const Events &events);

/// Returns the request that a message asks for; it points into the message.
itx_request requestOf(const Submit &submit);

/// A message without its body.
struct MessageHeader {
  uint32_t bodyBytes = 0;
  uint32_t kind = 0;
};

/// Reads the first `headerBytes` of a message. ITX_CORRUPT if its body has more bytes than `mostBytes`.
Status readHeader(const uint8_t *data, uint32_t mostBytes, MessageHeader &header);

} // namespace intarsia::runtime

#endif
