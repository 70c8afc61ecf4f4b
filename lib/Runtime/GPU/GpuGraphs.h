//===- GpuGraphs.h - Launches that repeat, started as one graph -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUGRAPHS_H
#define INTARSIA_RUNTIME_GPU_GPUGRAPHS_H

#include "lib/Runtime/GPU/GpuState.h"

#include <deque>

namespace intarsia::runtime {

/// A launch with the values of its arguments, each of 64 bits, and of the tensor maps behind them.
struct GpuStart {
  void *function = nullptr;
  GpuGrid grid;
  std::vector<uint64_t> arguments;
  std::vector<uint64_t> tensors; ///< the words of one map after the other
  uint64_t index = 0;            ///< of the work in its queue
  /// For messages; they live as long as the executable, and so as the launch.
  const char *kernel = "", *label = "", *name = "";

  /// Returns pointers to the arguments, as drivers take them.
  std::vector<void *> pointers() const;
  /// True if both are launches of one function with as many blocks, threads, shared memory and arguments.
  bool hasShapeOf(const GpuStart &other) const;
  bool hasArgumentsOf(const GpuStart &other) const { return arguments == other.arguments && tensors == other.tensors; }
};

/// Starts the launches of one queue. A batch is what is started between two points that somebody marks or copies at,
/// such as a step of a language model. When a batch has the shape of one before it, a graph of its launches is made.
/// From then on the launches of a batch that begins like it are kept back; if all of them come, the graph is started
/// instead, with the arguments that have changed, and otherwise they are started one by one. Callers hold the lock of
/// the device's queues and have entered the device.
class GpuGraphs {
public:
  /// The launches of a batch that is worth a graph: starting one takes a driver as long as a few launches. Not
  /// measured.
  static constexpr size_t fewest = 8;
  /// The launches of the longest batch that is remembered; steps of models have some hundreds.
  static constexpr size_t most = 8192;
  /// Graphs that are kept: a step for prompts and one for tokens, at two sizes.
  static constexpr size_t kept = 4;

  GpuGraphs(GpuDriver &driver, GpuState &state) : driver_(driver), state_(state) {}

  /// Starts a launch or keeps it back. An error is that of this launch or of one that was kept back.
  Status start(void *stream, GpuStart launch);
  /// Starts what was kept back and ends the batch. Comes before everything else that is put on the stream.
  Status flush(void *stream);
  /// Frees the graphs; nothing may be kept back.
  void clear();
  /// Returns the status of a launch that was kept back, by its index: a failure after start() had returned.
  Status failureOf(uint64_t index) const;

private:
  struct Graph {
    void *graph = nullptr, *instance = nullptr;
    std::vector<void *> nodes;
    std::vector<GpuStart> launches; ///< with the arguments that the instance has
  };

  Status launch(void *stream, const GpuStart &launch);
  Status launchKept(void *stream, bool isInStart);
  Graph *findLike(const std::vector<GpuStart> &begin);
  Status replay(void *stream);
  GpuResult update(Graph &graph);
  void remember();
  GpuResult build(Graph &graph);
  void drop(Graph &graph);
  static bool sameShape(const std::vector<GpuStart> &left, const std::vector<GpuStart> &right);

  GpuDriver &driver_;
  GpuState &state_;
  bool isSupported_ = true;
  uint64_t unloads_ = 0;                      ///< of the state, when the graphs were made
  std::vector<GpuStart> batch_;               ///< launches since the last flush, those kept back at its end
  size_t started_ = 0;                        ///< launches of the batch that the stream has
  Graph *expected_ = nullptr;                 ///< the batch is like its beginning so far
  std::vector<std::vector<GpuStart>> before_; ///< shapes of batches without a graph, latest first
  std::deque<Graph> graphs_;                  ///< latest first
  uint64_t failedFirst_ = 0, failedLast_ = 0;
  Status failure_;
};

} // namespace intarsia::runtime

#endif
