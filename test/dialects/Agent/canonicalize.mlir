// RUN: intarsia-opt %s --canonicalize --cse | FileCheck %s

agent.model @small {parameters = 1.0e9}
agent.model @minilm {parameters = 2.27e7}
agent.index @kb {vectors = 10000, dimension = 384, chunk_tokens = 100, embedder = @minilm}
agent.memory @notes reads <3 ms> writes <5 ms>

// CHECK-LABEL: agent.graph @joins
agent.graph @joins(%a: !agent.text {agent.size = #agent.amount<1 tokens>}, %b: !agent.text {agent.size = #agent.amount<2 tokens>}) -> (!agent.text, !agent.text) {
  // CHECK-NEXT: %[[J:.*]] = agent.join %[[A:.*]], %[[B:.*]], %[[B]] : !agent.text
  // CHECK-NEXT: agent.return %[[J]], %[[A]] : !agent.text, !agent.text
  %0 = agent.join %a, %b : !agent.text
  %1 = agent.join %0, %b : !agent.text
  %2 = agent.join %a : !agent.text
  agent.return %1, %2 : !agent.text, !agent.text
}

// The same question asked twice gives two answers: neither goes, nor does one whose answer nobody reads.
// CHECK-LABEL: agent.graph @samples
agent.graph @samples(%a: !agent.text {agent.size = #agent.amount<1 tokens>}) -> (!agent.text, !agent.text) {
  // CHECK-COUNT-3: agent.llm
  %0 = agent.llm @small(%a) produces <10 tokens> : (!agent.text) -> !agent.text
  %1 = agent.llm @small(%a) produces <10 tokens> : (!agent.text) -> !agent.text
  %2 = agent.llm @small(%a) produces <10 tokens> : (!agent.text) -> !agent.text
  agent.return %0, %1 : !agent.text, !agent.text
}

// Finding the same texts twice is finding them once.
// CHECK-LABEL: agent.graph @found_twice
agent.graph @found_twice(%a: !agent.text {agent.size = #agent.amount<1 tokens>}) -> (!agent.text, !agent.text) {
  // CHECK-NEXT: %[[D:.*]] = agent.retrieve
  // CHECK-NEXT: agent.return %[[D]], %[[D]]
  %0 = agent.retrieve @kb(%a) {top_k = 3} : (!agent.text) -> !agent.text
  %1 = agent.retrieve @kb(%a) {top_k = 3} : (!agent.text) -> !agent.text
  agent.return %0, %1 : !agent.text, !agent.text
}

// A write in between may change what is read.
// CHECK-LABEL: agent.graph @memory
agent.graph @memory(%a: !agent.text {agent.size = #agent.amount<1 tokens>}) -> (!agent.text, !agent.text) {
  // CHECK-NEXT: agent.read
  // CHECK-NEXT: agent.write
  // CHECK-NEXT: agent.read
  %0 = agent.read @notes(%a) produces <5 tokens> : (!agent.text) -> !agent.text
  agent.write @notes(%a) : !agent.text
  %1 = agent.read @notes(%a) produces <5 tokens> : (!agent.text) -> !agent.text
  agent.return %0, %1 : !agent.text, !agent.text
}

// CHECK-LABEL: agent.graph @branches
agent.graph @branches(%a: !agent.text {agent.size = #agent.amount<1 tokens>}) -> (!agent.text, !agent.text, !agent.text) {
  // What never happens goes.
  // CHECK: %[[B:.*]] = agent.branch on(%{{.*}}) {decide = "f"} : (!agent.text) -> !agent.text
  // CHECK-NEXT: case 0.4 "x" {
  // CHECK-NEXT: agent.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: case 0.6 "z" {
  // CHECK-NOT: case
  %0 = agent.branch on(%a) {decide = "f"} : (!agent.text) -> !agent.text
    case 0.4 "x" {
      agent.yield %a : !agent.text
    }
    case 0 "y" {
      agent.yield %a : !agent.text
    }
    case 0.6 "z" {
      %s = agent.llm @small(%a) produces <10 tokens> : (!agent.text) -> !agent.text
      agent.yield %s : !agent.text
    }
  // A branch that is none goes too, unless it waits.
  // CHECK: }
  // CHECK-NEXT: %[[L:.*]] = agent.llm
  %1 = agent.branch : () -> !agent.text
    case 1 "always" {
      %s = agent.llm @small(%a) produces <10 tokens> : (!agent.text) -> !agent.text
      agent.yield %s : !agent.text
    }
  // CHECK-NEXT: %[[W:.*]] = agent.branch on(%[[L]])
  %2 = agent.branch on(%1) : (!agent.text) -> !agent.text
    case 1 "always" {
      %s = agent.llm @small(%a) produces <10 tokens> : (!agent.text) -> !agent.text
      agent.yield %s : !agent.text
    }
  // CHECK: agent.return %[[B]], %[[L]], %[[W]]
  agent.return %0, %1, %2 : !agent.text, !agent.text, !agent.text
}

// CHECK-LABEL: agent.graph @loops
// CHECK-SAME: (%[[A:.*]]: !agent.text
agent.graph @loops(%a: !agent.text {agent.size = #agent.amount<1 tokens>}) -> !agent.text {
  // CHECK-NEXT: %[[S:.*]] = agent.llm @small(%[[A]])
  %0 = agent.loop(%c = %a) runs <1, max = 1> : (!agent.text) -> !agent.text {
    %s = agent.llm @small(%c) produces <10 tokens> : (!agent.text) -> !agent.text
    agent.yield %s : !agent.text
  }
  // CHECK-NEXT: %[[L:.*]] = agent.loop(%{{.*}} = %[[S]]) runs <1, max = 2>
  %1 = agent.loop(%c = %0) runs <1, max = 2> : (!agent.text) -> !agent.text {
    %s = agent.llm @small(%c) produces <10 tokens> : (!agent.text) -> !agent.text
    agent.yield %s : !agent.text
  }
  // CHECK: agent.return %[[L]]
  agent.return %1 : !agent.text
}

// CHECK-LABEL: agent.graph @maps
// CHECK-SAME: (%[[A:.*]]: !agent.text
agent.graph @maps(%a: !agent.text {agent.size = #agent.amount<10 tokens>}) -> (!agent.text, !agent.text, !agent.text) {
  // CHECK-NEXT: %[[S:.*]] = agent.llm @small(%[[A]])
  %0 = agent.map(%c = %a) width <1> : (!agent.text) -> !agent.text {
    %s = agent.llm @small(%c) produces <10 tokens> : (!agent.text) -> !agent.text
    agent.yield %s : !agent.text
  }
  // CHECK-NEXT: agent.map(%{{.*}} = %[[A]]) width <1, p95 = 3>
  %1 = agent.map(%c = %a) width <1, p95 = 3> : (!agent.text) -> !agent.text {
    %s = agent.llm @small(%c) produces <10 tokens> : (!agent.text) -> !agent.text
    agent.yield %s : !agent.text
  }
  // CHECK: agent.map(%{{.*}} = %[[A]]) width <1> each <5 tokens>
  %2 = agent.map(%c = %a) width <1> each <5 tokens> : (!agent.text) -> !agent.text {
    %s = agent.llm @small(%c) produces <10 tokens> : (!agent.text) -> !agent.text
    agent.yield %s : !agent.text
  }
  agent.return %0, %1, %2 : !agent.text, !agent.text, !agent.text
}
