//===- worker.cpp - Fuzz the messages between a worker and its front end ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An input is messages one after another, as they come by a connection.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Worker/Messages.h"

#include <cstdlib>

using namespace intarsia;
using namespace intarsia::runtime;

/// A body that is accepted has nothing without a meaning: written again, it has the same bytes.
template <typename Message> static void readAndWrite(const uint8_t *data, size_t bytes) {
  Message message;
  if (!readBody(data, bytes, message).ok())
    return;
  std::string written = writeMessage(message);
  if (written.size() != headerBytes + bytes || std::memcmp(written.data() + headerBytes, data, bytes) != 0)
    std::abort();
  if constexpr (std::is_same_v<Message, Submit>) {
    itx_request request = requestOf(message);
    if (request.prompt_count + request.stop_count + 2 * request.bias_count > bytes)
      std::abort();
  }
}

template <typename... Messages> static void readKind(uint32_t kind, const uint8_t *data, size_t bytes) {
  ((kind == uint32_t(Messages::kind) ? readAndWrite<Messages>(data, bytes) : void()), ...);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  MessageHeader header;
  while (bytes >= headerBytes && readHeader(data, largestBody, header).ok() &&
         header.bodyBytes <= bytes - headerBytes) {
    readKind<Hello, Submit, Cancel, Masks, AskStatistics, Ping, Drain, Welcome, Accepted, Refused, Events, AskMasks,
             Statistics, Pong, Problem, Drained>(header.kind, data + headerBytes, header.bodyBytes);
    data += headerBytes + header.bodyBytes;
    bytes -= headerBytes + header.bodyBytes;
  }
  return 0;
}
