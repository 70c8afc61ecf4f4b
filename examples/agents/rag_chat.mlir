agent.model @minilm {parameters = 22700000.0}
agent.index @wikipedia {chunk_tokens = 133, dimension = 384, embedder = @minilm, vectors = 21000000, visited = 0.0002}
agent.model @llama70b {context_tokens = 131072, shape = "llama-3.1-70b"}
agent.graph @chat(%question: !agent.text {agent.size = #agent.amount<60 tokens, p95 = 180>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 12000, ttft_ms = 1000, tbt_ms = 50, requests_per_second = 20>} {
  %find = agent.retrieve @wikipedia(%question) {label = "find", top_k = 10} : (!agent.text) -> !agent.text loc("rag_chat.py":22:1)
  %answer = agent.llm @llama70b(%find, %question) produces <tokens, p50 = 129, p95 = 450, max = 1024> {instruction_tokens = 250, label = "answer", shared_instructions} : (!agent.text, !agent.text) -> !agent.text loc("rag_chat.py":23:1)
  agent.return %answer : !agent.text
} loc("rag_chat.py":19:1)
