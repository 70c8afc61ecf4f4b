agent.model @vision {flops_per_unit = 6887755.102040816, parameters = 675000000.0, tokens_per_unit = 0.0012755102040816326}
agent.model @llama70b {context_tokens = 131072, encoders = {image = @vision}, shape = "llama-3.1-70b"}
agent.model @clip {parameters = 428000000.0}
agent.index @products {chunk_tokens = 60, dimension = 768, embedder = @clip, vectors = 2000000, visited = 0.001}
agent.graph @look(%photo: !agent.image {agent.size = #agent.amount<1048576 pixels>}, %question: !agent.text {agent.size = #agent.amount<20 tokens, p95 = 60>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 8000, tbt_ms = 50, requests_per_second = 10>} {
  %describe = agent.llm @llama70b(%photo, %question) produces <90 tokens, p95 = 180, max = 512> {instruction_tokens = 120, label = "describe"} : (!agent.image, !agent.text) -> !agent.text loc("multimodal.py":23:1)
  %find_offers = agent.retrieve @products(%describe) {label = "find offers", top_k = 5} : (!agent.text) -> !agent.text loc("multimodal.py":26:1)
  %advise = agent.llm @llama70b(%photo, %question, %describe, %find_offers) produces <140 tokens, p95 = 320, max = 1024> {instruction_tokens = 120, label = "advise"} : (!agent.image, !agent.text, !agent.text, !agent.text) -> !agent.text loc("multimodal.py":27:1)
  agent.return %advise : !agent.text
} loc("multimodal.py":18:1)
