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

void startProfile() {
  Record &current = record();
  std::lock_guard lock(current.mutex);
  current.events.clear();
  current.startNs = profileClockNs();
  profiling.store(true);
}

Status stopProfile(const std::string &path) {
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
  if (path.empty())
    return Status::success();
  std::unique_ptr<AtomicFile> file;
  ITX_RETURN_IF_ERROR(AtomicFile::create(path, file));
  int64_t process = getpid();
  std::string text =
      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"producer\":\"intarsia " INTARSIA_VERSION "\"},\"traceEvents\":[\n";
  text += jsonText({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", "intarsia"}}}});
  for (const Recorded &recorded : events) {
    const ProfileEvent &event = recorded.event;
    Json arguments = Json::object();
    if (!event.label.empty())
      arguments["label"] = event.label;
    if (event.threads != 0) {
      arguments["tiles"] = event.tiles;
      arguments["threads"] = event.threads;
    }
    text += ",\n" + jsonText({{"ph", "X"},
                              {"cat", event.category},
                              {"name", event.name},
                              {"pid", process},
                              {"tid", recorded.thread},
                              {"ts", double(event.beginNs - startNs) / 1e3},
                              {"dur", double(event.endNs - event.beginNs) / 1e3},
                              {"args", arguments}});
    if (text.size() > 1 << 20) {
      ITX_RETURN_IF_ERROR(file->write(text.data(), text.size()));
      text.clear();
    }
  }
  text += "\n]}\n";
  ITX_RETURN_IF_ERROR(file->write(text.data(), text.size()));
  return file->commit();
}

} // namespace intarsia::runtime
