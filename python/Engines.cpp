//===- Engines.cpp - Many requests with one model -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "python/Engines.h"

#include "intarsia/engine.h"
#include "python/Modules.h"
#include "python/Sequences.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

namespace intarsia::python {
namespace {

using Ids = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Biases = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bits = nb::ndarray<uint32_t, nb::numpy, nb::ndim<1>>;

/// An event with what its pointers point to.
struct Event {
  itx_engine_event event;
  std::vector<std::pair<int64_t, float>> top;
  std::optional<std::string> message;
};

/// Seconds between two looks at the signals of the process, while a caller waits for events.
constexpr double signalSeconds = 0.05;
/// Events that are taken at once.
constexpr size_t mostEvents = 1024;

/// The fields of itx_mock_options, without the first.
using Mock = std::tuple<int64_t, int64_t, int64_t, int64_t, double, double, uint64_t>;

/// Takes events with a function like itx_engine_poll, which may be called while others run.
template <typename Poll> std::vector<Event> takeEvents(std::optional<double> timeout, Poll poll) {
  std::vector<itx_engine_event> events(mostEvents);
  size_t count = 0;
  double rest = timeout.value_or(1e9);
  while (true) {
    double slice = std::min(rest, signalSeconds);
    if (slice > 0)
      checkUnlocked([&] { return poll(slice, events.data(), events.size(), &count); });
    else
      check(poll(0, events.data(), events.size(), &count));
    if (count != 0 || rest <= slice)
      break;
    rest -= slice;
    if (PyErr_CheckSignals() != 0)
      throw nb::python_error();
  }
  std::vector<Event> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    Event &made = result.emplace_back(Event{events[i], {}, {}});
    for (size_t k = 0; k < events[i].top_count; ++k)
      made.top.push_back({events[i].top[k].token, events[i].top[k].value});
    if (events[i].message)
      made.message = events[i].message;
  }
  return result;
}

/// The events of some requests, which end with it.
class EventQueue {
public:
  explicit EventQueue(itx_engine *engine) { check(itx_event_queue_create(engine, &queue_)); }
  EventQueue(const EventQueue &) = delete;
  ~EventQueue() { close(); }

  void close() {
    itx_event_queue *queue = std::exchange(queue_, nullptr);
    nb::gil_scoped_release unlocked;
    itx_event_queue_free(queue);
  }
  std::vector<Event> poll(std::optional<double> timeout) {
    return takeEvents(timeout,
                      [queue = handle()](double seconds, itx_engine_event *events, size_t capacity, size_t *count) {
                        return itx_event_queue_poll(queue, seconds, events, capacity, count);
                      });
  }
  int32_t fileno() const { return itx_event_queue_descriptor(handle()); }
  itx_event_queue *handle() const {
    if (!queue_)
      throw ItxError{ITX_INVALID_ARGUMENT, "the queue of events is closed"};
    return queue_;
  }

private:
  itx_event_queue *queue_ = nullptr;
};

class Engine {
public:
  Engine(const Module *module, const std::optional<Mock> &mock, int64_t sequences, int64_t pages, uint64_t bytes,
         const std::optional<std::filesystem::path> &spillFolder, uint64_t spillMemory, uint64_t spillFiles,
         const Module *draft, int64_t waiting, int64_t stepTokens, double tokenSeconds, int64_t keptTokens,
         bool hasFollowers, nb::object mask)
      : mask_(std::move(mask)) {
    itx_cache_options cache = {sizeof(cache), sequences, pages, bytes, spillFolder ? spillFolder->c_str() : nullptr,
                               spillMemory,   spillFiles};
    itx_engine_options options = {};
    options.struct_bytes = sizeof(options);
    options.cache = &cache;
    options.draft = draft ? draft->handle() : nullptr;
    options.waiting = waiting;
    options.step_tokens = stepTokens;
    options.token_seconds = tokenSeconds;
    options.kept_tokens = keptTokens;
    options.has_followers = hasFollowers;
    if (!mask_.is_none()) {
      options.mask = findMasks;
      options.mask_user = this;
    }
    if (module) {
      checkUnlocked([&] { return itx_engine_create(module->handle(), &options, &engine_); });
    } else {
      itx_mock_options given = {};
      given.struct_bytes = sizeof(given);
      std::tie(given.vocabulary, given.context, given.page_tokens, given.stop_token, given.step_seconds,
               given.token_seconds, given.seed) = mock.value();
      checkUnlocked([&] { return itx_engine_create_mock(&given, &options, &engine_); });
    }
    itx_cache *made = nullptr;
    check(itx_engine_cache(engine_, &made));
    itx_cache_info info = {};
    info.struct_bytes = sizeof(info);
    itx_status status = itx_cache_get_info(made, &info);
    itx_cache_free(made);
    check(status);
    maskWords_ = size_t(info.vocabulary + 31) / 32;
  }
  Engine(const Engine &) = delete;
  ~Engine() { close(); }

  /// Ends all requests. The thread may be in a call of `mask`, which needs the lock of the interpreter.
  void close() {
    itx_engine *engine = std::exchange(engine_, nullptr);
    nb::gil_scoped_release unlocked;
    itx_engine_free(engine);
  }

  uint64_t submit(const Ids &prompt, int64_t maxTokens, int64_t minTokens, const Ids &stopTokens, double temperature,
                  int64_t topK, double topP, double minP, double repetition, double presence, double frequency,
                  const Ids &biasTokens, const Biases &biasValues, std::optional<int64_t> seed, uint32_t spawn,
                  int32_t samples, int32_t logprobs, int32_t promptLogprobs, int32_t draftTokens, bool hasMask,
                  int32_t priority, double deadline, const std::string &key, const std::string &salt,
                  const EventQueue *queue) {
    itx_request request = {};
    request.struct_bytes = sizeof(request);
    request.prompt = prompt.data();
    request.prompt_count = prompt.size();
    request.max_tokens = maxTokens;
    request.min_tokens = minTokens;
    request.stop_tokens = stopTokens.data();
    request.stop_count = stopTokens.size();
    request.temperature = temperature;
    request.top_k = topK;
    request.top_p = topP;
    request.min_p = minP;
    request.repetition_penalty = repetition;
    request.presence_penalty = presence;
    request.frequency_penalty = frequency;
    request.bias_tokens = biasTokens.data();
    request.bias_values = biasValues.data();
    request.bias_count = biasTokens.size();
    request.seed = seed.value_or(0);
    request.has_seed = seed.has_value();
    request.seed_spawn = spawn;
    request.samples = samples;
    request.logprobs = logprobs;
    request.prompt_logprobs = promptLogprobs;
    request.draft_tokens = draftTokens;
    request.has_mask = hasMask;
    request.priority = priority;
    request.deadline_seconds = deadline;
    request.key = key.c_str();
    request.salt = salt.c_str();
    request.queue = queue ? queue->handle() : nullptr;
    uint64_t number = 0;
    check(itx_engine_submit(handle(), &request, &number));
    return number;
  }

  void cancel(uint64_t number) { itx_engine_cancel(handle(), number); }

  std::vector<Event> poll(std::optional<double> timeout) {
    return takeEvents(timeout,
                      [engine = handle()](double seconds, itx_engine_event *events, size_t capacity, size_t *count) {
                        return itx_engine_poll(engine, seconds, events, capacity, count);
                      });
  }
  std::unique_ptr<EventQueue> queue() { return std::make_unique<EventQueue>(handle()); }

  int32_t fileno() const { return itx_engine_descriptor(handle()); }

  nb::dict stats() const {
    itx_engine_stats stats = {};
    stats.struct_bytes = sizeof(stats);
    check(itx_engine_get_stats(handle(), &stats));
    nb::dict result;
    result["waiting"] = stats.waiting;
    result["running"] = stats.running;
    result["pages"] = stats.pages;
    result["free_pages"] = stats.free_pages;
    result["kept_tokens"] = stats.kept_tokens;
    result["steps"] = stats.steps;
    result["prompt_tokens"] = stats.prompt_tokens;
    result["cached_tokens"] = stats.cached_tokens;
    result["generated_tokens"] = stats.generated_tokens;
    result["draft_tokens"] = stats.draft_tokens;
    result["accepted_tokens"] = stats.accepted_tokens;
    result["recomputed_sequences"] = stats.recomputed_sequences;
    result["moved_sequences"] = stats.moved_sequences;
    result["lost_sequences"] = stats.lost_sequences;
    result["preemptions"] = stats.preemptions;
    nb::list finished;
    for (int64_t count : stats.finished)
      finished.append(count);
    result["finished"] = finished;
    result["step_seconds"] = stats.step_seconds;
    result["engine_seconds"] = stats.engine_seconds;
    result["token_seconds"] = stats.token_seconds;
    result["prompt_rate"] = stats.prompt_rate;
    return result;
  }

  /// For a Cache.
  nb::capsule cache() const {
    itx_cache *cache = nullptr;
    check(itx_engine_cache(handle(), &cache));
    return toCapsule(cache);
  }
  /// `sequence`: what Sequence.release has given.
  void keep(const nb::capsule &sequence, const std::string &salt) {
    itx_engine *engine = handle();
    itx_sequence *given = sequenceOf(sequence);
    itx_status status = itx_engine_keep(engine, given, salt.c_str());
    if (status != ITX_OK)
      itx_sequence_free(given);
    check(status);
  }
  /// For a Sequence.
  nb::capsule fork(const Ids &tokens, const std::string &salt) {
    itx_sequence *made = nullptr;
    itx_engine *engine = handle();
    checkUnlocked([&] { return itx_engine_fork(engine, tokens.data(), tokens.size(), salt.c_str(), &made); });
    return toCapsule(made);
  }
  void setDraft(const Module *draft) {
    itx_engine *engine = handle();
    checkUnlocked([&] { return itx_engine_set_draft(engine, draft ? draft->handle() : nullptr); });
  }
  void follow() {
    itx_engine *engine = handle();
    checkUnlocked([&] { return itx_engine_follow(engine); });
  }

private:
  itx_engine *handle() const {
    if (!engine_)
      throw ItxError{ITX_INVALID_ARGUMENT, "the engine is closed"};
    return engine_;
  }

  /// Calls `mask` with a list of (request, sample, tokens, bits); it returns `complete` of each.
  static int32_t findMasks(void *user, itx_mask_row *rows, size_t count) {
    auto &engine = *static_cast<Engine *>(user);
    nb::gil_scoped_acquire locked;
    try {
      nb::list given;
      for (size_t i = 0; i < count; ++i) {
        nb::list tokens;
        for (size_t t = 0; t < rows[i].token_count; ++t)
          tokens.append(rows[i].tokens[t]);
        given.append(nb::make_tuple(rows[i].request, rows[i].sample, tokens,
                                    nb::cast(Bits(rows[i].bits, {engine.maskWords_}), nb::rv_policy::reference)));
      }
      auto complete = nb::cast<std::vector<int32_t>>(engine.mask_(given));
      for (size_t i = 0; i < count && i < complete.size(); ++i)
        rows[i].complete = complete[i];
      return complete.size() == count ? 0 : 1;
    } catch (const std::exception &) {
      return 1; // `mask` keeps its errors for the events
    }
  }

  itx_engine *engine_ = nullptr;
  nb::object mask_;
  size_t maskWords_ = 0;
};

} // namespace

void bindEngines(nb::module_ &m) {
  nb::class_<Event>(m, "Event")
      .def_prop_ro("kind", [](const Event &event) { return int(event.event.kind); })
      .def_prop_ro("finish", [](const Event &event) { return int(event.event.finish); })
      .def_prop_ro("request", [](const Event &event) { return event.event.request; })
      .def_prop_ro("sample", [](const Event &event) { return event.event.sample; })
      .def_prop_ro("token", [](const Event &event) { return event.event.token; })
      .def_prop_ro("logprob", [](const Event &event) { return event.event.logprob; })
      .def_prop_ro("step", [](const Event &event) { return event.event.step; })
      .def_prop_ro("prompt_tokens", [](const Event &event) { return event.event.prompt_tokens; })
      .def_prop_ro("cached_tokens", [](const Event &event) { return event.event.cached_tokens; })
      .def_prop_ro("tokens", [](const Event &event) { return event.event.tokens; })
      .def_prop_ro("waited_seconds", [](const Event &event) { return event.event.waited_seconds; })
      .def_prop_ro("prompt_seconds", [](const Event &event) { return event.event.prompt_seconds; })
      .def_prop_ro("status", [](const Event &event) { return std::string(itx_status_name(event.event.status)); })
      .def_ro("top", &Event::top)
      .def_rw("message", &Event::message);
  nb::class_<EventQueue>(m, "EventQueue")
      .def("close", &EventQueue::close)
      .def("poll", &EventQueue::poll, nb::arg("timeout").none())
      .def("fileno", &EventQueue::fileno);
  nb::class_<Engine>(m, "Engine")
      .def(nb::init<const Module *, const std::optional<Mock> &, int64_t, int64_t, uint64_t,
                    const std::optional<std::filesystem::path> &, uint64_t, uint64_t, const Module *, int64_t, int64_t,
                    double, int64_t, bool, nb::object>(),
           nb::arg("module").none(), nb::arg("mock").none(), nb::arg("sequences"), nb::arg("pages"), nb::arg("bytes"),
           nb::arg("spill_folder").none(), nb::arg("spill_memory"), nb::arg("spill_files"), nb::arg("draft").none(),
           nb::arg("waiting"), nb::arg("step_tokens"), nb::arg("token_seconds"), nb::arg("kept_tokens"),
           nb::arg("has_followers"), nb::arg("mask").none())
      .def("close", &Engine::close)
      .def("submit", &Engine::submit, nb::arg("prompt"), nb::arg("max_tokens"), nb::arg("min_tokens"),
           nb::arg("stop_tokens"), nb::arg("temperature"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"),
           nb::arg("repetition_penalty"), nb::arg("presence_penalty"), nb::arg("frequency_penalty"),
           nb::arg("bias_tokens"), nb::arg("bias_values"), nb::arg("seed").none(), nb::arg("seed_spawn"),
           nb::arg("samples"), nb::arg("logprobs"), nb::arg("prompt_logprobs"), nb::arg("draft_tokens"),
           nb::arg("has_mask"), nb::arg("priority"), nb::arg("deadline_seconds"), nb::arg("key"), nb::arg("salt"),
           nb::arg("queue").none())
      .def("cancel", &Engine::cancel, nb::arg("number"))
      .def("poll", &Engine::poll, nb::arg("timeout").none())
      .def("fileno", &Engine::fileno)
      .def("queue", &Engine::queue)
      .def("stats", &Engine::stats)
      .def("cache", &Engine::cache)
      .def("keep", &Engine::keep, nb::arg("sequence"), nb::arg("salt"))
      .def("fork", &Engine::fork, nb::arg("tokens"), nb::arg("salt"))
      .def("set_draft", &Engine::setDraft, nb::arg("draft").none())
      .def("follow", &Engine::follow);
}

} // namespace intarsia::python
