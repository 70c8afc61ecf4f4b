//===- GpuGraphs.cpp - Launches that repeat, started as one graph -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuGraphs.h"

#include <algorithm>

namespace intarsia::runtime {

std::vector<void *> GpuStart::pointers() const {
  std::vector<void *> result; // drivers copy what they point to, and write to none of them
  for (const uint64_t &argument : arguments)
    result.push_back(const_cast<uint64_t *>(&argument));
  for (size_t i = 0; i < tensors.size(); i += std::tuple_size_v<GpuTensorDescriptor>)
    result.push_back(const_cast<uint64_t *>(&tensors[i]));
  return result;
}

bool GpuStart::hasShapeOf(const GpuStart &other) const {
  return function == other.function && grid.blocks == other.grid.blocks && grid.threads == other.grid.threads &&
         grid.sharedBytes == other.grid.sharedBytes && arguments.size() == other.arguments.size() &&
         tensors.size() == other.tensors.size();
}

bool GpuGraphs::sameShape(const std::vector<GpuStart> &left, const std::vector<GpuStart> &right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const GpuStart &one, const GpuStart &other) { return one.hasShapeOf(other); });
}

// ---- Launches -------------------------------------------------------------------------------------------------

Status GpuGraphs::launch(void *stream, const GpuStart &launch) {
  GpuResult result = driver_.launch(launch.function, launch.grid, stream, launch.pointers().data());
  if (result.ok())
    return Status::success();
  const GpuGrid &grid = launch.grid;
  return state_.fail(result, format("start kernel '%s' (%s), function '%s' with %u x %u x %u blocks of %u x %u x %u "
                                    "threads",
                                    launch.kernel, launch.label, launch.name, grid.blocks[0], grid.blocks[1],
                                    grid.blocks[2], grid.threads[0], grid.threads[1], grid.threads[2]));
}

/// Starts one by one what was kept back. After a failure nothing of it is left, and whoever waits for it is told; the
/// caller of start() is told of its own launch at once.
Status GpuGraphs::launchKept(void *stream, bool isInStart) {
  expected_ = nullptr;
  // The code of what was kept back may be unloaded when a device is lost: nobody can wait for it any more.
  if (Status status = state_.status(); !status.ok()) {
    batch_.clear();
    started_ = 0;
    return status;
  }
  for (; started_ < batch_.size(); ++started_)
    if (Status status = launch(stream, batch_[started_]); !status.ok()) {
      if (!isInStart || started_ + 1 != batch_.size()) {
        failedFirst_ = batch_[started_].index;
        failedLast_ = batch_.back().index;
        failure_ = status;
      }
      batch_.clear();
      started_ = 0;
      return status;
    }
  return Status::success();
}

Status GpuGraphs::failureOf(uint64_t index) const {
  return index >= failedFirst_ && index <= failedLast_ ? failure_ : Status::success();
}

Status GpuGraphs::start(void *stream, GpuStart launched) {
  // A function of code that was unloaded may have the address of another one now.
  if (uint64_t unloads = state_.unloads(); unloads != unloads_) {
    ITX_RETURN_IF_ERROR(flush(stream));
    clear();
    unloads_ = unloads;
  }
  if (batch_.size() == most)
    ITX_RETURN_IF_ERROR(flush(stream));
  bool isLike = batch_.empty() || expected_;
  batch_.push_back(std::move(launched));
  if (isLike && !(expected_ && expected_->launches[batch_.size() - 1].hasShapeOf(batch_.back())))
    expected_ = findLike(batch_);
  if (!expected_)
    return launchKept(stream, /*isInStart=*/true);
  return batch_.size() == expected_->launches.size() ? replay(stream) : Status::success();
}

/// Returns the latest graph whose launches begin with the shapes of these; null if there is none.
GpuGraphs::Graph *GpuGraphs::findLike(const std::vector<GpuStart> &begin) {
  for (Graph &graph : graphs_)
    if (graph.launches.size() >= begin.size() &&
        std::equal(begin.begin(), begin.end(), graph.launches.begin(),
                   [](const GpuStart &one, const GpuStart &other) { return one.hasShapeOf(other); }))
      return &graph;
  return nullptr;
}

Status GpuGraphs::flush(void *stream) {
  Status status = launchKept(stream, /*isInStart=*/false);
  if (status.ok())
    remember();
  batch_.clear();
  started_ = 0;
  return status;
}

// ---- Graphs ---------------------------------------------------------------------------------------------------

/// Gives a graph the arguments of the batch.
GpuResult GpuGraphs::update(Graph &graph) {
  for (size_t i = 0; i < batch_.size(); ++i) {
    if (batch_[i].hasArgumentsOf(graph.launches[i]))
      continue;
    if (GpuResult result = driver_.setGraphNode(graph.instance, graph.nodes[i], batch_[i].function, batch_[i].grid,
                                                batch_[i].pointers().data());
        !result.ok())
      return result;
    graph.launches[i].arguments = batch_[i].arguments;
    graph.launches[i].tensors = batch_[i].tensors;
  }
  return {};
}

/// Starts the graph whose launches have all come.
Status GpuGraphs::replay(void *stream) {
  Graph &graph = *expected_;
  expected_ = nullptr;
  GpuResult result = update(graph);
  if (result.ok())
    result = driver_.launchGraph(graph.instance, stream);
  if (result.failure == GpuFailure::Lost) {
    batch_.clear();
    started_ = 0;
    return state_.fail(result, "start a graph of launches");
  }
  if (result.ok()) {
    batch_.clear(); // the next launch begins a batch
    started_ = 0;
    return Status::success();
  }
  // The launches do the same without it.
  drop(graph);
  std::erase_if(graphs_, [&](const Graph &one) { return !one.instance; });
  return launchKept(stream, /*isInStart=*/true);
}

/// Makes a graph of the batch if there was one like it; otherwise remembers its shape.
void GpuGraphs::remember() {
  if (!isSupported_ || batch_.size() < fewest || std::any_of(graphs_.begin(), graphs_.end(), [&](const Graph &graph) {
        return sameShape(graph.launches, batch_);
      }))
    return;
  auto found = std::find_if(before_.begin(), before_.end(),
                            [&](const std::vector<GpuStart> &shape) { return sameShape(shape, batch_); });
  if (found == before_.end()) {
    before_.insert(before_.begin(), batch_);
    before_.resize(std::min(before_.size(), kept));
    return;
  }
  before_.erase(found);
  if (graphs_.size() == kept) {
    drop(graphs_.back());
    graphs_.pop_back();
  }
  Graph graph;
  graph.launches = batch_;
  // A graph only saves time: whatever a driver cannot do with it, it does with launches.
  if (build(graph).ok()) {
    graphs_.push_front(std::move(graph));
    return;
  }
  drop(graph);
  isSupported_ = false;
}

GpuResult GpuGraphs::build(Graph &graph) {
  GpuResult result = driver_.createGraph(graph.graph);
  void *previous = nullptr;
  for (const GpuStart &launch : graph.launches) {
    if (!result.ok())
      return result;
    result =
        driver_.addGraphNode(graph.graph, previous, launch.function, launch.grid, launch.pointers().data(), previous);
    graph.nodes.push_back(previous);
  }
  return result.ok() ? driver_.instantiateGraph(graph.graph, graph.instance) : result;
}

void GpuGraphs::drop(Graph &graph) {
  driver_.destroyGraph(graph.graph, graph.instance);
  graph.graph = graph.instance = nullptr;
}

void GpuGraphs::clear() {
  expected_ = nullptr;
  for (Graph &graph : graphs_)
    drop(graph);
  graphs_.clear();
  before_.clear();
}

} // namespace intarsia::runtime
