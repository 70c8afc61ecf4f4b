agent.model @qwen32b {context_tokens = 131072, shape = "qwen3-32b"}
agent.tool @warehouse takes <ms, p50 = 150, p95 = 2500, p99 = 9000> {concurrency = 32}
agent.model @llama8b {context_tokens = 131072, shape = "llama-3.1-8b"}
agent.graph @answer(%question: !agent.text {agent.size = #agent.amount<24 tokens, p95 = 45>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 20000, requests_per_second = 4>} {
  %last = agent.loop(%carried = %question) runs <1.7, max = 4> keeps_prefix {run_probabilities = array<f64: 0.6, 0.2, 0.1, 0.1>, until = "ran_without_error"} : (!agent.text) -> !agent.text {
    %write_query = agent.llm @qwen32b(%carried) produces <90 tokens, p95 = 220, max = 512> {instruction_tokens = 1700, label = "write query", shared_instructions} : (!agent.text) -> !agent.text loc("text_to_sql.py":21:1)
    %run_query = agent.invoke @warehouse(%write_query) produces <120 tokens, p95 = 400, max = 2000> {label = "run query"} : (!agent.text) -> !agent.text loc("text_to_sql.py":28:1)
    %joined = agent.join %carried, %write_query, %run_query : !agent.text loc("text_to_sql.py":29:1)
    agent.yield %joined : !agent.text
  } loc("text_to_sql.py":32:1)
  %explain = agent.llm @llama8b(%last) produces <80 tokens, p95 = 200, max = 400> {label = "explain"} : (!agent.text) -> !agent.text loc("text_to_sql.py":40:1)
  agent.return %explain : !agent.text
} loc("text_to_sql.py":16:1)
