// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op probabilities are 0.7, 0.2, which sum to 0.9, must sum to 1}}
  agent.branch : () -> ()
    case 0.7 "x" {
      agent.yield
    }
    case 0.2 "y" {
      agent.yield
    }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op probabilities -0.5 is not between 0 and 1}}
  agent.branch : () -> ()
    case 0.5 "x" {
      agent.yield
    }
    case -0.5 "y" {
      agent.yield
    }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op probabilities 0x7FF8000000000000 : f64 is not between 0 and 1}}
  agent.branch : () -> ()
    case 0x7FF8000000000000 : f64 "x" {
      agent.yield
    }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op has no case}}
  agent.branch : () -> ()
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op has two cases of the name 'x'}}
  agent.branch : () -> ()
    case 0.5 "x" {
      agent.yield
    }
    case 0.5 "x" {
      agent.yield
    }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op has a case without a name}}
  agent.branch : () -> ()
    case 1 "" {
      agent.yield
    }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op case 'x' must end with agent.yield}}
  agent.branch : () -> ()
    case 1 "x" {
      llvm.unreachable
    }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  agent.branch : () -> ()
    case 1 "x" {
      // expected-error@+1 {{'agent.yield' op of case 'x' gives ('!agent.text'), 'agent.branch' gives ()}}
      agent.yield %a : !agent.text
    }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op case "x" takes arguments, must take none}}
  agent.branch : () -> ()
    case 1 "x" {
    ^bb0(%x: !agent.text):
      agent.yield
    }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.branch' op has 1 cases, 2 probabilities and 1 names}}
  "agent.branch"() <{probabilities = array<f64: 0.5, 0.5>, names = ["x"]}> ({
    agent.yield
  }) : () -> ()
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op has no bound: a loop that may run for ever has no latency that could be promised; say how often at most, such as runs <3.2, max = 8>}}
  agent.loop() runs <3.2> : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op runs are counted in ms, must be a plain number: runs <3.2, max = 8>}}
  agent.loop() runs <3.2 ms, max = 8> : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op runs at most 8.5 times, must be a whole number of at most 100000}}
  agent.loop() runs <3.2, max = 8.5> : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op runs at most 200000 times, must be a whole number of at most 100000}}
  agent.loop() runs <3.2, max = 200000> : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op has 3 run_probabilities, but runs at most 2 times}}
  agent.loop() runs <1.5, max = 2> {run_probabilities = array<f64: 0.5, 0.25, 0.25>} : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op run_probabilities are 0.5, 0.4, which sum to 0.9, must sum to 1}}
  agent.loop() runs <1.5, max = 2> {run_probabilities = array<f64: 0.5, 0.4>} : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op runs 1.2 times on average, by its run_probabilities 1.5}}
  agent.loop() runs <1.2, max = 2> {run_probabilities = array<f64: 0.5, 0.5>} : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op says by percentiles how often it runs, must say a mean alone or run_probabilities}}
  agent.loop() runs <count, p50 = 2, p95 = 7, max = 8> : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op carries ('!agent.text'), gives (), must be the same}}
  agent.loop(%c = %a) runs <1.2, max = 2> : (!agent.text) -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{loop carries 1 values, its type 0}}
  agent.loop(%c = %a) runs <1.2, max = 2> : () -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op the loop must end with agent.yield}}
  agent.loop() runs <1.2, max = 2> : () -> () {
    llvm.unreachable
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.loop' op region takes ('!agent.audio'), the loop carries ('!agent.text')}}
  %0 = "agent.loop"(%a) <{runs = #agent.amount<1.2, max = 2>}> ({
  ^bb0(%c: !agent.audio):
    agent.yield %a : !agent.text
  }) : (!agent.text) -> !agent.text
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  agent.loop() runs <1.2, max = 2> : () -> () {
    // expected-error@+1 {{'agent.yield' op of the loop gives ('!agent.text'), 'agent.loop' gives ()}}
    agent.yield %a : !agent.text
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.map' op width is counted in tokens, must be a plain number: width <20, p95 = 40>}}
  agent.map(%c = %a) width <20 tokens> : (!agent.text) -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.map' op items are counted in seconds, '!agent.text' is counted in tokens}}
  agent.map(%c = %a) width <20> each <3 seconds> : (!agent.text) -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.map' op concurrency is 0, must be between 1 and 1000000}}
  agent.map(%c = %a) width <20> {concurrency = 0} : (!agent.text) -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{map is over 2 values, must be over one}}
  agent.map(%c = %a, %d = %a) width <20> : (!agent.text, !agent.text) -> () {
    agent.yield
  }
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.map' op region takes ('!agent.audio'), the map is over '!agent.text'}}
  "agent.map"(%a) <{width = #agent.amount<2>}> ({
  ^bb0(%c: !agent.audio):
    agent.yield
  }) : (!agent.text) -> ()
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.map' op the map must end with agent.yield}}
  agent.map(%c = %a) width <20> : (!agent.text) -> () {
    llvm.unreachable
  }
  agent.return
}
