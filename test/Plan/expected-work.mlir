// RUN: intarsia-opt %s --plan-decompose-llm --plan-expected-work --split-input-file --verify-diagnostics | FileCheck %s

agent.model @m {shape = "s", context_tokens = 4096}
agent.tool @web takes <5 ms>

// Runs 1, 2 or 3 times, 1.75 times on average; the context is 100, 150, 200 tokens. Prompts of all runs:
// 100 + 0.5 * 150 + 0.25 * 200 = 225 in 1.75 executions.
// CHECK-LABEL: agent.graph @without_prefix
agent.graph @without_prefix(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  // CHECK: agent.prefill {{.*}} {new_tokens = #agent.amount<128.571 tokens, p95 = 195.367>, work = #agent.work<executions = 1.75, probability = 1>}
  // CHECK: agent.decode {{.*}} {context_tokens = #agent.amount<128.571 tokens, p95 = 195.367>, work = #agent.work<executions = 1.75, probability = 1>}
  // CHECK: agent.invoke {{.*}} {work = #agent.work<executions = 1.75, probability = 1>}
  %0 = agent.loop(%c = %q) runs <1.75, max = 3> {run_probabilities = array<f64: 0.5, 0.25, 0.25>} : (!agent.text) -> !agent.text {
    %t = agent.llm @m(%c) produces <20 tokens> : (!agent.text) -> !agent.text
    %o = agent.invoke @web(%t) produces <30 tokens> : (!agent.text) -> !agent.text
    %n = agent.join %c, %t, %o : !agent.text
    agent.yield %n : !agent.text
  }
  // After the loop the context is 100 + 50 * 1.75.
  // CHECK: agent.prefill {{.*}} {new_tokens = #agent.amount<187.5 tokens, p95 = {{.*}}>, work = #agent.work<executions = 1, probability = 1>}
  %a = agent.llm @m(%0) produces <10 tokens> : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}

// 100 + 0.5 * 50 + 0.25 * 50 = 137.5 are new, 0.5 * 100 + 0.25 * 150 = 87.5 are there.
// CHECK-LABEL: agent.graph @with_prefix
agent.graph @with_prefix(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  // CHECK: agent.prefill {{.*}} {cached_tokens = #agent.amount<50 tokens, {{.*}}>, new_tokens = #agent.amount<78.5714 tokens, {{.*}}>
  // CHECK: agent.decode {{.*}} {context_tokens = #agent.amount<128.571 tokens, p95 = 195.367>
  %0 = agent.loop(%c = %q) runs <1.75, max = 3> keeps_prefix {run_probabilities = array<f64: 0.5, 0.25, 0.25>} : (!agent.text) -> !agent.text {
    %t = agent.llm @m(%c) produces <20 tokens> : (!agent.text) -> !agent.text
    %o = agent.invoke @web(%t) produces <30 tokens> : (!agent.text) -> !agent.text
    %n = agent.join %c, %t, %o : !agent.text
    agent.yield %n : !agent.text
  }
  agent.return %0 : !agent.text
}

// A prompt that begins with what is new shares nothing, whatever follows.
// CHECK-LABEL: agent.graph @no_common_prefix
agent.graph @no_common_prefix(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  // CHECK: agent.prefill
  // CHECK-NOT: cached_tokens
  // CHECK: agent.decode
  %0 = agent.loop(%c = %q) runs <1.75, max = 3> keeps_prefix {run_probabilities = array<f64: 0.5, 0.25, 0.25>} : (!agent.text) -> !agent.text {
    %t = agent.llm @m(%c) produces <20 tokens> : (!agent.text) -> !agent.text
    %n = agent.join %t, %c : !agent.text
    agent.yield %n : !agent.text
  }
  agent.return %0 : !agent.text
}

// The same question each time: all of it is there from the second run on, 100 of 200 tokens on average, and instructions
// that all requests share always are.
// CHECK-LABEL: agent.graph @same_prompt
agent.graph @same_prompt(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  // CHECK: agent.prefill {{.*}} {cached_tokens = #agent.amount<90 tokens, {{.*}}>, instruction_tokens = 40 : i64, new_tokens = #agent.amount<50 tokens, {{.*}}>, shared_instructions, work = #agent.work<executions = 2, probability = 1>}
  %0 = agent.loop(%c = %q) runs <2, max = 2> keeps_prefix : (!agent.text) -> !agent.text {
    %t = agent.llm @m(%q) produces <20 tokens> {instruction_tokens = 40, shared_instructions} : (!agent.text) -> !agent.text
    agent.yield %t : !agent.text
  }
  agent.return %0 : !agent.text
}

// In a case of probability 0.5 the prompt seen last is that of j runs ago with probability 0.5^j. Three runs, prompts 10,
// 20, 30: run 1 finds 10 with 0.5; run 2 finds 20 with 0.5 and 10 with 0.25. On average over runs (0 + 5 + 12.5) / 3.
// CHECK-LABEL: agent.graph @sometimes
agent.graph @sometimes(%q: !agent.text {agent.size = #agent.amount<10 tokens>}) {
  // CHECK: agent.prefill {{.*}} {cached_tokens = #agent.amount<5.83333 tokens, {{.*}}>, new_tokens = #agent.amount<14.1667 tokens, {{.*}}>, work = #agent.work<executions = 1.5, probability = 0.875>}
  %0 = agent.loop(%c = %q) runs <3, max = 3> keeps_prefix : (!agent.text) -> !agent.text {
    agent.branch : () -> ()
      case 0.5 "ask" {
        %t = agent.llm @m(%c) produces <20 tokens> : (!agent.text) -> !agent.text
        agent.yield
      }
      case 0.5 "skip" {
        agent.yield
      }
    %o = agent.invoke @web(%c) produces <10 tokens> : (!agent.text) -> !agent.text
    %n = agent.join %c, %o : !agent.text
    agent.yield %n : !agent.text
  }
  agent.return
}

// Nested: 2 * 3 runs of the inner task, by a branch of 0.25 and a map of 4: 2 * 3 * 0.25 * 4; at least once with
// 1 - (1 - 0.25 * 1)^6, for a map has at least one item.
// CHECK-LABEL: agent.graph @nested
agent.graph @nested(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) {
  // CHECK: agent.invoke {{.*}} {work = #agent.work<executions = 6, probability = 0.822021>}
  agent.loop() runs <2, max = 2> : () -> () {
    agent.loop() runs <3, max = 3> : () -> () {
      agent.branch : () -> ()
        case 0.25 "x" {
          %0 = agent.map(%i = %q) width <4> : (!agent.text) -> !agent.text {
            %o = agent.invoke @web(%i) produces <10 tokens> : (!agent.text) -> !agent.text
            agent.yield %o : !agent.text
          }
          agent.yield
        }
        case 0.75 "y" {
          agent.yield
        }
      agent.yield
    }
    agent.yield
  }
  agent.return
}

// The share of a map's item, the mixture of a branch, the sum of a map.
// CHECK-LABEL: agent.graph @sizes
agent.graph @sizes(%q: !agent.text {agent.size = #agent.amount<1000 tokens>}) -> !agent.text {
  // CHECK: agent.prefill {{.*}} {new_tokens = #agent.amount<250 tokens>, work = #agent.work<executions = 4, probability = 1>}
  %0 = agent.map(%i = %q) width <4> : (!agent.text) -> !agent.text {
    %o = agent.llm @m(%i) produces <10 tokens, p95 = 20> : (!agent.text) -> !agent.text
    agent.yield %o : !agent.text
  }
  %1 = agent.branch on(%0) : (!agent.text) -> !agent.text
    case 0.75 "short" {
      agent.yield %0 : !agent.text
    }
    case 0.25 "long" {
      agent.yield %q : !agent.text
    }
  // 0.75 * 40 + 0.25 * 1000
  // CHECK: agent.prefill {{.*}} {new_tokens = #agent.amount<280 tokens, p95 = {{.*}}>, work = #agent.work<executions = 1, probability = 1>}
  %2 = agent.llm @m(%1) produces <10 tokens> : (!agent.text) -> !agent.text
  agent.return %2 : !agent.text
}

// Known are mean and bound: P(n) proportional to r^n.
// CHECK-LABEL: agent.graph @runs
agent.graph @runs() {
  // CHECK: run_probabilities = array<f64: 0.333333{{[0-9]*}}, 0.333333{{[0-9]*}}, 0.333333{{[0-9]*}}>
  agent.loop() runs <2, max = 3> : () -> () {
    agent.yield
  }
  // 4/7, 2/7, 1/7
  // CHECK: run_probabilities = array<f64: 0.571428{{[0-9]*}}, 0.285714{{[0-9]*}}, 0.142857{{[0-9]*}}>
  agent.loop() runs <1.5714285714285714, max = 3> : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.model @m {shape = "s", context_tokens = 4096}
agent.graph @too_long(%q: !agent.text {agent.size = #agent.amount<4000 tokens>}) -> !agent.text {
  // expected-error@+1 {{prompt and answer have 4200 tokens on average (4000 and 200), @m has room for 4096; shorten what it reads, or take another model}}
  %0 = agent.llm @m(%q) produces <200 tokens> : (!agent.text) -> !agent.text
  agent.return %0 : !agent.text
}

// -----

agent.graph @callee() {
  agent.return
}
agent.graph @calls() {
  // expected-error@+1 {{'agent.call' stands in the way of sizes; run plan-inline-calls before}}
  agent.call @callee() : () -> ()
  agent.return
}

// -----

agent.graph @too_often() {
  agent.loop() runs <50000, max = 100000> : () -> () {
    agent.loop() runs <50000, max = 100000> : () -> () {
      agent.loop() runs <2, max = 3> : () -> () {
        // expected-error@+1 {{the loops around this run too often to be followed run by run (1000000 steps); lower their bounds}}
        agent.yield
      }
      agent.yield
    }
    agent.yield
  }
  agent.return
}
