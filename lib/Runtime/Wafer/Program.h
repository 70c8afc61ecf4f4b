//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A program of a wafer as plain data: what `wafer.program` says (dialects/Wafer), without MLIR.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_WAFER_PROGRAM_H
#define INTARSIA_LIB_RUNTIME_WAFER_PROGRAM_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace intarsia::wafer {

/// Time in thousandths of a cycle. Whole numbers make sums independent of their order, so that the period of a loop is
/// found exactly.
using Time = int64_t;
constexpr Time ticksPerCycle = 1000;

/// A mesh and the constants of its timing model, as in `#wafer.target`.
struct MeshTarget {
  std::string name;
  int64_t columns = 0, rows = 0, sramBytes = 0, reservedBytes = 0, colors = 0;
  double clockGHz = 0, linkBytes = 0, macs = 0;
  double watts = 0; ///< the most that the system draws; 0: not known
  Time hop = 0, ramp = 0, loop = 0, product = 0, stage = 0, addElement = 0, element = 0;
};

enum class MeshAxis { None, X, Y };

/// Positions along an axis, as in `#wafer.range`. `all` stands for every position.
struct Range {
  bool all = true;
  int64_t start = 0, end = 0, period = 1, width = 1, startMoves = 0, endMoves = 0;
  bool ring = false;

  bool moves() const { return !all && (startMoves != 0 || endMoves != 0); }
  /// True if the range holds a position of an axis with `extent` of them in an iteration of the loop around it.
  bool contains(int64_t position, int64_t iteration, int64_t extent) const;
};

struct RoleClass {
  Range x, y;
};

struct Path {
  Range start;
  int64_t by = 0, color = 0;
  bool alternate = false, multicast = false;
};

struct Route {
  std::string name;
  MeshAxis axis = MeshAxis::X;
  std::vector<Path> paths;

  bool moves() const;
};

/// Memory of each core.
struct CoreBuffer {
  std::string name;
  int64_t rows = 0, columns = 0;
  bool isHalf = false;
  int64_t codeBits = 0; ///< of quantized values; 0: floats
  /// First byte, after what the runtime reserves: buffers that are never in use together may share bytes. Unset in all
  /// buffers of a program: each has bytes of its own.
  std::optional<int64_t> offset;

  int64_t elements() const { return rows * columns; }
  int64_t bytes() const { return (elements() * (codeBits ? codeBits : isHalf ? 16 : 32) + 7) / 8; }
  /// Bytes of the words of 32 bits that it takes.
  int64_t placedBytes() const { return (bytes() + 3) / 4 * 4; }
  bool sharesBytesWith(const CoreBuffer &other) const {
    return offset && other.offset && *offset < *other.offset + other.placedBytes() &&
           *other.offset < *offset + placedBytes();
  }
};

enum class TileSkew { None, Rows, Columns };

/// Which tile of a matrix each core has, as in `#wafer.tiles`.
struct TilePlacement {
  MeshAxis rows = MeshAxis::None, columns = MeshAxis::None;
  bool ring = false;
  TileSkew skew = TileSkew::None;
  int64_t extent = 0; ///< columns and rows of cores that have tiles; 0: all
};

/// Half of the way of a matrix from one grid to another, as `#wafer.relayout` says.
struct RelayoutStep {
  MeshAxis along = MeshAxis::Y;
  int64_t from = 1, to = 1, height = 1, width = 1;
  bool second = false;

  bool operator==(const RelayoutStep &) const = default;
};

/// Returns the place of a position on the interleaved ring of `extent` cores: the ring is 0, 2, 4, …, 5, 3, 1, so that
/// neighbours on it are at most two hops apart. The inverse is ringPosition.
int64_t ringPlace(int64_t position, int64_t extent);
int64_t ringPosition(int64_t place, int64_t extent);

/// An input or output: where the tiles of a matrix are before or after the program.
struct Binding {
  int64_t argument = 0;
  int slot = 0;
  TilePlacement tiles;
  int64_t rows = 0, columns = 0; ///< of the matrix
};

enum class OpKind { Send, Receive, Forward, Await, Compute, Repeat };
enum class ComputeKind {
  Zero,
  Copy,
  Add,
  Multiply,
  Exp,
  Silu,
  Gelu,
  GeluTanh,
  Relu,
  Tanh,
  Sum,
  SumSquares,
  Scale,
  Shift,
  Affine,
  Rsqrt,
  Largest,
  Reciprocal,
  Mask,
  Take,
  Put,
  Collect,
  Gemm, // from here on with three buffers
  GemmTransposed,
  Gemv,
  Rotate,
  Decode
};

/// Returns true if an op reads what its first buffer has before.
bool accumulates(ComputeKind kind);
/// Returns true if the second buffer of an op has one element for each row of the first.
bool spreadsOverRows(ComputeKind kind);
/// Returns true if the first buffer of an op has one element for each row of the second.
bool sumsRows(ComputeKind kind);

/// An op of a role class. Buffers are named by slots: slot i < buffers.size() is buffer i, later slots are the
/// arguments of loops.
struct Op {
  OpKind kind = OpKind::Await;
  RoleClass cores;
  std::vector<int> slots;           ///< the buffers it uses; of a repeat, what its arguments are at first
  int route = -1, destination = -1; ///< routes by index; `destination` of a forward
  bool add = false;
  bool maximum = false; ///< with `add`: keeps the larger
  ComputeKind compute = ComputeKind::Zero;
  float factor = 1, addend = 0;         ///< of Affine and Rsqrt; the factor of Rotate, the window of Mask (0: none)
  std::optional<RelayoutStep> relayout; ///< of Collect
  int64_t count = 0;                    ///< iterations of a repeat
  bool launches = false;      ///< of a repeat: a launch does one iteration, that of its cache's tokens modulo `count`
  std::vector<Op> body;       ///< of a repeat
  std::vector<int> arguments; ///< slots of a repeat's arguments
  std::vector<int> yields;    ///< slots that they are in the next iteration
  std::string where;          ///< for messages: the op in the user's file
};

struct Program {
  std::string name;
  MeshTarget target;
  int64_t columns = 0, rows = 0;
  int64_t firstColumn = 0, firstRow = 0; ///< of the wafer, where its grid begins
  /// The columns and rows of the wafer that those of the grid are; empty if they lie side by side. Messages pass
  /// through what is left out between them.
  std::vector<int64_t> columnsAt, rowsAt;
  std::vector<CoreBuffer> buffers;
  std::vector<Route> routes;
  std::vector<Binding> inputs, outputs;
  std::vector<Op> ops;
  int slots = 0;

  int64_t cores() const { return columns * rows; }
  /// Bytes that all buffers take in a core, and what the runtime reserves.
  int64_t bytesPerCore() const;
  /// The same if no buffer shared bytes with another.
  int64_t bytesUnshared() const;
};

/// The tokens of a cache that a row of cores has: `count` from `first` on.
struct TokensOfRow {
  int64_t first = 0, count = 0;
};
/// Returns how `tokens` tokens lie on `rows` rows of cores: as many on each, in their order, and one more on the last
/// `tokens % rows`. Each row that has one more passes its first token to the row before it when another one comes.
TokensOfRow tokensOfRow(int64_t tokens, int64_t row, int64_t rows);

/// The columns and rows of the cores of an op's class, in one iteration of a loop.
struct CoresOfOp {
  std::vector<int64_t> columns, rows;
};
/// Returns the cores of an op's class in the order of a message that goes up an axis, or down if it `descends`.
CoresOfOp coresOf(const Program &program, const Op &op, int64_t iteration, bool descends);

/// Returns, by column, whether it is in a group of columns that does what no group before it does. Between groups no
/// message passes: those that no op and no path tells apart are alike, and what is found of one holds for all.
std::vector<char> distinctColumns(const Program &program);

/// Where the paths of a route lead from each position of its axis, in one iteration.
struct ResolvedRoute {
  struct Leg {
    int64_t by = 0, color = 0;
    bool multicast = false;
  };
  std::vector<std::vector<Leg>> legs; ///< by position; several legs are one message in several directions
  bool ascends = true, descends = false;
};

/// Returns the paths of a route, or sets `error` if a path leaves the grid or two paths start at one position.
ResolvedRoute resolve(const Program &program, const Route &route, int64_t iteration, std::string &error);

/// The paths of a program's routes, resolved when they are first needed: once for each iteration if a route moves.
class ResolvedRoutes {
public:
  /// The program must outlive this.
  explicit ResolvedRoutes(const Program &program);

  const ResolvedRoute &at(int route, int64_t iteration);
  /// What is wrong with a route that was asked for, or "".
  std::string error;

private:
  const Program &program;
  std::vector<bool> moving;                      // by route
  std::vector<std::vector<ResolvedRoute>> known; // by route and iteration
};

/// Checks that a router never has two inputs of one color, and that colors exist. Returns what is wrong, or "".
std::string checkColors(const Program &program);

} // namespace intarsia::wafer

#endif
