agent.model @llama70b {context_tokens = 131072, shape = "llama-3.1-70b"}
agent.model @qwen32b {context_tokens = 131072, shape = "qwen3-32b"}
agent.model @mixtral {context_tokens = 32768, shape = "mixtral-8x7b"}
agent.model @gptoss120b {context_tokens = 131072, shape = "gpt-oss-120b"}
agent.graph @debate(%problem: !agent.text {agent.size = #agent.amount<65 tokens, p95 = 120>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 30000, requests_per_second = 2>} {
  %open_llama70b = agent.llm @llama70b(%problem) produces <200 tokens, p95 = 380, max = 1024> {instruction_tokens = 80, label = "open llama70b"} : (!agent.text) -> !agent.text loc("debate.py":22:1)
  %open_qwen32b = agent.llm @qwen32b(%problem) produces <200 tokens, p95 = 380, max = 1024> {instruction_tokens = 80, label = "open qwen32b"} : (!agent.text) -> !agent.text loc("debate.py":22:1)
  %open_mixtral = agent.llm @mixtral(%problem) produces <200 tokens, p95 = 380, max = 1024> {instruction_tokens = 80, label = "open mixtral"} : (!agent.text) -> !agent.text loc("debate.py":22:1)
  %reply_llama70b = agent.llm @llama70b(%problem, %open_llama70b, %open_qwen32b, %open_mixtral) produces <200 tokens, p95 = 380, max = 1024> {instruction_tokens = 120, label = "reply llama70b"} : (!agent.text, !agent.text, !agent.text, !agent.text) -> !agent.text loc("debate.py":28:1)
  %reply_qwen32b = agent.llm @qwen32b(%problem, %open_qwen32b, %open_llama70b, %open_mixtral) produces <200 tokens, p95 = 380, max = 1024> {instruction_tokens = 120, label = "reply qwen32b"} : (!agent.text, !agent.text, !agent.text, !agent.text) -> !agent.text loc("debate.py":28:1)
  %reply_mixtral = agent.llm @mixtral(%problem, %open_mixtral, %open_llama70b, %open_qwen32b) produces <200 tokens, p95 = 380, max = 1024> {instruction_tokens = 120, label = "reply mixtral"} : (!agent.text, !agent.text, !agent.text, !agent.text) -> !agent.text loc("debate.py":28:1)
  %judge = agent.llm @gptoss120b(%problem, %open_llama70b, %open_qwen32b, %open_mixtral, %reply_llama70b, %reply_qwen32b, %reply_mixtral) produces <150 tokens, p95 = 300, max = 512> {instruction_tokens = 200, label = "judge"} : (!agent.text, !agent.text, !agent.text, !agent.text, !agent.text, !agent.text, !agent.text) -> !agent.text loc("debate.py":30:1)
  agent.return %judge : !agent.text
} loc("debate.py":17:1)
