// RUN: intarsia-opt %s --plan-decompose-multimodal | FileCheck %s
// RUN: intarsia-opt %s --plan-decompose-multimodal --cse | FileCheck %s --check-prefix=ONCE

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 per_node 8
}
agent.model @vit {parameters = 6.75e8, tokens_per_unit = 1.0e-3}
agent.model @ear {parameters = 6.37e8, tokens_per_unit = 25.0}
agent.model @m {shape = "s", encoders = {image = @vit, audio = @ear}}

// CHECK-LABEL: agent.graph @g
// CHECK-SAME: (%[[Q:.*]]: !agent.text {{.*}}, %[[P:.*]]: !agent.image {{.*}}, %[[S:.*]]: !agent.audio
agent.graph @g(%q: !agent.text {agent.size = #agent.amount<400 tokens>},
               %photo: !agent.image {agent.size = #agent.amount<1048576 pixels>},
               %sound: !agent.audio {agent.size = #agent.amount<30 seconds>}) -> (!agent.text, !agent.text) {
  // Encoders are in the pool; what else a placement says fits the language model.
  // CHECK-NEXT: %[[F:.*]] = agent.encode @vit(%[[P]]) {apart = "b", label = "look", place = #fleet.placement<@dc::@fast>, together = "a"} : (!agent.image) -> !agent.features
  // CHECK-NEXT: %[[E:.*]] = agent.encode @ear(%[[S]]) {apart = "b", label = "look", place = #fleet.placement<@dc::@fast>, together = "a"} : (!agent.audio) -> !agent.features
  // CHECK-NEXT: agent.llm @m(%[[F]], %[[Q]], %[[E]]) produces <300 tokens> {apart = "b", label = "look", place = #fleet.placement<@dc::@fast, tensor = 2, precision = "fp8">, together = "a"} : (!agent.features, !agent.text, !agent.features) -> !agent.text
  %0 = agent.llm @m(%photo, %q, %sound) produces <300 tokens> {label = "look", together = "a", apart = "b", place = #fleet.placement<@dc::@fast, tensor = 2, precision = "fp8">} : (!agent.image, !agent.text, !agent.audio) -> !agent.text
  // Text needs no encoder.
  // CHECK-NEXT: agent.llm @m(%[[Q]])
  %1 = agent.llm @m(%q) produces <300 tokens> : (!agent.text) -> !agent.text
  agent.return %0, %1 : !agent.text, !agent.text
}

// ONCE-LABEL: agent.graph @twice
agent.graph @twice(%photo: !agent.image {agent.size = #agent.amount<1048576 pixels>}) -> (!agent.text, !agent.text) {
  // ONCE: agent.encode
  // ONCE-NOT: agent.encode
  %0 = agent.llm @m(%photo) produces <300 tokens> : (!agent.image) -> !agent.text
  %1 = agent.llm @m(%photo) produces <300 tokens> : (!agent.image) -> !agent.text
  agent.return %0, %1 : !agent.text, !agent.text
}
