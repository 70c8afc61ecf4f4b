//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/WaferDevice/WaferDevice.h"

#include "lib/Formats/Dtype.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Runtime/Core/Profile.h"
#include "lib/Runtime/Wafer/Functional.h"
#include "lib/Runtime/Wafer/WaferObject.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>

namespace intarsia::runtime {

namespace {

class WaferExecutable final : public Executable {
public:
  std::map<uint32_t, wafer::WaferKernel> kernels;
};

float valueAt(itx_dtype type, const void *data, int64_t index) {
  if (type == ITX_F32)
    return static_cast<const float *>(data)[index];
  uint16_t pattern = static_cast<const uint16_t *>(data)[index];
  return type == ITX_F16 ? decodeF16(pattern) : decodeBf16(pattern);
}

void setValue(itx_dtype type, void *data, int64_t index, float value) {
  if (type == ITX_F32)
    static_cast<float *>(data)[index] = value;
  else
    static_cast<uint16_t *>(data)[index] = type == ITX_F16 ? encodeF16(value) : encodeBf16(value);
}

/// Returns true if an op of the program writes a buffer that holds an input, or may: loops exchange buffers.
bool writesInput(const wafer::Program &program, const wafer::Binding &input) {
  return std::any_of(program.ops.begin(), program.ops.end(), [&](const wafer::Op &op) {
    bool writes = op.kind == wafer::OpKind::Compute || op.kind == wafer::OpKind::Receive ||
                  (op.kind == wafer::OpKind::Forward && !op.add);
    if (op.kind == wafer::OpKind::Repeat)
      return std::count(op.slots.begin(), op.slots.end(), input.slot) != 0 ||
             std::any_of(op.body.begin(), op.body.end(), [&](const wafer::Op &inner) {
               return !inner.slots.empty() && inner.slots[0] == input.slot && inner.kind != wafer::OpKind::Send;
             });
    return writes && op.slots[0] == input.slot;
  });
}

/// Refuses operands that are smaller than what a program reads and writes.
Status checkOperands(const wafer::RowsProgram &program, const HostedLaunch &launch, int64_t rows) {
  auto check = [&](const wafer::Binding &binding, const wafer::MatrixView &view) {
    std::optional<int64_t> elements = view.elements(rows, binding.rows, binding.columns);
    const std::optional<uint64_t> &bytes = launch.operands[size_t(view.operand)].bytes;
    uint64_t wanted = elements ? uint64_t(*elements) * (view.isQuantized() ? 1 : dtypeInfo(view.type)->bytes) : 0;
    if (view.kind == wafer::ViewKind::Gathered &&
        launch.operands[size_t(view.indices)].bytes.value_or(0) / 8 < uint64_t(rows))
      return error(ITX_INTERNAL, "%s: operand %lld has less than %lld numbers of rows", launch.text.c_str(),
                   (long long)view.indices, (long long)rows);
    if (elements && (!bytes || wanted <= *bytes))
      return Status::success();
    return error(ITX_INTERNAL, "%s: operand %lld has %llu bytes, its program wants %llu", launch.text.c_str(),
                 (long long)view.operand, (unsigned long long)bytes.value_or(0), (unsigned long long)wanted);
  };
  for (const wafer::Binding &input : program.program.inputs)
    ITX_RETURN_IF_ERROR(check(input, program.inputs[size_t(input.argument)]));
  for (const wafer::Binding &output : program.program.outputs)
    ITX_RETURN_IF_ERROR(check(output, program.outputs[size_t(output.argument)]));
  return Status::success();
}

/// A program with the values of a launch.
class Execution {
public:
  Execution(const wafer::WaferKernel &kernel, const wafer::RowsProgram &program, const HostedLaunch &launch)
      : kernel(kernel), program(program), launch(launch), simulator(program.program) {}

  /// Computes `count` rows from `first` on, at most as many as the program has.
  Status run(int64_t first, int64_t count, int64_t tokens) {
    for (const wafer::Binding &input : program.program.inputs) {
      const wafer::MatrixView &view = program.inputs[size_t(input.argument)];
      if (hasRun && !view.hasRows && !writesInput(program.program, input))
        continue;
      if (auto there = moved.find(input.argument); there != moved.end()) {
        simulator.load(input.argument, there->second);
        continue;
      }
      // Rows beyond those of the launch are 0.
      wafer::Matrix matrix{input.rows, input.columns, std::vector<float>(size_t(input.rows * input.columns))};
      if (view.isQuantized())
        loadQuantized(view, matrix);
      ITX_RETURN_IF_ERROR(forElements(view, input, first, count, tokens, [&](int64_t in, int64_t from) {
        matrix.values[size_t(in)] = valueAt(view.type, launch.buffers[size_t(view.operand)], from);
      }));
      if (view.kind == wafer::ViewKind::Positions)
        for (int64_t row = 0; row < count * view.rowsEach(); ++row)
          matrix.values[size_t(row)] = float(position(first + row / view.rowsEach()));
      if (const wafer::Relayout *way = kernel.relayoutOf(program, input.argument))
        matrix = moved.emplace(input.argument, move(*way, matrix)).first->second;
      simulator.load(input.argument, matrix);
    }
    simulator.setTokens(tokens);
    simulator.run();
    hasRun = true;
    int64_t after = kernel.cache && kernel.cache->appends ? tokens + 1 : tokens;
    for (const wafer::Binding &output : program.program.outputs) {
      const wafer::MatrixView &view = program.outputs[size_t(output.argument)];
      wafer::Matrix matrix = simulator.result(output.argument);
      ITX_RETURN_IF_ERROR(forElements(view, output, first, count, after, [&](int64_t in, int64_t to) {
        setValue(view.type, launch.buffers[size_t(view.operand)], to, matrix.values[size_t(in)]);
      }));
    }
    return Status::success();
  }

private:
  const wafer::WaferKernel &kernel;
  const wafer::RowsProgram &program;
  const HostedLaunch &launch;
  wafer::Simulator simulator;
  std::map<int64_t, wafer::Matrix> moved; ///< weights, by argument, that have gone their way
  bool hasRun = false;

  /// Lets a weight go its way over the cores. Where it ends the program has it, as was checked when the object was
  /// read: loading it there changes nothing.
  static wafer::Matrix move(const wafer::Relayout &way, const wafer::Matrix &matrix) {
    wafer::Simulator moves(way.program);
    moves.load(0, matrix);
    moves.run();
    return moves.result(0);
  }

  void loadQuantized(const wafer::MatrixView &view, wafer::Matrix &matrix) const {
    auto data = static_cast<const uint8_t *>(launch.buffers[size_t(view.operand)]);
    int64_t scaleBytes = int64_t(dtypeInfo(view.type)->bytes);
    for (int64_t r = 0; r < matrix.rows; ++r)
      for (int64_t c = 0; c < matrix.columns; ++c)
        matrix.values[size_t(r * matrix.columns + c)] =
            view.kind == wafer::ViewKind::Codes
                ? view.panels.code(data, view.offset + c, r)
                : valueAt(view.type, data + view.panels.scaleAt(view.offset + c, r * view.panels.shared, scaleBytes),
                          0);
  }

  int64_t position(int64_t token) const {
    return static_cast<const int64_t *>(launch.buffers[size_t(kernel.cache->positions)])[token];
  }

  /// Calls `action` with each element of a matrix that the launch has: its index in the matrix, and in the operand.
  /// Caches have `tokens` tokens. Fails where the launch names rows or pages that do not exist.
  template <typename Action>
  Status forElements(const wafer::MatrixView &view, const wafer::Binding &matrix, int64_t first, int64_t count,
                     int64_t tokens, Action action) {
    int64_t rows = view.hasRows ? count * view.rowsEach() : matrix.rows;
    const wafer::PackedHeads &heads = view.heads;
    switch (view.kind) {
    case wafer::ViewKind::Strided: {
      int64_t start = view.offset + (view.hasRows ? first * view.rowStride : 0);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < matrix.columns; ++c)
          action(r * matrix.columns + c, start + r * view.rowStride + c * view.columnStride);
      return Status::success();
    }
    case wafer::ViewKind::Gathered:
      for (int64_t r = 0; r < rows; ++r) {
        int64_t row = static_cast<const int64_t *>(launch.buffers[size_t(view.indices)])[first + r];
        int64_t start = 0, last = 0;
        if (row < 0 || __builtin_mul_overflow(row, view.rowStride, &start) ||
            __builtin_add_overflow(start, view.offset + (matrix.columns - 1) * view.columnStride, &last) ||
            !holds(view, last))
          return error(ITX_INVALID_ARGUMENT, "%s: row %lld is wanted of an input that does not have it",
                       launch.text.c_str(), (long long)row);
        for (int64_t c = 0; c < matrix.columns; ++c)
          action(r * matrix.columns + c, view.offset + start + c * view.columnStride);
      }
      return Status::success();
    case wafer::ViewKind::Heads:
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < matrix.columns; ++c)
          if (auto place = heads.at(c)) {
            int64_t head = place->head * heads.group + r % heads.group, token = first + r / heads.group;
            action(r * matrix.columns + c,
                   (token * heads.heads * heads.group + head) * heads.features + place->feature);
          }
      return Status::success();
    case wafer::ViewKind::Positions: // which the caller reads
    case wafer::ViewKind::Codes:
    case wafer::ViewKind::Scales:
      return Status::success();
    case wafer::ViewKind::Frequencies:
      for (int64_t c = 0; c < matrix.columns; ++c)
        if (auto place = heads.at(c / (heads.tile / 2) * heads.tile + c % (heads.tile / 2)))
          action(c, place->feature);
      return Status::success();
    case wafer::ViewKind::Cache:
      return forTokens(view, matrix, tokens, action);
    }
    return Status::success();
  }

  /// Returns true if the operand of a view has an element.
  bool holds(const wafer::MatrixView &view, int64_t element) const {
    uint64_t bytes = launch.operands[size_t(view.operand)].bytes.value_or(0);
    return element >= 0 && uint64_t(element) < bytes / dtypeInfo(view.type)->bytes;
  }

  /// The same for the tokens of a cache, each in its slot of the cores that have it.
  template <typename Action>
  Status forTokens(const wafer::MatrixView &view, const wafer::Binding &matrix, int64_t tokens, Action action) {
    const wafer::CacheOperands &cache = *kernel.cache;
    const wafer::PackedHeads &heads = view.heads;
    auto ints = [&](int64_t operand) { return static_cast<const int64_t *>(launch.buffers[size_t(operand)]); };
    int64_t grid = program.program.rows, slots = matrix.rows / grid;
    int64_t tablePages = launch.sizes[size_t(cache.tableSize)], sequence = ints(cache.sequences)[0];
    std::vector<std::optional<wafer::PackedHeads::Place>> places;
    for (int64_t c = 0; c < matrix.columns; ++c)
      places.push_back(heads.at(c));
    for (int64_t row = 0; row < grid; ++row) {
      auto [firstToken, count] = wafer::tokensOfRow(tokens, row, grid);
      for (int64_t token = firstToken; token < firstToken + count; ++token) {
        int64_t entry = sequence * tablePages + token / cache.page;
        uint64_t tableBytes = launch.operands[size_t(cache.table)].bytes.value_or(0);
        bool isListed = token / cache.page < tablePages && sequence >= 0 && uint64_t(entry) < tableBytes / 8;
        int64_t page = isListed ? ints(cache.table)[entry] : -1,
                pageElements = heads.heads * cache.page * heads.features;
        int64_t start = 0, end = 0;
        if (page < 0 || __builtin_mul_overflow(page, pageElements, &start) ||
            __builtin_add_overflow(start, pageElements - 1, &end) || !holds(view, end))
          return error(ITX_INVALID_ARGUMENT, "%s: token %lld of its sequence is in no page of the cache",
                       launch.text.c_str(), (long long)token);
        int64_t to = (row * slots + token % slots) * matrix.columns;
        for (int64_t c = 0; c < matrix.columns; ++c)
          if (const auto &place = places[size_t(c)])
            action(to + c, start + (place->head * cache.page + token % cache.page) * heads.features + place->feature);
      }
    }
    return Status::success();
  }
};

/// The tokens of a launch that works on caches.
struct LaunchedTokens {
  const int64_t *positions = nullptr;
  int64_t end = 0; ///< tokens of the sequence after the launch
};

/// Checks the tokens of a launch: the cores hold the cache of one sequence, as long as the program's.
Status readTokens(const wafer::WaferKernel &kernel, const HostedLaunch &launch, int64_t rows, LaunchedTokens &tokens) {
  const wafer::CacheOperands &cache = *kernel.cache;
  for (int64_t operand : {cache.positions, cache.sequences})
    if (launch.operands[size_t(operand)].bytes.value_or(0) / 8 < uint64_t(rows))
      return error(ITX_INTERNAL, "%s: operand %lld has less than %lld tokens", launch.text.c_str(), (long long)operand,
                   (long long)rows);
  if (rows > 0 && cache.tableSize >= int64_t(launch.sizes.size()))
    return error(ITX_INTERNAL, "%s: the launch lacks size %lld", launch.text.c_str(), (long long)cache.tableSize);
  tokens.positions = static_cast<const int64_t *>(launch.buffers[size_t(cache.positions)]);
  auto sequences = static_cast<const int64_t *>(launch.buffers[size_t(cache.sequences)]);
  int64_t capacity = 0;
  const wafer::RowsProgram &one = kernel.programs.back();
  for (const wafer::Binding &input : one.program.inputs)
    if (one.inputs[size_t(input.argument)].kind == wafer::ViewKind::Cache)
      capacity = input.rows;
  for (int64_t i = 0; i < rows; ++i) {
    if (sequences[i] != sequences[0])
      return error(ITX_UNSUPPORTED,
                   "%s: a wafer has the cache of one sequence, this call has several; compute one sequence at a time",
                   launch.text.c_str());
    if (tokens.positions[i] < 0 || tokens.positions[i] >= capacity)
      return error(ITX_INVALID_ARGUMENT, "%s: position %lld is beyond the %lld tokens that the cores have memory for",
                   launch.text.c_str(), (long long)tokens.positions[i], (long long)capacity);
    tokens.end = std::max(tokens.end, tokens.positions[i] + 1);
  }
  return Status::success();
}

/// What a launch did on the wafer.
struct Spent {
  int64_t rows = 0;
  double cycles = 0;
  double relayoutCycles = 0; ///< before them
};

/// Records launches in the profile, one after another in the time of the wafer's clock: a wafer does one program at a
/// time, and the copies and other devices between them are not simulated.
class SimulatedClock {
public:
  void record(const char *kernel, const char *label, const Spent &spent, const wafer::MeshTarget &mesh) {
    if (!isProfiling() || spent.cycles == 0)
      return;
    std::lock_guard lock(mutex_);
    if (int64_t start = profileStartNs(); start != startNs_) {
      startNs_ = start;
      nowNs_ = 0;
    }
    if (spent.relayoutCycles > 0)
      add("weights move to other cores", label, 0, spent.relayoutCycles, mesh);
    add(kernel, label, spent.rows, spent.cycles, mesh);
  }

private:
  std::mutex mutex_;
  int64_t startNs_ = 0;
  double nowNs_ = 0; ///< since the start of the profile

  void add(const char *name, const char *label, int64_t rows, double cycles, const wafer::MeshTarget &mesh) {
    ProfileEvent event{"simulated", name, label};
    event.beginNs = startNs_ + int64_t(nowNs_);
    nowNs_ += cycles / mesh.clockGHz;
    event.endNs = startNs_ + int64_t(nowNs_);
    event.device = "time on the wafer";
    event.cycles = cycles;
    event.rows = rows;
    event.joules = mesh.watts * cycles / mesh.clockGHz * 1e-9;
    recordEvent(std::move(event));
  }
};

Status runKernel(const wafer::WaferKernel &kernel, const HostedLaunch &launch, Spent &spent) {
  std::optional<int64_t> rows = evaluate(kernel.rows, launch.sizes.data(), launch.sizes.size());
  if (!rows || *rows < 0)
    return error(ITX_INTERNAL, "%s: its rows, '%s', are not defined for the sizes of the launch", launch.text.c_str(),
                 sizeExpressionText(kernel.rows).c_str());
  LaunchedTokens tokens;
  if (kernel.cache)
    ITX_RETURN_IF_ERROR(readTokens(kernel, launch, *rows, tokens));
  int64_t first = 0;
  for (auto [program, times] : kernel.stepsFor(*rows)) {
    ITX_RETURN_IF_ERROR(checkOperands(*program, launch, *rows));
    Execution execution(kernel, *program, launch);
    if (first == 0 && program->rows > 1)
      spent.relayoutCycles = kernel.relayoutCycles();
    for (int64_t i = 0; i < times; ++i) {
      int64_t count = std::min(program->rows, *rows - first);
      bool appends = kernel.cache && kernel.cache->appends;
      ITX_RETURN_IF_ERROR(execution.run(first, count, appends ? tokens.positions[first] : tokens.end));
      first += count;
      spent.rows += count;
      spent.cycles += program->cycles;
    }
  }
  return Status::success();
}

} // namespace

Device &waferDevice() {
  // Never destroyed: its threads and buffers may outlive static objects.
  static WaferDevice *device = new WaferDevice;
  return *device;
}

const char *WaferDevice::description() const {
  return "simulated wafer: programs of cores with values, in a memory of its own; for tests";
}

Status WaferDevice::loadObject(const ExecutableSource &source, std::unique_ptr<Executable> &executable) {
  std::string where = source.name + ": its programs for the simulated wafer";
  std::vector<wafer::WaferKernel> kernels;
  ITX_RETURN_IF_ERROR(wafer::readObject({static_cast<const char *>(source.object), source.bytes}, where, kernels));
  auto loaded = std::make_unique<WaferExecutable>();
  for (wafer::WaferKernel &kernel : kernels)
    loaded->kernels.emplace(kernel.index, std::move(kernel));
  for (uint32_t index : source.wanted)
    if (!loaded->kernels.count(index))
      return error(ITX_CORRUPT, "%s: lack kernel '%s': compile the model again", where.c_str(),
                   source.kernels && index < source.kernels->size() ? (*source.kernels)[index].c_str() : "?");
  executable = std::move(loaded);
  return Status::success();
}

Status WaferDevice::bind(const Launch &launch, const std::string &text, Body &body) {
  auto object = dynamic_cast<const WaferExecutable *>(launch.executable);
  auto found = object ? object->kernels.find(launch.kernel) : decltype(object->kernels.end())();
  if (!object || found == object->kernels.end())
    return error(ITX_INTERNAL, "%s is not among the kernels that the simulated wafer has loaded for it", text.c_str());
  const wafer::WaferKernel &kernel = found->second;
  if (int64_t(launch.bufferCount) != kernel.operands || launch.sizeCount < requiredSizes(kernel.rows))
    return error(ITX_INTERNAL, "%s is started with %u buffers and %u sizes, its program wants %lld and %zu",
                 text.c_str(), launch.bufferCount, launch.sizeCount, (long long)kernel.operands,
                 requiredSizes(kernel.rows));
  static SimulatedClock clock;
  body = [&kernel, name = launch.name, label = launch.label](const HostedLaunch &started) {
    try {
      Spent spent;
      ITX_RETURN_IF_ERROR(runKernel(kernel, started, spent));
      clock.record(name, label, spent, kernel.programs.front().program.target);
      return Status::success();
    } catch (const std::bad_alloc &) {
      return error(ITX_OUT_OF_MEMORY, "%s: this machine has too little memory to simulate %lld cores",
                   started.text.c_str(), (long long)kernel.programs.front().program.cores());
    }
  };
  return Status::success();
}

} // namespace intarsia::runtime
