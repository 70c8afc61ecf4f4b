agent.model @llama70b {context_tokens = 131072, shape = "llama-3.1-70b"}
agent.tool @web_search takes <ms, p50 = 400, p95 = 1200> {concurrency = 100, dollars_per_call = 0.005}
agent.graph @react(%messages: !agent.text {agent.size = #agent.amount<25 tokens, p95 = 50>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 45000, tbt_ms = 50, requests_per_second = 5>} {
  %think_2 = agent.loop(%carried = %messages) runs <3.058819, max = 7> keeps_prefix {label = "think", run_probabilities = array<f64: 0.30000000000000004, 0.21000000000000002, 0.147, 0.10289999999999999, 0.07203, 0.05042099999999999, 0.11764899999999996>} : (!agent.text) -> !agent.text {
    %think = agent.llm @llama70b(%carried) produces <80 tokens, p95 = 180, max = 512> {instruction_tokens = 1500, label = "think", shared_instructions} : (!agent.text) -> !agent.text loc("from_langgraph.py":47:1)
    %chosen = agent.branch on(%think) {decide = "decide"} : (!agent.text) -> !agent.text
      case 0.7 "act" {
        %joined = agent.join %carried, %think : !agent.text loc("from_langgraph.py":47:1)
        %act = agent.invoke @web_search(%joined) produces <500 tokens, p95 = 900> {label = "act"} : (!agent.text) -> !agent.text loc("from_langgraph.py":47:1)
        %joined_2 = agent.join %joined, %act : !agent.text loc("from_langgraph.py":47:1)
        agent.yield %joined_2 : !agent.text
      }
      case 0.3 "done" {
        %joined_3 = agent.join %carried, %think : !agent.text loc("from_langgraph.py":47:1)
        agent.yield %joined_3 : !agent.text
      } loc("from_langgraph.py":47:1)
    agent.yield %chosen : !agent.text
  } loc("from_langgraph.py":47:1)
  agent.return %think_2 : !agent.text
} loc("from_langgraph.py":47:1)
