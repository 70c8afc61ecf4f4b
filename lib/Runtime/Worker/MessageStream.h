//===- MessageStream.h - A connection that carries messages -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_WORKER_MESSAGESTREAM_H
#define INTARSIA_RUNTIME_WORKER_MESSAGESTREAM_H

#include "lib/Runtime/Collectives/Socket.h"
#include "lib/Runtime/Worker/Messages.h"

namespace intarsia::runtime {

/// Reads and writes messages without waiting. Memory is taken for what has come, not for what a header promises.
class MessageStream {
public:
  explicit MessageStream(Socket socket) : socket_(std::move(socket)), buffer_(readBytes) {}

  int descriptor() const { return socket_.get(); }
  /// Gives the connection up.
  Socket release() { return std::move(socket_); }
  /// Sets the most bytes of a body that is read.
  void setLimit(uint32_t bytes) { mostBytes_ = bytes; }

  /// Reads a part of what has come. ITX_IO_ERROR if the other end has closed the connection.
  Status receive();
  /// Gives the next whole message, if there is one; its body stays valid until the next receive().
  Status next(MessageHeader &header, const uint8_t *&body, bool &isThere);

  /// Appends a message to those to be sent.
  void append(const std::string &message) { output_ += message; }
  /// Sends as much as the connection takes. ITX_IO_ERROR if the other end is gone.
  Status send();
  /// Bytes that were not sent yet.
  size_t pendingBytes() const { return output_.size() - sent_; }

private:
  /// What is read at a time, so that a front end cannot keep the worker from its other work.
  static constexpr size_t readBytes = 1 << 18;

  Socket socket_;
  std::vector<char> buffer_;
  uint32_t mostBytes_ = largestBody;
  std::string input_, output_;
  size_t parsed_ = 0; ///< bytes of the input whose messages were given
  size_t sent_ = 0;   ///< bytes of the output
};

} // namespace intarsia::runtime

#endif
