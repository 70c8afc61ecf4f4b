//===- Profile.cpp - A record of launches, written as Chrome-trace JSON -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Profile.h"

#include "intarsia/Version.h"
#include "lib/Support/File.h"
#include "lib/Support/Json.h"

#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace intarsia::runtime {

std::atomic<bool> profiling{false};

namespace {
struct Recorded {
  ProfileEvent event;
  int64_t thread;
};
struct Record {
  std::mutex mutex;
  std::vector<Recorded> events;
  int64_t startNs = 0;
};
} // namespace

/// Returns the record. A child of a fork records nothing until it asks for it, and must not wait for its parent's lock.
static Record &record() {
  static Record *instance = [] {
    auto *result = new Record;
    pthread_atfork(nullptr, nullptr, [] {
      profiling.store(false);
      new (&record().mutex) std::mutex;
    });
    return result;
  }();
  return *instance;
}

int64_t profileClockNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void recordEvent(ProfileEvent event) {
  static thread_local int64_t thread = syscall(SYS_gettid);
  Record &current = record();
  std::lock_guard lock(current.mutex);
  if (isProfiling())
    current.events.push_back({std::move(event), thread});
}

int64_t profileStartNs() {
  Record &current = record();
  std::lock_guard lock(current.mutex);
  return current.startNs;
}

void startProfile() {
  Record &current = record();
  std::lock_guard lock(current.mutex);
  current.events.clear();
  current.startNs = profileClockNs();
  profiling.store(true);
}

/// Tracks of devices are shown as threads with numbers that no thread has: Linux numbers them up to 2^22 (PID_MAX_LIMIT
/// in its include/linux/threads.h).
static constexpr int64_t firstDeviceTrack = (1 << 22) + 1;

/// Returns the tracks of all queues of devices that did something.
static std::map<std::pair<std::string, uint32_t>, int64_t> deviceTracks(const std::vector<Recorded> &events) {
  std::map<std::pair<std::string, uint32_t>, int64_t> tracks;
  for (const Recorded &recorded : events)
    if (recorded.event.device)
      tracks.emplace(std::pair(recorded.event.device, recorded.event.queue), 0);
  int64_t next = firstDeviceTrack;
  for (auto &[queue, track] : tracks)
    track = next++;
  return tracks;
}

/// Returns an event as JSON; `track` is the number of the thread that it is shown at.
static std::string eventText(const ProfileEvent &event, int64_t process, int64_t track, int64_t startNs) {
  Json arguments = Json::object();
  if (!event.label.empty())
    arguments["label"] = event.label;
  if (event.device)
    arguments["device"] = event.device;
  if (event.threads != 0) {
    arguments["tiles"] = event.tiles;
    arguments["threads"] = event.threads;
  }
  if (event.cycles > 0) {
    arguments["cycles"] = event.cycles;
    arguments["rows"] = event.rows;
    if (event.joules > 0)
      arguments["joules"] = event.joules;
  }
  return jsonText({{"ph", "X"},
                   {"cat", event.category},
                   {"name", event.name},
                   {"pid", process},
                   {"tid", track},
                   {"ts", double(event.beginNs - startNs) / 1e3},
                   {"dur", double(event.endNs - event.beginNs) / 1e3},
                   {"args", arguments}});
}

// These run once for a profile, so that less code is better than faster code.
__attribute__((cold)) Status takeProfile(std::string &text) {
  Record &current = record();
  std::vector<Recorded> events;
  int64_t startNs;
  {
    std::lock_guard lock(current.mutex);
    if (!profiling.exchange(false))
      return error(ITX_INVALID_ARGUMENT, "no profile is being recorded");
    events.swap(current.events);
    startNs = current.startNs;
  }
  int64_t process = getpid();
  text =
      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"producer\":\"intarsia " INTARSIA_VERSION "\"},\"traceEvents\":[\n";
  text += jsonText({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", "intarsia"}}}});
  std::map<std::pair<std::string, uint32_t>, int64_t> tracks = deviceTracks(events);
  for (const auto &[queue, track] : tracks)
    text += ",\n" + jsonText({{"ph", "M"},
                              {"name", "thread_name"},
                              {"pid", process},
                              {"tid", track},
                              {"args", {{"name", queue.first + " queue " + std::to_string(queue.second)}}}});
  for (const Recorded &recorded : events) {
    const ProfileEvent &event = recorded.event;
    int64_t track = event.device ? tracks.at({event.device, event.queue}) : recorded.thread;
    text += ",\n" + eventText(event, process, track, startNs);
  }
  text += "\n]}\n";
  return Status::success();
}

__attribute__((cold)) Status stopProfile(const std::string &path) {
  std::string text;
  ITX_RETURN_IF_ERROR(takeProfile(text));
  if (path.empty())
    return Status::success();
  std::unique_ptr<AtomicFile> file;
  ITX_RETURN_IF_ERROR(AtomicFile::create(path, file));
  ITX_RETURN_IF_ERROR(file->write(text.data(), text.size()));
  return file->commit();
}

} // namespace intarsia::runtime
