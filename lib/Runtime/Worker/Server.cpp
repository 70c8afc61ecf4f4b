//===- Server.cpp - An engine behind a connection -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Worker/Server.h"

#include "lib/Support/Json.h"

#include <algorithm>
#include <csignal>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

namespace intarsia::runtime {

/// How long a front end may take for its first message.
static constexpr auto greetingTime = std::chrono::seconds(10);
/// Before the first message no other is expected, and nobody is believed to need memory.
static constexpr uint32_t largestGreeting = 64;
/// Events stay in the engine, and messages in the connection, while the front end has so many bytes to read.
static constexpr size_t mostPendingBytes = 4 << 20;
/// Connections that are kept open until their other ends have read why they were turned away.
static constexpr size_t mostTurnedAway = 8;
/// Events that are taken at a time.
static constexpr size_t eventsAtOnce = 1024;
/// How long what was said last may take to be read.
static constexpr int lastWordsMilliseconds = 1000;

Server::Server(itx_engine *engine, MaskExchange &masks, Entrance &entrance, int signals, ServerSettings settings)
    : engine_(engine), masks_(masks), entrance_(entrance), signals_(signals), settings_(std::move(settings)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), taken_(eventsAtOnce) {
  masks_.onQuestion([this] {
    uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
  });
}

Server::~Server() { masks_.disconnect(); }

bool Server::isOver() const {
  if (!requests_.empty())
    return false;
  bool mayCome = entrance_.mayComeAgain() && !(settings_.isOnce && frontEnd_ > 0);
  return isDraining_ || (!stream_ && !mayCome);
}

int Server::waitMilliseconds() const {
  if (!stream_ || isGreeted_)
    return -1;
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(entered_ + greetingTime - Clock::now());
  return int(std::max<int64_t>(left.count() + 1, 0));
}

Status Server::run() {
  enter();
  while (!isOver()) {
    // Negative descriptors are ignored. A front end that does not read is given nothing more, and asked for nothing.
    bool takesEvents = !stream_ || stream_->pendingBytes() < mostPendingBytes;
    short forStream = short((takesEvents ? POLLIN : 0) | (stream_ && stream_->pendingBytes() ? POLLOUT : 0));
    pollfd events[] = {{signals_, POLLIN, 0},
                       {wake_.get(), POLLIN, 0},
                       {takesEvents ? itx_engine_descriptor(engine_) : -1, POLLIN, 0},
                       {entrance_.descriptor(), POLLIN, 0},
                       {stream_ ? stream_->descriptor() : -1, forStream, 0}};
    if (poll(events, std::size(events), waitMilliseconds()) < 0 && errno != EINTR)
      return error(ITX_INTERNAL, "cannot wait for the front end: %s", std::strerror(errno));
    if (events[0].revents)
      takeSignal();
    if (events[4].revents & ~POLLOUT)
      receive();
    if (events[3].revents)
      enter();
    if (uint64_t count; events[1].revents && read(wake_.get(), &count, sizeof(count)) > 0) {
      std::string question = masks_.takeQuestion();
      if (stream_ && !question.empty())
        stream_->append(question);
      if (stream_ && masks_.isOverdue())
        turnAway(error(ITX_IO_ERROR, "the front end did not say in time which tokens may come next"));
    }
    if (events[2].revents)
      ITX_RETURN_IF_ERROR(takeEvents());
    if (stream_ && !isGreeted_ && Clock::now() > entered_ + greetingTime)
      turnAway(error(ITX_IO_ERROR, "the front end has sent no greeting"));
    if (stream_)
      if (Status status = stream_->send(); !status.ok())
        leave(status.message());
  }
  if (stream_) {
    stream_->append(writeMessage(Drained()));
    for (auto end = Clock::now() + std::chrono::milliseconds(lastWordsMilliseconds);
         stream_->send().ok() && stream_->pendingBytes() && Clock::now() < end;)
      (void)isReady(stream_->descriptor(), POLLOUT, 0.1);
  }
  return Status::success();
}

void Server::enter() {
  Socket socket = entrance_.take();
  if (!socket.isOpen())
    return;
  // One that is gone may have left more than was read at once.
  if (stream_ && isReady(stream_->descriptor(), POLLRDHUP, 0))
    leave("the front end has closed the connection");
  if (stream_)
    return turnAway(std::move(socket), error(ITX_INVALID_ARGUMENT, "another front end uses this worker already; a "
                                                                   "worker serves one at a time"));
  if (settings_.isOnce && frontEnd_ > 0)
    return turnAway(std::move(socket),
                    error(ITX_INVALID_ARGUMENT, "this worker has served its only front end (--once)"));
  stream_.emplace(std::move(socket));
  stream_->setLimit(largestGreeting);
  ++frontEnd_;
  isGreeted_ = false;
  entered_ = Clock::now();
}

void Server::receive() {
  Status status = stream_->receive();
  // What came before the end is still read: a request to cancel, for example, or the reason.
  for (bool isThere = true; stream_ && isThere;) {
    MessageHeader header;
    const uint8_t *body = nullptr;
    Status parsed = stream_->next(header, body, isThere);
    if (parsed.ok() && isThere)
      parsed = take(header, body);
    if (!parsed.ok())
      return turnAway(parsed);
  }
  if (stream_ && !status.ok())
    leave(status.message());
}

/// Reads the body of a message; errors name it.
template <typename Message>
static Status readNamed(const char *name, const MessageHeader &header, const uint8_t *body, Message &message) {
  Status status = readBody(body, header.bodyBytes, message);
  return status.ok() ? status : Status(status.code(), std::string(name) + ": " + status.message());
}

Status Server::greet(const MessageHeader &header, const uint8_t *body) {
  Hello hello;
  if (MessageKind(header.kind) != MessageKind::Hello)
    return error(ITX_CORRUPT, "the first message is of kind %u, must be hello", header.kind);
  ITX_RETURN_IF_ERROR(readNamed("hello", header, body, hello));
  isGreeted_ = true;
  stream_->setLimit(largestBody);
  masks_.connect(settings_.vocabulary);
  stream_->append(writeMessage(Welcome{settings_.info}));
  return Status::success();
}

Status Server::take(const MessageHeader &header, const uint8_t *body) {
  if (!isGreeted_)
    return greet(header, body);
  switch (MessageKind(header.kind)) {
  case MessageKind::Submit: {
    Submit message;
    ITX_RETURN_IF_ERROR(readNamed("submit", header, body, message));
    submit(message);
    return Status::success();
  }
  case MessageKind::Cancel: {
    Cancel message;
    ITX_RETURN_IF_ERROR(readNamed("cancel", header, body, message));
    auto at = requests_.find(message.request);
    if (at != requests_.end() && at->second.frontEnd == frontEnd_)
      itx_engine_cancel(engine_, message.request);
    return Status::success();
  }
  case MessageKind::Masks: {
    Masks message;
    ITX_RETURN_IF_ERROR(readNamed("masks", header, body, message));
    return masks_.answer(message);
  }
  case MessageKind::AskStatistics: {
    AskStatistics message;
    ITX_RETURN_IF_ERROR(readNamed("ask statistics", header, body, message));
    sendStatistics(message.tag);
    return Status::success();
  }
  case MessageKind::Ping: {
    Ping message;
    ITX_RETURN_IF_ERROR(readNamed("ping", header, body, message));
    stream_->append(writeMessage(Pong{message.tag}));
    return Status::success();
  }
  case MessageKind::Drain: {
    Drain message;
    ITX_RETURN_IF_ERROR(readNamed("drain", header, body, message));
    drain("the front end has said so");
    return Status::success();
  }
  default:
    return error(ITX_UNSUPPORTED, "version %u of the protocol has no message of kind %u from a front end",
                 workerVersion, header.kind);
  }
}

void Server::submit(const Submit &submit) {
  uint64_t number = 0;
  itx_status status = ITX_UNSUPPORTED;
  std::string problem = "the worker is ending, and takes no more requests";
  if (!isDraining_) {
    itx_request request = requestOf(submit);
    status = itx_engine_submit(engine_, &request, &number);
    problem = status == ITX_OK ? "" : itx_last_error();
  }
  if (status != ITX_OK)
    return stream_->append(writeMessage(Refused{submit.tag, itx_status_name(status), problem}));
  requests_[number] = {frontEnd_, std::max(submit.samples, 1)};
  stream_->append(writeMessage(Accepted{submit.tag, number}));
}

void Server::sendStatistics(uint64_t tag) {
  itx_engine_stats stats = {};
  stats.struct_bytes = sizeof(stats);
  if (itx_engine_get_stats(engine_, &stats) != ITX_OK)
    return turnAway(error(ITX_INTERNAL, "%s", itx_last_error()));
  Json values = {{"waiting", stats.waiting},
                 {"running", stats.running},
                 {"pages", stats.pages},
                 {"free_pages", stats.free_pages},
                 {"kept_tokens", stats.kept_tokens},
                 {"steps", stats.steps},
                 {"prompt_tokens", stats.prompt_tokens},
                 {"cached_tokens", stats.cached_tokens},
                 {"generated_tokens", stats.generated_tokens},
                 {"draft_tokens", stats.draft_tokens},
                 {"accepted_tokens", stats.accepted_tokens},
                 {"recomputed_sequences", stats.recomputed_sequences},
                 {"moved_sequences", stats.moved_sequences},
                 {"lost_sequences", stats.lost_sequences},
                 {"preemptions", stats.preemptions},
                 {"finished", stats.finished},
                 {"step_seconds", stats.step_seconds},
                 {"engine_seconds", stats.engine_seconds},
                 {"token_seconds", stats.token_seconds},
                 {"prompt_rate", stats.prompt_rate}};
  stream_->append(writeMessage(Statistics{tag, jsonText(values)}));
}

Status Server::takeEvents() {
  size_t count = taken_.size();
  while (count == taken_.size() && (!stream_ || stream_->pendingBytes() < mostPendingBytes)) {
    if (itx_engine_poll(engine_, 0, taken_.data(), taken_.size(), &count) != ITX_OK)
      return error(ITX_INTERNAL, "the engine has failed: %s", itx_last_error());
    for (size_t i = 0; i < count; ++i)
      add(taken_[i]);
  }
  sendEvents();
  return Status::success();
}

/// Copies an event into the message of its step; what it points to is valid until the next poll.
void Server::add(const itx_engine_event &event) {
  auto at = requests_.find(event.request);
  if (at == requests_.end())
    return;
  bool isOurs = at->second.frontEnd == frontEnd_ && stream_;
  if (event.kind == ITX_EVENT_FINISHED) {
    masks_.forget(event.request, event.sample);
    if (--at->second.samplesLeft == 0)
      requests_.erase(at);
  }
  if (!isOurs)
    return;
  if (event.step != events_.step)
    sendEvents();
  events_.step = event.step;
  std::string message = event.message ? event.message : "";
  events_.messages += message;
  for (size_t i = 0; i < event.top_count; ++i)
    events_.top.push_back({event.top[i].token, event.top[i].value});
  events_.events.push_back({uint8_t(event.kind), uint8_t(event.finish), uint16_t(event.top_count), event.sample,
                            event.request, event.token, event.logprob, uint32_t(message.size()), event.prompt_tokens,
                            event.cached_tokens, event.tokens, event.waited_seconds, event.prompt_seconds});
}

void Server::sendEvents() {
  if (!events_.events.empty() && stream_)
    stream_->append(writeMessage(events_));
  events_.events.clear();
  events_.top.clear();
  events_.messages.clear();
}

void Server::takeSignal() {
  signalfd_siginfo information;
  if (read(signals_, &information, sizeof(information)) != sizeof(information))
    return;
  int signal = int(information.ssi_signo);
  if (isDraining_)
    _exit(128 + signal);
  drain(strsignal(signal));
}

void Server::drain(const char *why) {
  if (!isDraining_)
    std::fprintf(stderr, "ending (%s); %zu requests are finished first\n", why, requests_.size());
  isDraining_ = true;
}

void Server::leave(const std::string &why) {
  size_t cancelled = 0;
  for (auto &[number, request] : requests_)
    if (request.frontEnd == frontEnd_) {
      itx_engine_cancel(engine_, number);
      ++cancelled;
    }
  masks_.disconnect();
  stream_.reset();
  std::fprintf(stderr, "%s; %zu requests are cancelled\n", why.c_str(), cancelled);
}

void Server::turnAway(Socket socket, const Status &status) {
  std::string message = writeMessage(Problem{itx_status_name(status.code()), status.message()});
  (void)!::send(socket.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  // Closing a connection before its other end has read would take the message away.
  (void)shutdown(socket.get(), SHUT_WR);
  turnedAway_.push_back(std::move(socket));
  if (turnedAway_.size() > mostTurnedAway)
    turnedAway_.pop_front();
}

void Server::turnAway(const Status &status) {
  (void)stream_->send();
  Socket socket = stream_->release();
  leave(status.message());
  turnAway(std::move(socket), status);
}

} // namespace intarsia::runtime
