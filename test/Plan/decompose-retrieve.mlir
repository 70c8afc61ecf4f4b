// RUN: intarsia-opt %s --plan-decompose-retrieve | FileCheck %s

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 per_node 8
}
agent.model @minilm {parameters = 2.27e7}
agent.index @kb {vectors = 10000, dimension = 384, chunk_tokens = 100, embedder = @minilm}
agent.index @searched takes <40 ms> {vectors = 10000, dimension = 384, chunk_tokens = 100, embedder = @minilm}
agent.index @hosted takes <40 ms> {vectors = 10000, dimension = 384, chunk_tokens = 100}

// CHECK-LABEL: agent.graph @g
// CHECK-SAME: (%[[Q:.*]]: !agent.text
agent.graph @g(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> (!agent.text, !agent.text) {
  // Both are in the pool; what else a placement says fits the search.
  // CHECK-NEXT: %[[V:.*]] = agent.embed @minilm(%[[Q]]) {apart = "b", label = "find", place = #fleet.placement<@dc::@fast>, together = "a"} : (!agent.text) -> !agent.vector
  // CHECK-NEXT: agent.search @kb(%[[V]]) produces <500 tokens> {apart = "b", label = "find", place = #fleet.placement<@dc::@fast, data = 2, replicas = 3>, together = "a", top_k = 8 : i64} : (!agent.vector) -> !agent.text
  %0 = agent.retrieve @kb(%q) produces <500 tokens> {top_k = 8, label = "find", place = #fleet.placement<@dc::@fast, data = 2, replicas = 3>, together = "a", apart = "b"} : (!agent.text) -> !agent.text
  // Somebody else embeds.
  // CHECK-NEXT: agent.search @hosted(%[[Q]]) {top_k = 8 : i64} : (!agent.text) -> !agent.text
  %1 = agent.retrieve @hosted(%q) {top_k = 8} : (!agent.text) -> !agent.text
  // The search is not ours to place.
  // CHECK-NEXT: agent.embed @minilm(%[[Q]]) {place = #fleet.placement<@dc::@fast>}
  // CHECK-NEXT: agent.search @searched(%{{.*}}) {top_k = 8 : i64} : (!agent.vector) -> !agent.text
  %2 = agent.retrieve @searched(%q) {top_k = 8, place = #fleet.placement<@dc::@fast>} : (!agent.text) -> !agent.text
  agent.return %0, %1 : !agent.text, !agent.text
}
