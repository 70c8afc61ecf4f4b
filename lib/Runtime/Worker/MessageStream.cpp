//===- MessageStream.cpp - A connection that carries messages -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Worker/MessageStream.h"

#include <sys/socket.h>

namespace intarsia::runtime {

static Status ended(const char *what) {
  return error(ITX_IO_ERROR, "the front end has %s%s%s", what, errno ? ": " : "", errno ? std::strerror(errno) : "");
}

Status MessageStream::receive() {
  input_.erase(0, parsed_);
  parsed_ = 0;
  ssize_t count;
  do {
    count = recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  int code = errno;
  if (count > 0)
    input_.append(buffer_.data(), size_t(count));
  if (count > 0 || (count < 0 && (code == EAGAIN || code == EWOULDBLOCK)))
    return Status::success();
  errno = count < 0 ? code : 0;
  return ended(count < 0 ? "broken the connection" : "closed the connection");
}

Status MessageStream::next(MessageHeader &header, const uint8_t *&body, bool &isThere) {
  isThere = false;
  size_t bytes = input_.size() - parsed_;
  if (bytes < headerBytes)
    return Status::success();
  const uint8_t *at = reinterpret_cast<const uint8_t *>(input_.data()) + parsed_;
  ITX_RETURN_IF_ERROR(readHeader(at, mostBytes_, header));
  if (bytes - headerBytes < header.bodyBytes)
    return Status::success();
  body = at + headerBytes;
  parsed_ += headerBytes + header.bodyBytes;
  isThere = true;
  return Status::success();
}

Status MessageStream::send() {
  while (pendingBytes() > 0) {
    ssize_t count = ::send(socket_.get(), output_.data() + sent_, pendingBytes(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (count <= 0)
      return ended("broken the connection");
    sent_ += size_t(count);
  }
  // What was sent is dropped rarely, so that a slow reader does not cost a copy of the rest for each part.
  if (sent_ == output_.size() || sent_ >= buffer_.size()) {
    output_.erase(0, sent_);
    sent_ = 0;
  }
  return Status::success();
}

} // namespace intarsia::runtime
