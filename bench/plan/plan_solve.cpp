//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Time of planning: intarsia-bench-plan-solve [--pieces=100] [--pools=10] [--pieces-per-agent=10] [--seeds=5]
// [--first-seed=0] [--limit=60] [--gap=1e-6] [--queueing]
// [--percentiles] [--tighten=1]. Prints seconds of this process (user and wall), the gap and where the time went, and
// medians. Service levels are multiplied by --tighten: where none of the plans then is possible, the time is that until
// the reasons are known, and they are printed.
// Instances: agents of chains and forks over models of unlike size, a fleet whose dear pools are fast, some of them
// scarce, half of the pools rented by the node, service levels of 1.15 to 1.5 times the least possible.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Placement.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sys/resource.h>

using namespace intarsia::plan;

namespace {

struct Settings {
  int pieces = 100, pools = 10, piecesPerAgent = 10, seeds = 5, firstSeed = 0;
  double limit = 60, gap = 1e-6, tighten = 1;
  bool queueing = false, percentiles = false;
};

double userSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec * 1e-6;
}

class Instances {
public:
  explicit Instances(uint64_t seed) : engine(seed) {}

  PlacementProblem make(const Settings &settings) {
    PlacementProblem p;
    p.queueing = settings.queueing;
    std::vector<double> speeds;
    for (int k = 0; k < settings.pools; ++k) {
      double speed = std::exp(real(-1, 1));
      speeds.push_back(speed);
      Pool pool{"pool" + std::to_string(k)};
      pool.devicesPerNode = 8;
      pool.wholeNodes = k % 2;
      // A device of twice the speed costs more than twice as much.
      pool.dollarsPerDeviceHour = 2 * std::pow(speed, real(1.05, 1.4));
      pool.idleWatts = 100, pool.busyWatts = 700;
      pool.devices = 1000000;
      p.pools.push_back(pool);
    }
    for (int a = 0; a < settings.pools; ++a)
      for (int b = 0; b < settings.pools; ++b)
        if (a != b)
          p.links.push_back({"link",
                             {{a, b}},
                             a / 4 == b / 4 ? 50.0 : 12.5,
                             a / 4 == b / 4 ? 10.0 : 60.0,
                             a / 4 == b / 4 ? 0 : 0.002,
                             0});
    for (auto &link : p.links)
      link.name = "from" + std::to_string(link.pairs[0].first) + "to" + std::to_string(link.pairs[0].second);
    std::vector<double> fastest(settings.pieces, 1e300);
    for (int i = 0; i < settings.pieces; ++i) {
      Piece piece;
      piece.name = "piece" + std::to_string(i);
      piece.extraReplicas = 3;
      double base = std::exp(real(std::log(5), std::log(400)));
      int devices = pick({1, 1, 2, 4, 8});
      for (int k = 0; k < settings.pools; ++k)
        for (const char *precision : {"bf16", "fp8"}) {
          if (unit() < 0.35 && !(k == 0 && piece.candidates.empty()))
            continue;
          Choice choice;
          choice.label = precision;
          choice.pool = k;
          choice.devicesPerReplica = precision[0] == 'b' ? devices : std::max(1, devices / 2);
          choice.slots = pick({4, 8, 16, 32});
          choice.milliseconds = base / speeds[k] * real(0.8, 1.25);
          choice.millisecondsAlone = choice.milliseconds * real(0.5, 0.9);
          choice.tokenMs = choice.milliseconds / 20;
          fastest[i] = std::min(fastest[i], choice.milliseconds);
          piece.candidates.push_back(choice);
        }
      p.pieces.push_back(piece);
    }
    for (int first = 0; first < settings.pieces; first += settings.piecesPerAgent) {
      int count = std::min(settings.piecesPerAgent, settings.pieces - first);
      Agent agent;
      agent.name = "agent" + std::to_string(first / settings.piecesPerAgent);
      agent.requestsPerSecond = std::exp(real(std::log(5), std::log(80)));
      std::vector<int> children;
      std::vector<Region::Arc> arcs;
      std::vector<double> end(count, 0.0);
      double least = 0;
      for (int i = 0; i < count; ++i) {
        agent.regions.push_back(Region::execution(first + i));
        children.push_back(i);
        auto connect = [&](int from) {
          p.edges.push_back({"edge" + std::to_string(p.edges.size()),
                             first + from,
                             first + i,
                             std::exp(real(std::log(1e4), std::log(4e8))),
                             {}});
          arcs.push_back({from, i, {int(p.edges.size()) - 1}, false});
          end[i] = std::max(end[i], end[from]);
        };
        // Mostly chains; sometimes two run side by side and meet again.
        if (i % 5 == 3 && i >= 2) {
          connect(i - 2);
        } else if (i % 5 == 4) {
          connect(i - 1);
          connect(i - 2);
        } else if (i > 0) {
          connect(i - 1);
        }
        end[i] += fastest[first + i];
        least = std::max(least, end[i]);
      }
      agent.regions.push_back(Region::dag(children, arcs));
      agent.root = count;
      agent.level.endToEndMs = least * real(1.15, 1.5) + 20;
      if (settings.percentiles) {
        // Ten pieces that spread so have their sum's 95th percentile a quarter above its mean.
        agent.level.endToEndMs *= 1.25;
        agent.level.percentile = 0.95;
        for (int i = 0; i < count; ++i)
          p.pieces[first + i].shape = Shape::lognormal(1.8);
      }
      p.agents.push_back(std::move(agent));
    }
    // The pools that are used most, when nothing limits them, get about that much: agents then meet in them. Without
    // whole nodes each agent is alone, so what is used is the same whatever solves it.
    PlacementProblem alone = p;
    for (Pool &pool : alone.pools)
      pool.wholeNodes = false;
    SolveOptions options;
    options.timeLimitSeconds = 60;
    options.relativeGap = 1e-4;
    if (auto free = solve(alone, options); free && free->hasPlan()) {
      double all = 0;
      for (int64_t devices : free->evaluation.devices)
        all += double(devices);
      // Some pools have less than that, and others what the rest then needs: else there is often no plan at all.
      for (size_t k = 0; k < p.pools.size(); ++k)
        p.pools[k].devices = 8 * int64_t(std::ceil(std::max(double(free->evaluation.devices[k]) * real(0.8, 1.6),
                                                            0.5 * all / double(p.pools.size())) /
                                                   8));
    }
    return p;
  }

private:
  std::mt19937_64 engine;
  double unit() { return double(engine() >> 11) * 0x1.0p-53; }
  double real(double low, double high) { return low + (high - low) * unit(); }
  template <typename T> T pick(std::initializer_list<T> values) {
    return *(values.begin() + size_t(unit() * values.size()));
  }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

} // namespace

int main(int count, char **arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    auto value = [&](const char *name) -> const char * {
      size_t length = std::strlen(name);
      return std::strncmp(arguments[i], name, length) == 0 ? arguments[i] + length : nullptr;
    };
    if (auto text = value("--pieces="))
      settings.pieces = std::atoi(text);
    else if (auto text = value("--pools="))
      settings.pools = std::atoi(text);
    else if (auto text = value("--pieces-per-agent="))
      settings.piecesPerAgent = std::atoi(text);
    else if (auto text = value("--seeds="))
      settings.seeds = std::atoi(text);
    else if (auto text = value("--first-seed="))
      settings.firstSeed = std::atoi(text);
    else if (auto text = value("--limit="))
      settings.limit = std::atof(text);
    else if (auto text = value("--gap="))
      settings.gap = std::atof(text);
    else if (auto text = value("--tighten="))
      settings.tighten = std::atof(text);
    else if (value("--queueing"))
      settings.queueing = true;
    else if (value("--percentiles"))
      settings.percentiles = true;
    else
      return std::fprintf(stderr, "intarsia-bench-plan-solve: unknown argument %s\n", arguments[i]), 1;
  }
  std::vector<double> users, walls, gaps;
  for (int seed = settings.firstSeed; seed < settings.firstSeed + settings.seeds; ++seed) {
    PlacementProblem problem = Instances(seed).make(settings);
    for (Agent &agent : problem.agents)
      agent.level.endToEndMs *= settings.tighten;
    SolveOptions options;
    options.timeLimitSeconds = settings.limit;
    options.relativeGap = settings.gap;
    double before = userSeconds();
    auto result = solve(problem, options);
    if (!result)
      return std::fprintf(stderr, "%s\n", toString(result.takeError()).c_str()), 1;
    std::vector<Conflict> conflicts;
    auto begin = std::chrono::steady_clock::now();
    if (result->status == SolveResult::Status::Infeasible) {
      auto found = explainInfeasibility(problem, options);
      if (!found)
        return std::fprintf(stderr, "%s\n", toString(found.takeError()).c_str()), 1;
      conflicts = std::move(*found);
    }
    double user = userSeconds() - before;
    auto &s = result->statistics;
    s.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const char *names[] = {"optimal", "time limit", "infeasible", "no plan"};
    std::printf(
        "seed %d: %s, %.3f s user, %.3f s wall, gap %.3g, objective %.6g (local search %.6g in %.2f s, root %.6g in "
        "%.2f s, bound %.6g); %d nodes in %.2f s, options %d, %d pruned, %d left\n",
        seed, names[int(result->status)], user, s.seconds, result->gap, result->evaluation.objective,
        s.heuristicObjective, s.heuristicSeconds, s.rootBound, s.rootSeconds, result->bound, s.nodes,
        s.branchAndPriceSeconds, s.options, s.optionsAfterPruning, s.optionsAfterBound);
    for (const Conflict &conflict : conflicts)
      std::printf("  %s\n", conflict.text.c_str());
    std::fflush(stdout);
    users.push_back(user), walls.push_back(s.seconds), gaps.push_back(result->gap);
  }
  std::printf("%d pieces x %d pools: median %.3f s user, %.3f s wall, worst %.3f s user; median gap %.3g, worst %.3g\n",
              settings.pieces, settings.pools, median(users), median(walls),
              *std::max_element(users.begin(), users.end()), median(gaps), *std::max_element(gaps.begin(), gaps.end()));
}
