//===- LayoutProblem.cpp - Which layouts tensors can have, and what that costs ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/LayoutProblem.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

/// More layouts of a tensor and orders of an op are not considered: sets of layouts are labels of one variable.
static constexpr size_t mostLayouts = 5, mostOrders = 6;
/// A loop that sums along what lies beside each other takes about twice as long as one with lanes along its result, and
/// one that reads each element of a lane elsewhere three times (matmuls and windows on AVX-512; bench/nests.py).
static constexpr double alongSums = 1, acrossSums = 2;
/// A decision compares both sides with so many variables around it free.
static constexpr size_t nearVariables = 24;
/// Between equal costs ops stay as they are written.
static constexpr double tie = 1e-6;

bool fuse::isMadeInAnyLayout(Value value) {
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!op || !type)
    return false;
  if (auto fill = dyn_cast<linalg::FillOp>(op))
    return fill.getOutputs()[0].getDefiningOp<tensor::EmptyOp>() && !isa<TensorType>(fill.getInputs()[0].getType());
  DenseElementsAttr elements;
  if (matchPattern(op, m_Constant(&elements)))
    return elements.isSplat() || (type.getElementType().isIntOrFloat() && type.getElementTypeBitWidth() % 8 == 0);
  return isa<tensor::EmptyOp, tensor::SplatOp, nn::WeightOp>(op);
}

LayoutOrigin LayoutProblem::originOf(Value value) const {
  auto found = origins.find(value);
  if (found != origins.end())
    return found->second;
  return {value, identityLayout(cast<RankedTensorType>(value.getType()).getRank())};
}

Location LayoutProblem::locationOf(Value origin, ArrayRef<int64_t> layout, Operation *consumer) const {
  for (Operation *op : transpositions)
    if (LayoutOrigin of = originOf(op->getResult(0)); of.value == origin && ArrayRef<int64_t>(of.permutation) == layout)
      return op->getLoc();
  return consumer->getLoc();
}

/// The time of making one layout of a tensor from another one.
static double convertUs(const LaidOutTensor &tensor, unsigned from, unsigned to) {
  return tensor.kinds[from] == tensor.kinds[to] ? 0 : tensor.copyUs + tensor.acrossUs;
}

static unsigned indexOf(const LaidOutTensor &tensor, const Layout &layout) {
  return unsigned(llvm::find(tensor.layouts, layout) - tensor.layouts.begin());
}

//===-- The problem -------------------------------------------------------------------------------------------===//

bool LayoutProblem::find() {
  bool isNeeded = false;
  for (Operation &op : fuser.body()) {
    if (std::optional<Layout> permutation = transposition(&op)) {
      LayoutOrigin source = originOf(cast<linalg::GenericOp>(op).getDpsInputOperand(0)->get());
      origins[op.getResult(0)] = {source.value, compose(source.permutation, *permutation)};
      transpositions.push_back(&op);
      isNeeded = true;
      continue;
    }
    if (isa<tensor::DimOp>(op) || (op.getNumResults() == 1 && isMadeInAnyLayout(op.getResult(0))))
      continue;
    addOp(op);
    isNeeded |= ops.back().preferred > 0;
  }
  if (!isNeeded || !findLayouts())
    return false;
  addVariables();
  addCosts();
  return true;
}

void LayoutProblem::addOp(Operation &op) {
  unsigned number = ops.size();
  numberOf[&op] = number;
  ops.push_back({&op, LayoutRules(&op), {}});
  LaidOutOp &added = ops.back();
  added.orders.push_back(added.rules.identity());
  if (added.rules.hasOrders() && isa<linalg::GenericOp>(op)) {
    added.us = fuser.microseconds(kernelRootOf(&op).value_or(KernelRoot::Generic), &op);
    if (std::optional<target::PreferredLayout> layout = fuser.targetOf(&op).preferredLayout(op.getResult(0)))
      if (std::optional<Layout> order = added.rules.orderOfResult(0, layout->permutation)) {
        added.preferred = addOrder(added, order) ? 1 : 0;
        added.slowdown = layout->slowdown;
      }
  }
  op.walk([&](Operation *inner) {
    for (OpOperand &operand : inner->getOpOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.get().getType());
      if (!type || type.getRank() < 2 || operand.get().getParentBlock() != &fuser.body())
        continue;
      LayoutOrigin origin = originOf(operand.get());
      if (!isMadeInAnyLayout(origin.value)) {
        auto [entry, isNew] = tensorOf.try_emplace(origin.value, tensors.size());
        if (isNew) {
          tensors.push_back({origin.value});
          if (Operation *producer = origin.value.getDefiningOp())
            if (auto known = numberOf.find(producer); known != numberOf.end())
              tensors.back().producer = int(known->second);
        }
        tensors[entry->second].reads.push_back(reads.size());
      }
      added.reads.push_back(reads.size());
      reads.push_back({number, &operand, inner != &op, origin});
    }
  });
}

/// Orders that differ by dimensions of 1 are one: what lies between them are views.
bool LayoutProblem::addOrder(LaidOutOp &op, const std::optional<Layout> &order) {
  if (!order || op.orders.size() >= mostOrders || llvm::any_of(op.orders, [&](const Layout &other) {
        return areSameInMemory(op.rules.typeOfOrder(), other, *order);
      }))
    return false;
  op.orders.push_back(*order);
  return true;
}

bool LayoutProblem::addLayout(LaidOutTensor &tensor, Layout layout, bool isNeeded) {
  if (llvm::is_contained(tensor.layouts, layout) || (!isNeeded && tensor.layouts.size() >= mostLayouts))
    return false;
  tensor.layouts.push_back(std::move(layout));
  return true;
}

Layout LayoutProblem::produced(const LaidOutTensor &tensor, unsigned order) const {
  if (tensor.producer < 0)
    return identityLayout(cast<RankedTensorType>(tensor.value.getType()).getRank());
  const LaidOutOp &op = ops[unsigned(tensor.producer)];
  return op.rules.layoutOfResult(op.orders[order], cast<OpResult>(tensor.value).getResultNumber());
}

/// Layouts spread from op to op: from those as written and those that targets prefer.
bool LayoutProblem::findLayouts() {
  for (LaidOutTensor &tensor : tensors) {
    addLayout(tensor, produced(tensor, 0), true);
    for (unsigned read : tensor.reads)
      addLayout(tensor, reads[read].origin.permutation, true);
    if (tensor.layouts.size() > mostLayouts)
      return false;
  }
  bool grew = true;
  while (grew) {
    grew = false;
    for (LaidOutTensor &tensor : tensors) {
      LaidOutOp *producer = tensor.producer < 0 ? nullptr : &ops[unsigned(tensor.producer)];
      if (producer)
        for (unsigned order = 0; order < producer->orders.size(); ++order)
          grew |= addLayout(tensor, produced(tensor, order));
      for (unsigned number : tensor.reads) {
        const LayoutRead &read = reads[number];
        LaidOutOp &reader = ops[read.op];
        if (read.isNested)
          continue;
        unsigned operand = read.operand->getOperandNumber();
        for (const Layout &order : reader.orders) {
          // Another layout is worth a thought if none that there is suits.
          bool isSuited = llvm::any_of(tensor.layouts, [&](const Layout &layout) {
            return reader.rules.reading(order, operand, seen(read, layout)) == Reading::AsItLies;
          });
          if (!isSuited)
            grew |= addLayout(tensor, compose(read.origin.permutation, reader.rules.layoutOfOperand(order, operand)));
        }
        for (const Layout &layout : tensor.layouts)
          grew |= addOrder(reader, reader.rules.orderOfOperand(operand, seen(read, layout)));
      }
      if (producer && producer->rules.hasOrders())
        for (const Layout &layout : tensor.layouts)
          grew |= addOrder(*producer,
                           producer->rules.orderOfResult(cast<OpResult>(tensor.value).getResultNumber(), layout));
    }
  }
  return true;
}

void LayoutProblem::addVariables() {
  for (LaidOutOp &op : ops)
    if (op.orders.size() > 1)
      op.variable = int(costs.addVariable(op.orders.size()));
  for (LaidOutTensor &tensor : tensors) {
    auto type = cast<RankedTensorType>(tensor.value.getType());
    for (const Layout &layout : tensor.layouts) {
      auto same = llvm::find_if(tensor.layouts, [&](auto &other) { return areSameInMemory(type, other, layout); });
      tensor.kinds.push_back(unsigned(same - tensor.layouts.begin()));
    }
    Operation *at = tensor.producer < 0 ? ops[reads[tensor.reads.front()].op].op : ops[unsigned(tensor.producer)].op;
    const DeviceModel &device = fuser.modelOf(at);
    KernelWork work;
    work.root = KernelRoot::Rows;
    work.activationBytes = 2 * fuser.work().bytes(tensor.value);
    tensor.copyUs = device.microseconds(work);
    tensor.acrossUs = tensor.copyUs - device.launchUs;
    if (tensor.reads.size() < 2 || tensor.layouts.size() < 2)
      continue;
    // As written first.
    uint32_t written = 1;
    for (unsigned read : tensor.reads)
      written |= uint32_t(1) << indexOf(tensor, reads[read].origin.permutation);
    tensor.sets.push_back(written);
    for (uint32_t set = 1; set < uint32_t(1) << tensor.layouts.size(); ++set)
      if (set != written)
        tensor.sets.push_back(set);
    tensor.variable = int(costs.addVariable(tensor.sets.size()));
  }
}

double LayoutProblem::readUs(const LayoutRead &read, const LaidOutTensor &tensor, unsigned order,
                             const Layout &layout) const {
  const LaidOutOp &op = ops[read.op];
  Layout given = seen(read, layout);
  if (read.isNested || !op.rules.hasOrders())
    return isIdentity(given) ? 0 : LeastCost::infinity;
  bool isOne = op.rules.isElementByElement();
  // A kernel that reads across rows begins here: what computes the tensor could be part of it otherwise.
  double acrossUs = tensor.acrossUs + (tensor.producer < 0 ? 0 : tensor.copyUs);
  switch (op.rules.reading(op.orders[order], read.operand->getOperandNumber(), given)) {
  case Reading::AsItLies:
    return 0;
  case Reading::AlongSums:
    return alongSums * op.us;
  case Reading::Across:
    return isOne ? acrossUs : acrossSums * op.us;
  case Reading::Impossible:
    // A copy in front of an elementwise op is part of its kernel.
    return isOne && !isa<linalg::GenericOp>(op.op) ? acrossUs : LeastCost::infinity;
  }
  llvm_unreachable("all readings are named");
}

static unsigned countOf(const LeastCost &costs, int variable) {
  return variable < 0 ? 1 : costs.labelsOf(unsigned(variable));
}

/// Adds the cost of labels of two variables, -1 for what has one label.
void LayoutProblem::addCost(int first, int second, llvm::function_ref<double(unsigned, unsigned)> cost) {
  std::vector<double> table;
  for (unsigned a = 0; a < countOf(costs, first); ++a)
    for (unsigned b = 0; b < countOf(costs, second); ++b)
      table.push_back(cost(a, b));
  if (first >= 0 && second >= 0)
    costs.addCost(unsigned(first), unsigned(second), std::move(table));
  else if (first >= 0 || second >= 0)
    costs.addCost(unsigned(std::max(first, second)), std::move(table));
}

void LayoutProblem::addCosts() {
  for (const LaidOutOp &op : ops)
    addCost(op.variable, -1, [&](unsigned order, unsigned) {
      if (op.preferred < 0)
        return tie * order;
      bool isSlow = op.orders[order].back() != op.orders[unsigned(op.preferred)].back();
      return op.us * (isSlow ? op.slowdown : 1) + tie * order;
    });
  for (const LaidOutTensor &tensor : tensors) {
    int producer = tensor.producer < 0 ? -1 : ops[unsigned(tensor.producer)].variable;
    if (tensor.variable < 0) {
      for (unsigned number : tensor.reads) {
        const LayoutRead &read = reads[number];
        addCost(producer, ops[read.op].variable, [&](unsigned from, unsigned to) {
          double least = LeastCost::infinity;
          unsigned given = indexOf(tensor, produced(tensor, from));
          if (given == tensor.layouts.size())
            return least;
          for (auto [index, layout] : llvm::enumerate(tensor.layouts))
            least = std::min(least, convertUs(tensor, given, index) + readUs(read, tensor, to, layout));
          return least;
        });
      }
      continue;
    }
    addCost(tensor.variable, -1, [&](unsigned label, unsigned) {
      llvm::SmallDenseSet<unsigned> kinds;
      for (unsigned layout = 0; layout < tensor.layouts.size(); ++layout)
        if (tensor.sets[label] >> layout & 1)
          kinds.insert(tensor.kinds[layout]);
      return double(kinds.size() - 1) * (tensor.copyUs + tensor.acrossUs);
    });
    addCost(tensor.variable, producer, [&](unsigned label, unsigned order) {
      unsigned given = indexOf(tensor, produced(tensor, order));
      bool has = given < tensor.layouts.size() && (tensor.sets[label] >> given & 1);
      return has ? 0 : LeastCost::infinity;
    });
    for (unsigned number : tensor.reads) {
      const LayoutRead &read = reads[number];
      addCost(tensor.variable, ops[read.op].variable, [&](unsigned label, unsigned order) {
        double least = LeastCost::infinity;
        for (auto [index, layout] : llvm::enumerate(tensor.layouts))
          if (tensor.sets[label] >> index & 1)
            least = std::min(least, readUs(read, tensor, order, layout));
        return least;
      });
    }
  }
}

//===-- Decisions ---------------------------------------------------------------------------------------------===//

std::vector<LayoutProblem::Site> LayoutProblem::sites() {
  std::vector<Site> sites;
  for (auto [number, op] : llvm::enumerate(ops))
    if (op.preferred > 0)
      sites.push_back({op.op,
                       "layout",
                       "apart: the op takes longer in this layout; inside: tensors are copied into the other one",
                       {unsigned(number)}});
  for (Operation *op : transpositions) {
    Site site{op, "linalg.transpose", "apart: a copy of the tensor, or a read across its rows", {}};
    auto add = [&](unsigned number) {
      if (ops[number].variable >= 0 && !llvm::is_contained(site.ops, number))
        site.ops.push_back(number);
    };
    Value origin = originOf(op->getResult(0)).value;
    if (auto tensor = tensorOf.find(origin); tensor != tensorOf.end()) {
      if (int producer = tensors[tensor->second].producer; producer >= 0)
        add(unsigned(producer));
      for (unsigned read : tensors[tensor->second].reads)
        if (reads[read].operand->get() == op->getResult(0))
          add(reads[read].op);
    }
    if (!site.ops.empty())
      sites.push_back(std::move(site));
  }
  return sites;
}

/// Solves all that depends on some variables.
void LayoutProblem::solveAround(unsigned variable) {
  SmallVector<unsigned> component = costs.around(variable);
  LeastCost::Solution part = costs.solve(component, allowed);
  for (unsigned each : component)
    solution.labels[each] = part.labels[each];
}

/// Compares the best with the best other choice, with what is far away as it is chosen.
void LayoutProblem::decide(const Site &site) {
  SmallVector<unsigned> variables =
      llvm::map_to_vector(site.ops, [&](unsigned number) { return unsigned(ops[number].variable); });
  SmallVector<unsigned> near = costs.around(variables, nearVariables);
  LeastCost::Allowed here;
  for (unsigned label : solution.labels)
    here.push_back(uint32_t(1) << label);
  for (unsigned variable : near)
    here[variable] = allowed[variable];
  // As written, or with another order of one of the ops.
  LeastCost::Allowed asWritten = here;
  for (unsigned variable : variables)
    asWritten[variable] &= 1;
  double apartUs = llvm::is_contained(asWritten, 0) ? LeastCost::infinity : costs.solve(near, asWritten).cost;
  double insideUs = LeastCost::infinity;
  unsigned moved = variables.front();
  for (unsigned variable : variables) {
    LeastCost::Allowed other = here;
    other[variable] &= ~uint32_t(1);
    if (other[variable] == 0)
      continue;
    if (double us = costs.solve(near, other).cost; us < insideUs) {
      insideUs = us;
      moved = variable;
    }
  }
  if (std::isinf(insideUs) || std::isinf(apartUs))
    return;
  std::string why;
  bool isInside = fuser.decide(
      {site.op, kernelRootOf(site.op).value_or(KernelRoot::Rows), site.subject, insideUs, apartUs, site.reason}, why);
  // Later decisions leave this one as it is.
  auto other = llvm::find_if(variables, [&](unsigned variable) { return solution.labels[variable] != 0; });
  if (isInside)
    allowed[other == variables.end() ? moved : *other] &= ~uint32_t(1);
  else
    for (unsigned variable : variables)
      allowed[variable] &= 1;
  if (isInside == (other == variables.end()))
    solveAround(variables.front());
  if (isInside)
    for (unsigned number : site.ops) {
      std::string &reasons = ops[number].why;
      reasons += (reasons.empty() ? "" : "; ") + why;
    }
}

void LayoutProblem::choose() {
  allowed = costs.everything();
  solution.labels.assign(costs.size(), 0);
  llvm::BitVector done(costs.size());
  for (unsigned variable = 0; variable < costs.size(); ++variable) {
    if (done.test(variable))
      continue;
    for (unsigned each : costs.around(variable))
      done.set(each);
    solveAround(variable);
  }
  for (const Site &site : sites())
    decide(site);
}

Layout LayoutProblem::chosenLayout(const LayoutRead &read) const {
  const LaidOutTensor &tensor = tensors[tensorOf.lookup(read.origin.value)];
  const LaidOutOp &op = ops[read.op];
  unsigned order = orderOf(op);
  unsigned given = tensor.producer < 0 ? 0 : orderOf(ops[unsigned(tensor.producer)]);
  unsigned from = indexOf(tensor, produced(tensor, given));
  double least = LeastCost::infinity;
  unsigned best = from;
  for (auto [index, layout] : llvm::enumerate(tensor.layouts)) {
    if (tensor.variable >= 0 && !(tensor.sets[solution.labels[unsigned(tensor.variable)]] >> index & 1))
      continue;
    double us = readUs(read, tensor, order, layout) + (tensor.variable < 0 ? convertUs(tensor, from, index) : 0);
    if (us < least) {
      least = us;
      best = index;
    }
  }
  return tensor.layouts[best];
}
