agent.model @llama8b {context_tokens = 131072, shape = "llama-3.1-8b"}
agent.model @llama70b {context_tokens = 131072, shape = "llama-3.1-70b"}
agent.graph @summarise(%report: !agent.text {agent.size = #agent.amount<12500 tokens, p95 = 28000>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 30000, requests_per_second = 1>} {
  %cut = agent.compute "cut"(%report) takes <15 ms> produces <12500 tokens, p95 = 28000> : (!agent.text) -> !agent.text loc("map_reduce_summary.py":20:1)
  %parts = agent.map(%item = %cut) width <7, p95 = 15, max = 40> each <1800 tokens, max = 2000> {label = "parts"} : (!agent.text) -> !agent.text {
    %summarise_part = agent.llm @llama8b(%item) produces <180 tokens, p95 = 260, max = 300> {instruction_tokens = 120, label = "summarise part"} : (!agent.text) -> !agent.text loc("map_reduce_summary.py":22:1)
    agent.yield %summarise_part : !agent.text
  } loc("map_reduce_summary.py":21:1)
  %summarise_summaries = agent.llm @llama70b(%parts) produces <737 tokens, p95 = 1100, max = 1500> {instruction_tokens = 200, label = "summarise summaries"} : (!agent.text) -> !agent.text loc("map_reduce_summary.py":30:1)
  agent.return %summarise_summaries : !agent.text
} loc("map_reduce_summary.py":17:1)
