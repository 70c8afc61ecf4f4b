//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Prefill and decode in the same replicas, against the times of the cost model and the queue of Pollaczek and
// Khinchine.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Candidates/Candidates.h"
#include "test/unit/Checked.h"
#include <cmath>

using namespace intarsia;
using namespace intarsia::plan;

namespace {

TEST(PlanAggregates, chargePromptsForTheStepsOfTheirOwnBatch) {
  Fleet fleet;
  fleet.pools = {{.name = "gpus", .device = *checked(findDevice("nvidia/h100-sxm")), .count = 8, .perNode = 8}};
  DecoderWork prefill, decode;
  for (DecoderWork *work : {&prefill, &decode}) {
    work->model = "chat";
    work->shape = checked(findShape("llama-3.1-8b"));
    work->precisions = {"bf16"};
    work->prunes = false;
  }
  prefill.newTokens = 2000, prefill.squaredPrompt = 1.25;
  decode.decodes = decode.promised = true;
  decode.contextTokens = 2000, decode.writtenTokens = 200;
  AggregatedCandidates both = aggregatedCandidates(prefill, decode, fleet, {});
  ASSERT_GT(both.prefill.choices.size(), 10u);
  ASSERT_EQ(both.prefill.choices.size(), both.decode.choices.size());
  double least = unlimited, most = 0;
  for (auto [prompt, ofPrompt, token, ofToken] :
       llvm::zip(both.prefill.choices, both.prefill.meanings, both.decode.choices, both.decode.meanings)) {
    // Each batch is an aggregate: a prompt is in the replicas of one decode.
    EXPECT_EQ(ofPrompt.aggregate, ofToken.aggregate);
    EXPECT_EQ(ofPrompt.batch, ofToken.batch);
    ServingCost cost = llvm::cantFail(decoderCost(decode, fleet, {}, token, ofToken));
    double alone = cost.firstToken(2000).totalMs;
    EXPECT_NEAR(prompt.milliseconds, alone + cost.decodeStep(ofToken.batch, 2100).totalMs, 1e-9) << token.label;
    double busy = prompt.turnProbability, mean = 1.25 * prompt.turnMs * busy / (2 * (1 - busy));
    EXPECT_NEAR(prompt.turnWaitMs, mean, 1e-9) << token.label;
    EXPECT_NEAR(busy, prompt.turnMs * token.slots / token.milliseconds, 1e-9) << token.label;
    EXPECT_LE(busy, 0.95);
    if (ofToken.tensor == 1)
      least = std::min(least, prompt.milliseconds), most = std::max(most, prompt.milliseconds);
  }
  EXPECT_GT(most, 1.1 * least);
}

} // namespace
