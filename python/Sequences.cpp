//===- Sequences.cpp - Sequences and their caches -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "python/Sequences.h"

#include "python/Modules.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

namespace intarsia::python {
namespace {

using Ids = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Temperatures = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class Sequence {
public:
  explicit Sequence(itx_sequence *sequence) : sequence(sequence) {}
  /// Takes the handle that an engine gives.
  explicit Sequence(const nb::capsule &handle) : sequence(sequenceOf(handle)) {}
  Sequence(const Sequence &) = delete;
  ~Sequence() { itx_sequence_free(sequence); }

  itx_sequence *handle() const { return sequence; }
  int64_t length() const { return itx_sequence_length(sequence); }
  bool isEvicted() const { return itx_sequence_is_evicted(sequence) != 0; }
  void evict() { check(itx_sequence_evict(sequence)); }
  void setEvictable(bool evictable) { check(itx_sequence_set_evictable(sequence, evictable)); }
  void save(const std::filesystem::path &path) const {
    checkUnlocked([&] { return itx_sequence_save(sequence, path.c_str()); });
  }

  /// `socket` has a fileno().
  void send(const nb::object &socket, double timeout) const {
    int number = nb::cast<int>(socket.attr("fileno")());
    checkUnlocked([&] { return itx_sequence_send(sequence, number, timeout); });
  }

  std::vector<int64_t> tokens() const {
    std::vector<int64_t> ids;
    size_t count = 0;
    check(itx_sequence_tokens(sequence, nullptr, 0, &count));
    ids.resize(count);
    check(itx_sequence_tokens(sequence, ids.data(), ids.size(), &count));
    ids.resize(std::min(count, ids.size()));
    return ids;
  }

  std::unique_ptr<Sequence> fork() const {
    itx_sequence *child = nullptr;
    checkUnlocked([&] { return itx_sequence_fork(sequence, &child); });
    return std::make_unique<Sequence>(child);
  }

  /// Gives the handle away: an engine keeps the sequence.
  nb::capsule release() { return toCapsule(std::exchange(sequence, nullptr)); }

  int64_t truncate(int64_t length) {
    int64_t kept = 0;
    check(itx_sequence_truncate(sequence, length, &kept));
    return kept;
  }

private:
  itx_sequence *sequence;
};

/// A step whose logits are taken later.
class Step {
public:
  explicit Step(itx_step *step) : step(step) {}
  Step(const Step &) = delete;
  ~Step() { itx_step_free(step); }

  nb::object wait() {
    if (!step)
      throw ItxError{ITX_INVALID_ARGUMENT, "the logits of this step were taken before"};
    itx_tensor *logits = nullptr;
    itx_step *given = std::exchange(step, nullptr);
    checkUnlocked([&] { return itx_step_wait(given, &logits); });
    return logits ? toNumpy(TensorHandle(logits)) : nb::object(nb::none());
  }

private:
  itx_step *step;
};

using Chunks = std::vector<std::tuple<Sequence *, Ids, int64_t>>;

class Cache {
public:
  Cache(const Module &module, const std::string &function, int64_t sequences, int64_t pages, uint64_t bytes,
        const std::optional<std::filesystem::path> &spillFolder, uint64_t spillMemory, uint64_t spillFiles) {
    itx_cache_options options = {sizeof(options), sequences, pages, bytes, spillFolder ? spillFolder->c_str() : nullptr,
                                 spillMemory,     spillFiles};
    checkUnlocked([&] { return itx_cache_create(module.handle(), function.c_str(), &options, &cache); });
  }
  /// Takes the handle that an engine gives.
  explicit Cache(const nb::capsule &handle) : cache(cacheOf(handle)) {}
  Cache(const Cache &) = delete;
  ~Cache() { itx_cache_free(cache); }

  nb::dict info() const {
    itx_cache_info info = {};
    info.struct_bytes = sizeof(info);
    check(itx_cache_get_info(cache, &info));
    nb::dict result;
    result["bytes"] = info.bytes;
    result["page_bytes"] = info.page_bytes;
    result["sequence_bytes"] = info.sequence_bytes;
    result["pages"] = info.pages;
    result["free_pages"] = info.free_pages;
    result["page_tokens"] = info.page_tokens;
    result["sequences"] = info.sequences;
    result["free_sequences"] = info.free_sequences;
    result["context"] = info.context;
    result["vocabulary"] = info.vocabulary;
    result["candidates"] = info.candidates;
    result["spilled_sequences"] = info.spilled_sequences;
    result["spilled_bytes"] = info.spilled_bytes;
    result["lost_sequences"] = info.lost_sequences;
    result["stages"] = info.stages;
    return result;
  }

  void checkSpill() const { check(itx_cache_spill_status(cache)); }

  int64_t prefillTokens(int64_t promptTokens) const { return itx_cache_prefill_tokens(cache, promptTokens); }

  std::unique_ptr<Sequence> sequence() {
    itx_sequence *made = nullptr;
    check(itx_sequence_create(cache, &made));
    return std::make_unique<Sequence>(made);
  }

  std::unique_ptr<Sequence> restore(const std::filesystem::path &path) {
    itx_sequence *made = nullptr;
    checkUnlocked([&] { return itx_sequence_restore(cache, path.c_str(), &made); });
    return std::make_unique<Sequence>(made);
  }

  /// `sockets` have a fileno(): one, or several.
  std::unique_ptr<Sequence> receive(const nb::object &sockets, double timeout) {
    std::vector<int32_t> numbers;
    if (nb::hasattr(sockets, "fileno"))
      numbers.push_back(nb::cast<int32_t>(sockets.attr("fileno")()));
    else
      for (nb::handle socket : sockets)
        numbers.push_back(nb::cast<int32_t>(socket.attr("fileno")()));
    itx_sequence *made = nullptr;
    checkUnlocked([&] { return itx_sequence_receive_parts(cache, numbers.data(), numbers.size(), timeout, &made); });
    return std::make_unique<Sequence>(made);
  }

  /// `chunks`: (sequence, token ids, how many logits) each.
  nb::object step(const Chunks &chunks) {
    TensorHandle logits = run(itx_cache_step, chunks);
    return logits ? toNumpy(std::move(logits)) : nb::object(nb::none());
  }

  nb::object stepOnDevice(const Chunks &chunks) {
    TensorHandle logits = run(itx_cache_step_on_device, chunks);
    return logits ? nb::cast(std::make_unique<Tensor>(std::move(logits))) : nb::object(nb::none());
  }

  std::unique_ptr<Step> startStep(const Chunks &chunks) {
    itx_step *started = nullptr;
    std::vector<itx_chunk> parsed = parse(chunks);
    checkUnlocked([&] { return itx_cache_step_start(cache, parsed.data(), parsed.size(), &started); });
    return std::make_unique<Step>(started);
  }

  nb::list candidates(const Tensor &logits, const Temperatures &temperatures) {
    if (static_cast<int64_t>(temperatures.shape(0)) != logits.shape().front())
      throw ItxError{ITX_INVALID_ARGUMENT, "temperatures must be as many as there are rows of logits"};
    std::vector<itx_tensor *> results(3, nullptr);
    checkUnlocked([&] {
      return itx_cache_candidates(cache, logits.handle(), temperatures.data(), &results[0], &results[1], &results[2]);
    });
    return toResults(results);
  }

private:
  static std::vector<itx_chunk> parse(const Chunks &chunks) {
    std::vector<itx_chunk> parsed;
    for (const auto &[sequence, ids, outputs] : chunks)
      parsed.push_back({sequence->handle(), ids.data(), static_cast<int64_t>(ids.shape(0)), outputs});
    return parsed;
  }

  template <typename Run> TensorHandle run(Run step, const Chunks &chunks) {
    std::vector<itx_chunk> parsed = parse(chunks);
    itx_tensor *logits = nullptr;
    checkUnlocked([&] { return step(cache, parsed.data(), parsed.size(), &logits); });
    return TensorHandle(logits);
  }

  itx_cache *cache = nullptr;
};

} // namespace

template <typename Handle, void free(Handle *)> static nb::capsule makeCapsule(Handle *handle, const char *name) {
  PyObject *made = PyCapsule_New(handle, name, [](PyObject *capsule) {
    if (auto *left = static_cast<Handle *>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))))
      free(left);
  });
  if (!made) {
    free(handle);
    throw nb::python_error();
  }
  return nb::steal<nb::capsule>(made);
}

template <typename Handle> static Handle *take(const nb::capsule &capsule, const char *name) {
  auto *handle = static_cast<Handle *>(capsule.data(name));
  PyCapsule_SetDestructor(capsule.ptr(), nullptr);
  return handle;
}

nb::capsule toCapsule(itx_cache *cache) { return makeCapsule<itx_cache, itx_cache_free>(cache, "itx_cache"); }
nb::capsule toCapsule(itx_sequence *sequence) {
  return makeCapsule<itx_sequence, itx_sequence_free>(sequence, "itx_sequence");
}
itx_cache *cacheOf(const nb::capsule &capsule) { return take<itx_cache>(capsule, "itx_cache"); }
itx_sequence *sequenceOf(const nb::capsule &capsule) { return take<itx_sequence>(capsule, "itx_sequence"); }

void bindSequences(nb::module_ &m) {
  nb::class_<Sequence>(m, "Sequence", "Tokens, and what a Cache holds of them; its pages are given back with it.")
      .def(nb::init<const nb::capsule &>(), nb::arg("handle"))
      .def_prop_ro("length", &Sequence::length, "Tokens in the cache; 0 when it was evicted.")
      .def_prop_ro("tokens", &Sequence::tokens, "The token ids, those of an evicted sequence too.")
      .def_prop_ro("evicted", &Sequence::isEvicted,
                   "Its pages were given to others: truncate it to 0, and give its tokens again.")
      .def("fork", &Sequence::fork, "Return another sequence with the same tokens, which shares their pages.")
      .def("truncate", &Sequence::truncate, nb::arg("length"),
           "Forget the tokens from `length` on. Return how many are left: fewer where so many cannot be kept.")
      .def("release", &Sequence::release, "Give the handle to an engine.")
      .def("evict", &Sequence::evict, "Give its pages back.")
      .def("set_evictable", &Sequence::setEvictable, nb::arg("evictable"),
           "Let the cache evict it when pages run out; of several, the one that was longest not in a forward step.")
      .def("send", &Sequence::send, nb::arg("socket"), nb::arg("timeout") = 60.0,
           "Hand it over to the process at the other end of a connected stream socket, which calls Cache.receive. "
           "Return "
           "when that has it. No silence is longer than `timeout` seconds.")
      .def("save", &Sequence::save, nb::arg("path"), "Write it to a file, which appears when it is complete.");
  nb::class_<Step>(m, "Step", "New tokens of some sequences, whose logits are taken later.")
      .def("wait", &Step::wait, "Wait, and return the logits; may be called once.");
  nb::class_<Cache>(m, "Cache")
      .def(nb::init<const Module &, const std::string &, int64_t, int64_t, uint64_t,
                    const std::optional<std::filesystem::path> &, uint64_t, uint64_t>(),
           nb::arg("module"), nb::arg("function"), nb::arg("sequences"), nb::arg("pages"), nb::arg("bytes"),
           nb::arg("spill_folder").none(), nb::arg("spill_memory"), nb::arg("spill_files"))
      .def(nb::init<const nb::capsule &>(), nb::arg("handle"))
      .def("check_spill", &Cache::checkSpill,
           "Raise the error with which a sequence could not be spilled, the last of them.")
      .def_prop_ro("info", &Cache::info, "Sizes, and what of them is free.")
      .def("prefill_tokens", &Cache::prefillTokens, nb::arg("prompt_tokens"),
           "Return how many tokens of a prompt of so many a call best takes.")
      .def("sequence", &Cache::sequence, "Return a sequence without tokens.")
      .def("restore", &Cache::restore, nb::arg("path"),
           "Return a new sequence with what `Sequence.save` wrote; it must have been made with the same artifact.")
      .def(
          "receive", &Cache::receive, nb::arg("socket"), nb::arg("timeout") = 60.0,
          "Return a new sequence with what `Sequence.send` sends from another process, whose artifact is made from the "
          "same model; its caches and pages may have another layout. A list of sockets: from the ranks of a world, "
          "each "
          "of which sends its part; a rank keeps what it needs of them.")
      .def("step", &Cache::step, nb::arg("chunks"))
      .def("step_on_device", &Cache::stepOnDevice, nb::arg("chunks"))
      .def("start_step", &Cache::startStep, nb::arg("chunks"))
      .def("candidates", &Cache::candidates, nb::arg("logits"), nb::arg("temperatures"));
  m.def(
      "cache_bytes_needed",
      [](const Module &module, const std::string &function, int64_t sequences, int64_t pages, uint64_t bytes) {
        itx_cache_options options = {sizeof(options), sequences, pages, bytes};
        uint64_t needed = 0;
        check(itx_cache_bytes_needed(module.handle(), function.c_str(), &options, &needed));
        return needed;
      },
      nb::arg("module"), nb::arg("function"), nb::arg("sequences"), nb::arg("pages"), nb::arg("bytes"));
}

} // namespace intarsia::python
