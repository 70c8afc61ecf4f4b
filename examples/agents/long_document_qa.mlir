agent.model @llama70b {context_tokens = 131072, shape = "llama-3.1-70b"}
agent.model @embedder {parameters = 568000000.0}
agent.index @collection {chunk_tokens = 256, dimension = 1024, embedder = @embedder, vectors = 300000, visited = 0.01}
agent.model @reranker {parameters = 568000000.0}
agent.graph @ask(%document: !agent.data {agent.size = #agent.amount<400000 bytes, p95 = 1500000>}, %question: !agent.text {agent.size = #agent.amount<30 tokens, p95 = 70>}) -> !agent.text attributes {sla = #agent.sla<p95_ms = 25000, requests_per_second = 2>} {
  %extract = agent.compute "extract"(%document) takes <40 ms> produces <9000 tokens, p95 = 32000, max = 100000> : (!agent.data) -> !agent.text loc("long_document_qa.py":25:1)
  %chosen = agent.branch on(%extract) {decide = "fits_in_context"} : (!agent.text) -> !agent.text
    case 0.7 "whole" {
      %read_all = agent.llm @llama70b(%extract, %question) produces <130 tokens, p95 = 350, max = 1024> {instruction_tokens = 150, label = "read all"} : (!agent.text, !agent.text) -> !agent.text loc("long_document_qa.py":28:1)
      agent.yield %read_all : !agent.text
    }
    case 0.3 "parts" {
      %find = agent.retrieve @collection(%question) {label = "find", top_k = 50} : (!agent.text) -> !agent.text loc("long_document_qa.py":34:1)
      %rerank = agent.infer @reranker(%question, %find) produces <2048 tokens> {label = "rerank"} : (!agent.text, !agent.text) -> !agent.text loc("long_document_qa.py":35:1)
      %read_parts = agent.llm @llama70b(%rerank, %question) produces <130 tokens, p95 = 350, max = 1024> {instruction_tokens = 150, label = "read parts"} : (!agent.text, !agent.text) -> !agent.text loc("long_document_qa.py":36:1)
      agent.yield %read_parts : !agent.text
    } loc("long_document_qa.py":38:1)
  agent.return %chosen : !agent.text
} loc("long_document_qa.py":19:1)
