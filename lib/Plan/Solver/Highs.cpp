//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// HiGHS by its C interface, from a shared library that is loaded at run time, so that no separate build is needed.
// Names, types and numbers are those of HiGHS 1.x (highs/interfaces/highs_c_api.h, highs/lp_data/HighsOptions.h,
// https://ergo-code.github.io/HiGHS/stable/).
//===----------------------------------------------------------------------------------------------------------===//
#include "MixedInteger.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/DynamicLibrary.h"

using namespace llvm;

namespace intarsia::plan {
namespace {

/// HighsInt, unless the library was built for 64 bits.
using Int = int;
constexpr Int colwise = 1, minimize = 1;
constexpr Int failed = -1, done = 0;       ///< results of calls; 1: done with a warning
constexpr Int optimal = 7, infeasible = 8; ///< status of a model
constexpr Int feasiblePoint = 2;           ///< status of its solution

struct Interface {
  Int (*versionMajor)();
  const char *(*version)();
  void *(*create)();
  void (*destroy)(void *highs);
  Int (*sizeofInt)(const void *highs);
  Int (*setBool)(void *highs, const char *option, Int value);
  Int (*setInt)(void *highs, const char *option, Int value);
  Int (*setDouble)(void *highs, const char *option, double value);
  Int (*setString)(void *highs, const char *option, const char *value);
  Int (*passMip)(void *highs, Int columns, Int rows, Int entries, Int format, Int sense, double offset,
                 const double *costs, const double *lower, const double *upper, const double *rowLower,
                 const double *rowUpper, const Int *starts, const Int *indices, const double *factors,
                 const Int *integrality);
  Int (*setSolution)(void *highs, const double *columns, const double *rows, const double *columnDuals,
                     const double *rowDuals);
  Int (*run)(void *highs);
  Int (*modelStatus)(const void *highs);
  Int (*intInfo)(const void *highs, const char *info, Int *value);
  Int (*doubleInfo)(const void *highs, const char *info, double *value);
  Int (*solution)(const void *highs, double *columns, double *columnDuals, double *rows, double *rowDuals);
};

class Highs final : public MixedIntegerSolver {
public:
  explicit Highs(const Interface &interface) : call(interface) {}

  std::string name() const override { return std::string("HiGHS ") + call.version(); }

  /// Returns null if the library takes all options, else the first option that it refuses.
  const char *refusedOption() const { return setOptions(Model(call), 1, 0); }

protected:
  Outcome solveScaled(const Scaled &program, double timeLimitSeconds, double relativeGap,
                      ArrayRef<double> start) const override {
    Model model(call);
    setOptions(model, timeLimitSeconds, relativeGap);
    Outcome outcome;
    if (call.passMip(model, Int(program.costs.size()), Int(program.rowLower.size()), Int(program.factors.size()),
                     colwise, minimize, 0, program.costs.data(), program.lower.data(), program.upper.data(),
                     program.rowLower.data(), program.rowUpper.data(), program.starts.data(), program.rows.data(),
                     program.factors.data(), program.integer.data()) == failed)
      return outcome;
    if (!start.empty())
      call.setSolution(model, start.data(), nullptr, nullptr, nullptr);
    call.run(model);
    Int status = call.modelStatus(model);
    // If the relaxation is unbounded, the status says unbounded or infeasible, and nothing is known.
    outcome.optimal = status == optimal;
    outcome.infeasible = status == infeasible;
    Int point = 0;
    call.intInfo(model, "primal_solution_status", &point);
    if (point == feasiblePoint) {
      outcome.found = true;
      outcome.values.resize(program.costs.size());
      call.solution(model, outcome.values.data(), nullptr, nullptr, nullptr);
    }
    // If the solver ended before it had a bound, this gives 0 and a warning.
    double bound = 0;
    if (call.doubleInfo(model, "mip_dual_bound", &bound) == done)
      outcome.bound = bound;
    return outcome;
  }

private:
  class Model {
  public:
    explicit Model(const Interface &call) : destroy(call.destroy), highs(call.create()) {}
    ~Model() { destroy(highs); }
    Model(const Model &) = delete;
    operator void *() const { return highs; }

  private:
    void (*destroy)(void *);
    void *highs;
  };

  Interface call;

  const char *setOptions(void *model, double seconds, double relativeGap) const {
    const char *refused = nullptr;
    auto check = [&](const char *option, Int status) {
      if (status == failed && !refused)
        refused = option;
    };
    auto setDouble = [&](const char *option, double value) { check(option, call.setDouble(model, option, value)); };
    check("output_flag", call.setBool(model, "output_flag", 0));
    // One thread, as with CBC, so that plans do not depend on the number of threads.
    check("threads", call.setInt(model, "threads", 1));
    check("parallel", call.setString(model, "parallel", "off"));
    setDouble("time_limit", seconds);
    setDouble("mip_rel_gap", relativeGap);
    // Costs are at most 1000; the default, 1e-6, would end searches before a small requested gap is reached.
    setDouble("mip_abs_gap", 1e-9);
    // The least value allowed: factors of a row may differ by many orders of magnitude.
    setDouble("small_matrix_value", 1e-12);
    // LocalSearch has found good plans before. Without its own searches around solutions (RINS, RENS) HiGHS 1.15 takes
    // 0.7 of the time for whole programs of 20 pieces and 10 pools; versions that do not know these options have them
    // on.
    call.setBool(model, "mip_heuristic_run_rins", 0);
    call.setBool(model, "mip_heuristic_run_rens", 0);
    return refused;
  }
};

} // namespace

Expected<std::shared_ptr<const MixedIntegerSolver>> highsSolver(const std::string &library) {
  std::string error;
  sys::DynamicLibrary loaded = sys::DynamicLibrary::getPermanentLibrary(library.c_str(), &error);
  if (!loaded.isValid())
    return createStringError(error);
  std::string missing;
  Interface call;
  auto find = [&](auto &function, const char *name) {
    void *address = loaded.getAddressOfSymbol(name);
    if (!address && missing.empty())
      missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  find(call.versionMajor, "Highs_versionMajor");
  find(call.version, "Highs_version");
  find(call.create, "Highs_create");
  find(call.destroy, "Highs_destroy");
  find(call.sizeofInt, "Highs_getSizeofHighsInt");
  find(call.setBool, "Highs_setBoolOptionValue");
  find(call.setInt, "Highs_setIntOptionValue");
  find(call.setDouble, "Highs_setDoubleOptionValue");
  find(call.setString, "Highs_setStringOptionValue");
  find(call.passMip, "Highs_passMip");
  find(call.setSolution, "Highs_setSolution");
  find(call.run, "Highs_run");
  find(call.modelStatus, "Highs_getModelStatus");
  find(call.intInfo, "Highs_getIntInfoValue");
  find(call.doubleInfo, "Highs_getDoubleInfoValue");
  find(call.solution, "Highs_getSolution");
  if (!missing.empty())
    return createStringError(Twine("'") + library + "' has no function " + missing +
                             "; libraries of HiGHS 1.x have it");
  if (call.versionMajor() != 1)
    return createStringError(Twine("'") + library + "' is HiGHS " + call.version() + ", 1.x is needed");
  void *model = call.create();
  Int bytes = call.sizeofInt(model);
  call.destroy(model);
  if (bytes != sizeof(Int))
    return createStringError(Twine("'") + library + "' was built for integers of " + Twine(bytes) +
                             " bytes (HIGHSINT64), " + Twine(sizeof(Int)) + " are needed");
  auto solver = std::make_shared<Highs>(call);
  if (const char *option = solver->refusedOption())
    return createStringError(Twine("'") + library + "' (" + solver->name() + ") does not take the option " + option);
  return solver;
}

} // namespace intarsia::plan
