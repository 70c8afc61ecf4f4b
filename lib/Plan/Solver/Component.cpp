//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Component.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace intarsia::plan {

/// Labels of a search whose times count, at first.
constexpr size_t labelsOfSearch = 500;
/// Largest number of entries for the elimination of one piece; above, its bucket is split.
constexpr size_t bucketLimit = 1 << 16;

std::vector<std::vector<int>> classesOf(IntEqClasses &connected, size_t pieces) {
  connected.compress();
  std::vector<std::vector<int>> classes(connected.getNumClasses());
  for (size_t piece = 0; piece < pieces; ++piece)
    classes[connected[unsigned(piece)]].push_back(int(piece));
  return classes;
}

std::vector<std::vector<int>> componentsOf(const Program &program) {
  IntEqClasses connected(unsigned(program.options.size()));
  for (auto &pair : program.pairs)
    connected.join(pair.from, pair.to);
  for (auto &check : program.checks) {
    int first = -1;
    for (auto &region : program.problem.agents[check.agent].regions)
      if (region.kind == Region::Kind::Piece)
        connected.join(region.piece, first = first < 0 ? region.piece : first);
  }
  return classesOf(connected, program.options.size());
}

Component::Component(const Program &program, std::vector<int> pieces, ArrayRef<double> mostMs,
                     Clock::time_point deadline)
    : program(program), positionOf(program.options.size(), -1), assignment(program.options.size(), 0),
      labels(labelsOfSearch) {
  orderPieces(std::move(pieces));
  std::vector<int> agents;
  bool isTimed = false;
  for (auto [index, check] : enumerate(program.checks))
    for (auto &region : program.problem.agents[check.agent].regions)
      if (region.kind == Region::Kind::Piece) {
        if (positionOf[region.piece] >= 0) {
          checks.push_back(int(index));
          isTimed |= check.inObjective || !check.nominal;
          if (!is_contained(agents, check.agent))
            agents.push_back(check.agent);
        }
        break;
      }
  if (isTimed) {
    timed = std::make_unique<TimedSearch>(program, order, agents, mostMs, deadline);
    return;
  }
  pairsBack.resize(order.size());
  for (auto [index, pair] : enumerate(program.pairs)) {
    int from = positionOf[pair.from], to = positionOf[pair.to];
    if (from < 0 || to < 0)
      continue;
    pairsBack[std::max(from, to)].push_back(int(pairs.size()));
    pairs.push_back({int(index), std::min(from, to), std::max(from, to), from > to});
  }
  for (int piece : order)
    groups.push_back(program.groups[piece]);
  planMessages();
  optionsTaken.assign(order.size(), -1);
  groupsTaken.assign(order.size(), -1);
  // The earlier positions that the remaining pieces depend on. With too many values few states ever repeat.
  levels.resize(order.size());
  for (int position = 1; position < int(order.size()); ++position) {
    std::set<int> before;
    for (int later = position; later < int(order.size()); ++later)
      for (int pair : pairsBack[later])
        if (pairs[pair].first < position)
          before.insert(pairs[pair].first);
    double values = 1;
    for (int of : before)
      values *= groups[of];
    if (values < 1e15)
      levels[position].frontier.assign(before.begin(), before.end());
  }
}

void Component::orderPieces(std::vector<int> pieces) {
  // Minimum degree: the piece with the fewest remaining neighbors is eliminated first, that is assigned last.
  std::map<int, std::set<int>> neighbors;
  for (int piece : pieces)
    for (int pair : program.pairsOf[piece])
      neighbors[piece].insert(program.pairs[pair].from == piece ? program.pairs[pair].to : program.pairs[pair].from);
  while (!pieces.empty()) {
    auto next = llvm::min_element(pieces, [&](int a, int b) { return neighbors[a].size() < neighbors[b].size(); });
    int piece = *next;
    for (int a : neighbors[piece]) {
      neighbors[a].erase(piece);
      for (int b : neighbors[piece])
        if (a != b)
          neighbors[a].insert(b);
    }
    order.push_back(piece);
    pieces.erase(next);
  }
  std::reverse(order.begin(), order.end());
  for (auto [position, piece] : enumerate(order))
    positionOf[piece] = int(position);
}

void Component::planMessages() {
  sent.resize(order.size()), received.resize(order.size());
  for (int position = int(order.size()) - 1; position >= 0; --position) {
    struct Part {
      bool isPair;
      int index;
      std::vector<int> scope; ///< without the piece itself
    };
    std::vector<Part> parts;
    for (int pair : pairsBack[position])
      parts.push_back({true, pair, {pairs[pair].first}});
    for (int message : received[position])
      parts.push_back({false, message, ArrayRef(messages[message].scope).drop_back().vec()});
    llvm::stable_sort(parts, [](const Part &a, const Part &b) { return a.scope.size() > b.scope.size(); });
    std::vector<Message> buckets;
    for (auto &part : parts) {
      Message *taken = nullptr;
      std::vector<int> scope;
      for (auto &bucket : buckets) {
        scope.clear();
        std::set_union(bucket.scope.begin(), bucket.scope.end(), part.scope.begin(), part.scope.end(),
                       std::back_inserter(scope));
        size_t size = groups[position];
        for (int of : scope)
          size = std::min(size * groups[of], 2 * bucketLimit);
        if (size <= bucketLimit) {
          taken = &bucket;
          break;
        }
      }
      if (!taken) {
        buckets.emplace_back();
        taken = &buckets.back();
        scope = part.scope;
      }
      taken->scope = scope;
      taken->factors.push_back({part.isPair, part.index, {}});
    }
    if (buckets.empty())
      buckets.emplace_back();
    for (auto [index, bucket] : enumerate(buckets)) {
      bucket.from = position;
      bucket.first = index == 0;
      bucket.strides.resize(bucket.scope.size());
      for (size_t of = bucket.scope.size(); of-- > 0; bucket.size *= groups[bucket.scope[of]])
        bucket.strides[of] = bucket.size;
      for (auto &factor : bucket.factors) {
        ArrayRef<int> scope = factor.isPair ? ArrayRef<int>(pairs[factor.index].first)
                                            : ArrayRef(messages[factor.index].scope).drop_back();
        // The piece itself is last in the tables of its factors.
        factor.strides.assign(bucket.scope.size() + 1, 0);
        factor.strides.back() = 1;
        size_t stride = groups[position];
        for (int of : llvm::reverse(scope)) {
          factor.strides[llvm::find(bucket.scope, of) - bucket.scope.begin()] = stride;
          stride *= groups[of];
        }
      }
      sent[position].push_back(int(messages.size()));
      if (!bucket.scope.empty())
        received[bucket.scope.back()].push_back(int(messages.size()));
      messages.push_back(std::move(bucket));
    }
  }
}

std::vector<int> Component::pairsInside() const {
  std::vector<int> inside;
  for (auto [index, pair] : enumerate(program.pairs))
    if (positionOf[pair.from] >= 0 && positionOf[pair.to] >= 0)
      inside.push_back(int(index));
  return inside;
}

std::vector<double> Component::pairTable(const PairHere &pair, const std::vector<double> &table) const {
  if (!pair.swapped)
    return table;
  std::vector<double> transposed(table.size());
  size_t rowsOf = groups[pair.first], columns = groups[pair.second];
  for (size_t a = 0; a < rowsOf; ++a)
    for (size_t b = 0; b < columns; ++b)
      transposed[a * columns + b] = table[b * rowsOf + a];
  return transposed;
}

void Component::updateGroups(Terms &terms) const {
  terms.groups.resize(order.size());
  for (size_t position = 0; position < order.size(); ++position) {
    auto &least = terms.groups[position];
    least.assign(groups[position], unlimited);
    for (auto [option, cost] : enumerate(terms.options[position]))
      if (allowed[position][option]) {
        double &group = least[program.options[order[position]][option].group];
        group = std::min(group, cost);
      }
  }
}

void Component::eliminate(Terms &terms) const {
  terms.messages.resize(messages.size());
  terms.least = 0;
  SmallVector<const double *, 8> bases;
  SmallVector<const Message::Factor *, 8> factors;
  SmallVector<int, 8> at;
  for (auto [index, message] : enumerate(messages)) {
    auto &table = terms.messages[index];
    table.resize(message.size);
    size_t scope = message.scope.size();
    const std::vector<int> &own = live[message.from];
    const double *unary = terms.groups[message.from].data();
    bases.clear(), factors.clear();
    for (auto &factor : message.factors) {
      auto &data = factor.isPair ? terms.pairs[factor.index] : terms.messages[factor.index];
      if (data.empty())
        continue;
      const double *base = data.data();
      for (size_t of = 0; of < scope; ++of)
        base += factor.strides[of] * live[message.scope[of]].front();
      bases.push_back(base);
      factors.push_back(&factor);
    }
    size_t entry = 0;
    for (size_t of = 0; of < scope; ++of)
      entry += message.strides[of] * live[message.scope[of]].front();
    at.assign(scope, 0);
    for (bool more = true; more;) {
      double least = unlimited;
      // Only the first bucket of a piece carries the piece's own costs; in the others its groups are only restricted.
      for (int group : own) {
        double sum = message.first ? unary[group] : 0;
        for (const double *base : bases)
          sum += base[group];
        least = std::min(least, sum);
      }
      table[entry] = least;
      more = false;
      for (size_t of = scope; of-- > 0 && !more;) {
        const std::vector<int> &groupsOf = live[message.scope[of]];
        more = size_t(at[of] + 1) < groupsOf.size();
        int next = more ? at[of] + 1 : 0;
        ptrdiff_t distance = groupsOf[next] - groupsOf[at[of]];
        entry += message.strides[of] * distance;
        for (auto [base, factor] : zip(bases, factors))
          base += ptrdiff_t(factor->strides[of]) * distance;
        at[of] = next;
      }
    }
    if (scope == 0)
      terms.least += table[0];
  }
}

double Component::messageAt(const Terms &terms, int index, ArrayRef<int> taken) const {
  const Message &message = messages[index];
  size_t offset = 0;
  for (auto [of, stride] : zip(message.scope, message.strides))
    offset += stride * taken[of];
  return terms.messages[index][offset];
}

void Component::setPrices(const std::vector<std::vector<double>> &optionCosts,
                          const std::vector<std::vector<double>> &pairCosts,
                          const std::vector<std::vector<uint8_t>> &allowedOptions, double perMs) {
  if (timed)
    return timed->setPrices(optionCosts, pairCosts, allowedOptions, perMs);
  bool changed = allowed.empty();
  allowed.resize(order.size());
  costs.options.resize(order.size());
  for (auto [position, piece] : enumerate(order)) {
    costs.options[position] = optionCosts[piece];
    if (allowed[position] != allowedOptions[piece]) {
      allowed[position] = allowedOptions[piece];
      changed = true;
    }
  }
  costs.pairs.clear();
  for (auto &pair : pairs)
    costs.pairs.push_back(pairTable(pair, pairCosts[pair.pair]));
  if (changed)
    updateLive();
  if (changed && !isImpossible)
    for (auto &row : rows) {
      updateGroups(row.terms);
      eliminate(row.terms);
    }
}

void Component::updateLive() {
  live.assign(order.size(), {});
  isImpossible = false;
  for (auto [position, piece] : enumerate(order)) {
    std::vector<uint8_t> any(groups[position]);
    for (auto [option, may] : zip(program.options[piece], allowed[position]))
      any[option.group] |= may;
    for (int group = 0; group < groups[position]; ++group)
      if (any[group])
        live[position].push_back(group);
    isImpossible |= live[position].empty();
  }
}

void Component::addRow(const Row &row) {
  RowHere here;
  here.upper = row.upper;
  here.terms.options.resize(order.size());
  for (auto [position, piece] : enumerate(order))
    here.terms.options[position].assign(program.options[piece].size(), 0.0);
  for (auto &term : row.optionTerms)
    if (int position = positionOf[term.piece]; position >= 0)
      here.terms.options[position] = term.factors;
  here.terms.pairs.resize(pairs.size());
  for (auto [index, pair] : enumerate(pairs))
    for (auto &term : row.pairTerms)
      if (term.pair == pair.pair)
        here.terms.pairs[index] = pairTable(pair, term.factors);
  if (!allowed.empty()) {
    updateGroups(here.terms);
    eliminate(here.terms);
  }
  rows.push_back(std::move(here));
  rowAdded = true;
}

double Component::usageOf(const RowHere &row, ArrayRef<int> options) const {
  double sum = 0;
  auto groupOf = [&](int position) { return program.options[order[position]][options[position]].group; };
  for (auto [position, option] : enumerate(options))
    sum += row.terms.options[position][option];
  for (auto [pair, table] : zip(pairs, row.terms.pairs))
    if (!table.empty())
      sum += table[size_t(groupOf(pair.first)) * groups[pair.second] + groupOf(pair.second)];
  return sum;
}

double Component::costOf(ArrayRef<int> options) const {
  double sum = 0;
  auto groupOf = [&](int position) { return program.options[order[position]][options[position]].group; };
  for (auto [position, option] : enumerate(options))
    sum += costs.options[position][option];
  for (auto [pair, table] : zip(pairs, costs.pairs))
    sum += table[size_t(groupOf(pair.first)) * groups[pair.second] + groupOf(pair.second)];
  return sum;
}

bool Component::offer(ArrayRef<int> options, double &below, Result &result) {
  double cost = costOf(options);
  if (!(cost < below))
    return false;
  for (auto &row : rows)
    if (exceeds(usageOf(row, options), row.upper))
      return false;
  for (auto [position, option] : enumerate(options))
    assignment[order[position]] = option;
  for (int index : checks) {
    const LatencyCheck &check = program.checks[index];
    PathTerms terms;
    if (exceeds(program.latency(check, assignment, &terms), check.limit)) {
      addRow(program.rowOf(check, terms));
      return false;
    }
  }
  below = cost;
  result.found.push_back({cost, options.vec()});
  return true;
}

} // namespace intarsia::plan
