//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// An agent graph after decomposition, as plain data: the input of the planner and the simulator. It is free of MLIR;
// intarsia/Plan/Plan.h makes it from an agent.graph.
//
// Tasks stand in a list; the tree of regions says in which order, how often and with which probability they run,
// exactly as the user's file does. Edges say what flows between tasks. All references are indices into the lists of
// Graph; -1 is none.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_AGENTGRAPH_H
#define INTARSIA_PLAN_AGENTGRAPH_H

#include "lib/Support/Amount.h"
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace intarsia::workflow {

/// Unit of an amount.
enum class Unit { Tokens, Pixels, Seconds, Bytes, Vectors };

struct Quantity {
  Unit unit = Unit::Tokens;
  Amount amount;
};

//===-- What tasks name ---------------------------------------------------------------------------------------===//

/// A model; figures that the file does not give are unset and come from the catalogue, by `shape`.
struct Model {
  std::string name;
  std::string shape;                     ///< name in the catalogue of model shapes, or empty
  std::string module;                    ///< name of a compiled module, or empty
  std::optional<double> parameters;      ///< number of parameters
  std::optional<double> flopsPerUnit;    ///< for each unit of input; unset with `parameters`: 2 for each parameter
  std::optional<double> flopsPerOutput;  ///< for each unit of output
  std::optional<double> tokensPerUnit;   ///< encoders: tokens for each pixel or second
  std::optional<double> kvBytesPerToken; ///< bytes of cache for each token of context
  std::optional<int64_t> contextTokens;  ///< limit of prompt and answer together
  std::string cache;                     ///< element type of the cache; empty: 16 bits
  std::vector<std::string> precisions;   ///< element types that the weights may have; empty: any
};

struct Index {
  std::string name;
  int64_t vectors = 0;
  int64_t dimension = 0;
  int64_t bytesPerVector = 0;
  double visited = 1;              ///< fraction of the vectors that a search reads
  std::optional<Amount> latencyMs; ///< set if the index runs outside the fleet
};

struct Tool {
  std::string name, endpoint;
  Amount latencyMs;
  double dollarsPerCall = 0;
  std::optional<int64_t> concurrency; ///< limit of simultaneous calls, over all tasks and requests
  double failureProbability = 0;      ///< a failed call is made again
};

struct Memory {
  std::string name;
  Amount readMs, writeMs;
  std::optional<int64_t> concurrency; ///< limit of simultaneous reads and writes, over all tasks and requests
};

//===-- Tasks -------------------------------------------------------------------------------------------------===//

enum class Kind { Prefill, Decode, Encode, Embed, Search, Infer, Invoke, Compute, Read, Write };

/// Work of one execution of a prefill, in tokens.
struct Prompt {
  Amount newTokens;    ///< computed
  Amount cachedTokens; ///< found in the cache, from the run before or from instructions that requests share; read by
                       ///< attention
  /// The part of the new tokens that this model itself wrote in an earlier run. Where the prefill can reach the
  /// decode's cache they are found as well: then `newTokens` is less by this, and `cachedTokens` more.
  Amount generatedTokens;
};

/// Placement of a task by hand or by an earlier plan. Degrees are 1 if not given; `pinsPoolOnly` is then true.
struct FixedPlacement {
  std::string system, pool;
  int64_t tensor = 1, pipeline = 1, expert = 1, data = 1, parts = 1, batch = 1;
  std::optional<int64_t> replicas;
  std::string precision;
  bool aggregated = false; ///< prefill and decode in the same replicas
  bool pinsPoolOnly = true;
};

struct Task {
  std::string name; ///< unique: the label or the op's name, with the piece and a number where needed
  Kind kind = Kind::Compute;
  std::string location; ///< position in the user's file: "support.mlir:12:8"
  int model = -1, index = -1, tool = -1, memory = -1;
  std::string function; ///< Compute
  /// Milliseconds of one execution, if the task determines them and not a device: Invoke, Compute (on one core), Read,
  /// Write, and Search on an index outside the fleet.
  std::optional<Amount> latencyMs;

  std::vector<Quantity> inputs; ///< inputs of one execution, operand by operand
  Quantity output;              ///< output of one execution; for a decode the tokens that it writes, the first from the
                                ///< prefill

  Prompt prompt;                   ///< Prefill: the mean over executions
  std::vector<Prompt> promptByRun; ///< Prefill: in run 0, 1, … of the innermost loop around it; one entry without a
                                   ///< loop
  Amount contextTokens;            ///< Decode: tokens in the cache when it begins
  /// Prefill: its decode, and back; Search: its embed, and back.
  int pair = -1;
  bool answers = false; ///< Decode: its text leaves the graph; promises of first and next tokens apply to these decodes

  bool background = false; ///< Write: neither the answer nor another task waits for it
  double executions = 1;   ///< expected number in a request
  double probability = 1;  ///< probability of at least one in a request
  int64_t topK = 0;        ///< Search

  std::optional<FixedPlacement> placement;
  std::string together, apart; ///< groups that share a pool, or share none; pieces of one user's task are never apart
};

//===-- Edges -------------------------------------------------------------------------------------------------===//

enum class Flow { Text, Image, Audio, Video, Data, Vector, Features, Cache };

struct Edge {
  int from = -1; ///< a task, or -1: the request
  int to = -1;   ///< a task, or -1: the answer
  Flow flow = Flow::Text;
  /// The output of one execution of `from`; for a cache, the tokens of the prompt. Where data leaves loops and maps
  /// that `to` is not in, the values of all executions flow.
  Quantity amount;
  /// Mean bytes of the amount; unset for caches whose model has no `kvBytesPerToken`, and for features, whose size
  /// depends on the shape's hidden size. Text is 4 bytes a token, an image 3 a pixel, sound 32,000 a second (16 bits at
  /// 16 kHz), video 500,000 a second (4 Mbit/s), a vector 4 for each dimension.
  std::optional<double> bytes;
  /// `to` may start when the first `every` has arrived.
  bool streaming = false;
  std::optional<Quantity> every;
  int loop = -1; ///< region of the loop that carries the value from one run to the next
};

//===-- Structure ---------------------------------------------------------------------------------------------===//

struct Region {
  enum class Kind { Task, Dag, Branch, Loop, Map };
  /// Child `to` starts when child `from` has ended (both are positions in `children`, from < to) and the data of the
  /// edges has arrived. Streaming: when the first part of it has arrived; `from` is then a task.
  struct Arc {
    int from = 0, to = 0;
    std::vector<int> edges;
    bool streaming = false;
  };
  Kind kind = Kind::Task;
  std::string name;     ///< name of a case or of the user's deciding function, or empty
  std::string location; ///< in the user's file
  /// Dag: any number, also none. Branch: a Dag for each case. Loop, Map: one Dag.
  std::vector<int> children;
  int parent = -1;

  int task = -1;                     ///< Task
  std::vector<int> entryEdges;       ///< Task: edges from the request
  std::vector<Arc> arcs;             ///< Dag
  std::vector<double> probabilities; ///< Branch: probability of each child; the sum is 1
  /// Loop: (runs, probability). Map: (items, probability). The list is complete; a width that varies continuously is
  /// rounded, in 512 equally probable steps.
  std::vector<std::pair<int64_t, double>> counts;
  std::vector<int> backEdges;         ///< Loop: edges from one run to the next
  bool keepsPrefix = false;           ///< Loop
  std::optional<int64_t> concurrency; ///< Map: limit of simultaneous items of a request
};

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// Service-level bounds; unlimited where not given.
struct Sla {
  double percentile = 0.95; ///< percentile of latency, first token and next tokens
  double latencyMs = unlimited, ttftMs = unlimited, tbtMs = unlimited;
  double requestsPerSecond = 0; ///< 0: one request at a time
};

struct Graph {
  std::string name, location;
  Sla sla;
  std::vector<Model> models;
  std::vector<Index> indexes;
  std::vector<Tool> tools;
  std::vector<Memory> memories;
  std::vector<Task> tasks;
  std::vector<Edge> edges;
  std::vector<Region> regions;
  int root = 0; ///< a Dag
};

const char *nameOf(Unit unit);
const char *nameOf(Kind kind);
const char *nameOf(Flow flow);

} // namespace intarsia::workflow

#endif
