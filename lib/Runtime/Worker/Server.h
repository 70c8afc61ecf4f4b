//===- Server.h - An engine behind a connection -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_WORKER_SERVER_H
#define INTARSIA_RUNTIME_WORKER_SERVER_H

#include "lib/Runtime/Worker/Entrance.h"
#include "lib/Runtime/Worker/MaskExchange.h"
#include "lib/Runtime/Worker/MessageStream.h"

#include <chrono>
#include <deque>
#include <optional>
#include <unordered_map>

namespace intarsia::runtime {

struct ServerSettings {
  std::string info;       ///< what a front end is told: a JSON object
  int64_t vocabulary = 0; ///< tokens of the model
  bool isOnce = false;    ///< the worker ends when its front end is gone, also if another could come
};

/// Serves one front end at a time. What it does happens on one thread; the engine's own thread computes, and asks for
/// masks (MaskExchange).
class Server {
public:
  /// `signals` is a signalfd of what ends the worker: the first signal lets requests end, the second does not wait.
  Server(itx_engine *engine, MaskExchange &masks, Entrance &entrance, int signals, ServerSettings settings);
  ~Server();
  Server(const Server &) = delete;
  Server &operator=(const Server &) = delete;

  /// Returns when the worker should end.
  Status run();

private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    uint64_t frontEnd;   ///< number of the one that sent it
    int64_t samplesLeft; ///< without their last event
  };

  bool isOver() const;
  int waitMilliseconds() const;
  void enter();
  void receive();
  Status take(const MessageHeader &header, const uint8_t *body);
  Status greet(const MessageHeader &header, const uint8_t *body);
  void submit(const Submit &submit);
  void sendStatistics(uint64_t tag);
  Status takeEvents();
  void add(const itx_engine_event &event);
  void sendEvents();
  void takeSignal();
  void drain(const char *why);
  /// Ends the connection, and all requests that came by it.
  void leave(const std::string &why);
  /// Tells the front end what it has done wrong, and ends the connection.
  void turnAway(Socket socket, const Status &status);
  void turnAway(const Status &status);

  itx_engine *engine_;
  MaskExchange &masks_;
  Entrance &entrance_;
  int signals_;
  ServerSettings settings_;
  Socket wake_;                         ///< readable while masks_ has something
  std::optional<MessageStream> stream_; ///< the connection with the front end
  std::deque<Socket> turnedAway_;       ///< connections whose other ends have yet to read why
  uint64_t frontEnd_ = 0;               ///< number of the front end
  bool isGreeted_ = false;
  Clock::time_point entered_;
  bool isDraining_ = false;
  std::unordered_map<uint64_t, Request> requests_;
  std::vector<itx_engine_event> taken_;
  Events events_; ///< of the step that is being read
};

} // namespace intarsia::runtime

#endif
