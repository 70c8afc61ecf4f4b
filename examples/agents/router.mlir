agent.model @router {parameters = 110000000.0}
agent.model @llama8b {context_tokens = 131072, shape = "llama-3.1-8b"}
agent.model @llama70b {context_tokens = 131072, shape = "llama-3.1-70b"}
agent.graph @route(%question: !agent.text {agent.size = #agent.amount<69.5 tokens, p95 = 260>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 15000, ttft_ms = 500, tbt_ms = 50, requests_per_second = 40>} {
  %classify = agent.infer @router(%question) produces <1 tokens> {label = "classify"} : (!agent.text) -> !agent.text loc("router.py":19:1)
  %chosen = agent.branch on(%classify) {decide = "difficult"} : (!agent.text) -> !agent.text
    case 0.6 "easy" {
      %small = agent.llm @llama8b(%question) produces <190 tokens, p95 = 560, max = 1024> {label = "small"} : (!agent.text) -> !agent.text loc("router.py":22:1)
      agent.yield %small : !agent.text
    }
    case 0.4 "hard" {
      %large = agent.llm @llama70b(%question) produces <250 tokens, p95 = 700, max = 1024> {label = "large"} : (!agent.text) -> !agent.text loc("router.py":23:1)
      agent.yield %large : !agent.text
    } loc("router.py":20:1)
  agent.return %chosen : !agent.text
} loc("router.py":16:1)
