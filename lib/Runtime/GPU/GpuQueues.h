//===- GpuQueues.h - Work of a GPU in order, and when it is done ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUQUEUES_H
#define INTARSIA_RUNTIME_GPU_GPUQUEUES_H

#include "intarsia/module_abi.h"
#include "lib/Runtime/GPU/GpuGraphs.h"
#include "lib/Runtime/GPU/GpuMemory.h"
#include "lib/Runtime/GPU/GpuStaging.h"
#include "lib/Runtime/GPU/GpuTimings.h"

namespace intarsia::runtime {

class Executable;
struct Launch;

/// The queues of a device, each a stream of the driver. A piece of work has an index in its queue, from 1 on; its event
/// is the queue's number times 2^48 plus the index. The driver is asked for an event of its own only when somebody
/// waits, since that costs as much as half a launch.
class GpuQueues {
public:
  /// A queue while work is put on it: other threads wait, and the device is the calling thread's.
  class Submission;

  GpuQueues(GpuDriver &driver, GpuState &state, GpuMemory &memory, const char *device)
      : driver_(driver), state_(state), memory_(memory), marks_(driver), staging_(driver, state, marks_),
        timings_(driver, device) {}

  /// Makes the streams. The device must have been entered here, and before each other call but wait().
  Status start(int device, uint32_t queues);
  /// Waits until the event has happened.
  Status wait(itx_event event);
  /// Waits for all work and frees what belongs to the queues; what the driver says is of no interest any more.
  void finish();

private:
  struct Marked {
    uint64_t index;
    GpuMark mark;
  };
  struct Queue {
    void *stream = nullptr;
    uint64_t issued = 0;           ///< index of the last piece of work
    uint64_t done = 0;             ///< all work up to this index is known to be done
    std::deque<Marked> marks;      ///< in ascending order, after `done`
    std::vector<uint64_t> awaited; ///< for each queue the index up to which this one waits for it
    void *scratch = nullptr;       ///< memory that the queue's launches use one after another
    uint64_t scratchBytes = 0;
    std::unique_ptr<GpuGraphs> graphs; ///< its launches
  };

  Status find(itx_event event, uint32_t &queue, uint64_t &index) const;
  Status markAfter(Queue &queue, uint64_t index, Marked &marked);

  GpuDriver &driver_;
  GpuState &state_;
  GpuMemory &memory_;
  int device_ = 0;
  mutable std::mutex mutex_; ///< of all that follows
  GpuMarks marks_;
  GpuStaging staging_;
  GpuTimings timings_;
  std::vector<Queue> queues_;
};

class GpuQueues::Submission {
public:
  /// Takes the lock. Check status() before anything else.
  Submission(GpuQueues &queues, uint32_t queue)
      : queues_(queues), lock_(queues.mutex_), entered_(queues.driver_, queues.device_), number_(queue),
        queue_(queues.queues_[queue]) {}

  /// Returns an error if the device could not be entered.
  Status status() { return queues_.state_.check(entered_.result(), "be used by this thread"); }
  /// Lets what follows wait for events.
  Status waitFor(const itx_event *after, uint32_t count);
  /// Begins the record of the work in a profile.
  void begin(const char *category, std::string name, std::string label) {
    if (!isProfiling())
      return;
    (void)flush(); // its failure is reported where its launches are waited for
    queues_.timings_.begin(number_, queue_.stream, category, std::move(name), std::move(label));
  }
  /// Starts a launch, at once or with those that follow. Each is seen by itself in a profile.
  Status launch(GpuStart launch) {
    launch.index = queue_.issued + 1;
    ITX_RETURN_IF_ERROR(queue_.graphs->start(queue_.stream, std::move(launch)));
    return isProfiling() ? queue_.graphs->flush(queue_.stream) : Status::success();
  }
  /// Starts the launches that were kept back, before something else is put on the stream.
  Status flush() { return queue_.graphs->flush(queue_.stream); }
  /// Returns memory for the launches of one kernel, which may be what those before it used.
  Status scratch(uint64_t bytes, const Launch &launch, void *&address);
  /// Notes a launch that is about to be started, so that a fault can name it.
  void note(const char *name, const char *label, const Executable *executable) {
    queues_.state_.history().note(number_, queue_.issued + 1, name, label, executable);
  }
  /// Ends the piece of work and returns its event; `begun` says that the stream has at least a part of it.
  itx_event end(bool begun = true);

  void *stream() const { return queue_.stream; }
  GpuStaging &staging() { return queues_.staging_; }

private:
  GpuQueues &queues_;
  std::unique_lock<std::mutex> lock_;
  EnteredGpu entered_;
  uint32_t number_;
  Queue &queue_;
};

} // namespace intarsia::runtime

#endif
