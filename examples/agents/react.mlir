agent.model @llama70b {context_tokens = 131072, shape = "llama-3.1-70b"}
agent.tool @web_search takes <ms, p50 = 400, p95 = 1200> {concurrency = 100, dollars_per_call = 0.005, failure_probability = 0.01}
agent.graph @react(%question: !agent.text {agent.size = #agent.amount<25 tokens, p95 = 50>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 45000, tbt_ms = 50, requests_per_second = 5>} {
  %last = agent.loop(%carried = %question) runs <3.2, max = 7> keeps_prefix {until = "answered"} : (!agent.text) -> !agent.text {
    %think = agent.llm @llama70b(%carried) produces <80 tokens, p95 = 180, max = 512> {instruction_tokens = 1500, label = "think", shared_instructions} : (!agent.text) -> !agent.text loc("react.py":21:1)
    %search = agent.invoke @web_search(%think) produces <500 tokens, p95 = 900> {label = "search"} : (!agent.text) -> !agent.text loc("react.py":29:1)
    %joined = agent.join %carried, %think, %search : !agent.text loc("react.py":30:1)
    agent.yield %joined : !agent.text
  } loc("react.py":32:1)
  %answer = agent.llm @llama70b(%last) produces <120 tokens, p95 = 300, max = 512> {instruction_tokens = 1500, label = "answer", shared_instructions} : (!agent.text) -> !agent.text loc("react.py":33:1)
  agent.return %answer : !agent.text
} loc("react.py":16:1)
