// RUN: intarsia-test-opt %s --test-agent-graph --split-input-file --verify-diagnostics -o /dev/null

agent.model @m {shape = "llama-3.1-8b"}
agent.graph @g(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> !agent.text {
  %kv, %first = agent.prefill @m(%q) : (!agent.text) -> (!agent.kv, !agent.text)
  // expected-error@+1 {{'agent.experts' of @m, whose shape llama-3.1-8b has no experts; leave it away}}
  %e = agent.experts @m : !agent.experts
  %a = agent.decode @m(%kv, %first) experts %e produces <3 tokens> : (!agent.kv, !agent.text, !agent.experts) -> !agent.text
  agent.return %a : !agent.text
}

// -----

agent.model @m {shape = "mixtral-8x8b"}
agent.graph @g(%q: !agent.text {agent.size = #agent.amount<400 tokens>}) -> !agent.text {
  %kv, %first = agent.prefill @m(%q) : (!agent.text) -> (!agent.kv, !agent.text)
  // expected-error-re@+1 {{'agent.experts' of @m: {{.*}}mixtral-8x7b}}
  %e = agent.experts @m : !agent.experts
  %a = agent.decode @m(%kv, %first) experts %e produces <3 tokens> : (!agent.kv, !agent.text, !agent.experts) -> !agent.text
  agent.return %a : !agent.text
}
