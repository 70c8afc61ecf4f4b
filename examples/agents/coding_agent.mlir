agent.memory @notes reads <3 ms> writes <5 ms>
agent.model @qwen235b {context_tokens = 131072, shape = "qwen3-235b-a22b"}
agent.tool @shell takes <ms, p50 = 60, p95 = 800> {concurrency = 200}
agent.tool @tests takes <ms, p50 = 8000, p95 = 60000> {concurrency = 40, failure_probability = 0.01}
agent.graph @code(%issue: !agent.text {agent.size = #agent.amount<260 tokens, p95 = 800>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 600000, requests_per_second = 0.2>} {
  %recall = agent.read @notes(%issue) produces <300 tokens, p95 = 600> {label = "recall"} : (!agent.text) -> !agent.text loc("coding_agent.py":20:1)
  %joined = agent.join %recall, %issue : !agent.text loc("coding_agent.py":21:1)
  %last = agent.loop(%carried = %joined) runs <14, max = 40> keeps_prefix {until = "submitted"} : (!agent.text) -> !agent.text {
    %act = agent.llm @qwen235b(%carried) produces <220 tokens, p95 = 600, max = 2048> {instruction_tokens = 2200, label = "act", shared_instructions} : (!agent.text) -> !agent.text loc("coding_agent.py":24:1)
    %chosen = agent.branch on(%act) {decide = "choose_tool"} : (!agent.text) -> !agent.text
      case 0.75 "look" {
        %look = agent.invoke @shell(%act) produces <700 tokens, p95 = 2000, max = 4000> {label = "look"} : (!agent.text) -> !agent.text loc("coding_agent.py":33:1)
        agent.yield %look : !agent.text
      }
      case 0.25 "test" {
        %test = agent.invoke @tests(%act) produces <400 tokens, p95 = 1200, max = 4000> {label = "test"} : (!agent.text) -> !agent.text loc("coding_agent.py":34:1)
        agent.yield %test : !agent.text
      } loc("coding_agent.py":31:1)
    %joined_2 = agent.join %carried, %act, %chosen : !agent.text loc("coding_agent.py":39:1)
    agent.yield %joined_2 : !agent.text
  } loc("coding_agent.py":41:1)
  %report = agent.llm @qwen235b(%last) produces <350 tokens, p95 = 700, max = 2048> {instruction_tokens = 2200, label = "report", shared_instructions} : (!agent.text) -> !agent.text loc("coding_agent.py":42:1)
  agent.write @notes(%report) {label = "remember"} : !agent.text loc("coding_agent.py":49:1)
  agent.return %report : !agent.text
} loc("coding_agent.py":17:1)
