agent.model @whisper {flops_per_output = 1800000000.0, flops_per_unit = 64000000000.0, parameters = 1550000000.0}
agent.model @llama8b {context_tokens = 131072, shape = "llama-3.1-8b"}
agent.model @tts {flops_per_output = 13000000000.0, parameters = 82000000.0}
agent.graph @assist(%said: !agent.audio {agent.size = #agent.amount<3.5 seconds, p95 = 8>}) -> (!agent.text, !agent.audio) attributes {sla = #agent.sla<p95_ms = 4000, ttft_ms = 800, tbt_ms = 60, requests_per_second = 30>} {
  %hear = agent.infer @whisper(%said) produces <14 tokens, p95 = 32> {label = "hear"} : (!agent.audio) -> !agent.text loc("speech_assistant.py":21:1)
  %answer = agent.llm @llama8b(%hear) produces <60 tokens, p95 = 140, max = 256> {instruction_tokens = 300, label = "answer", shared_instructions} : (!agent.text) -> !agent.text loc("speech_assistant.py":22:1)
  %stream = agent.stream %answer every <20 tokens> : !agent.text loc("speech_assistant.py":30:1)
  %speak = agent.infer @tts(%stream) produces <18 seconds, p95 = 42> {label = "speak"} : (!agent.text) -> !agent.audio loc("speech_assistant.py":31:1)
  agent.return %answer, %speak : !agent.text, !agent.audio
} loc("speech_assistant.py":18:1)
