# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A speech assistant: what is said becomes text, the answer is spoken while it is still being written."""

from intarsia import agent

# Whisper large-v3: 1.55 G parameters; its encoder makes 50 positions of a second (Radford et al., 2022, arXiv
# 2212.04356), which
# about 635 M parameters compute: 6.4e10 flops a second of sound; its decoder has about 906 M: 1.8e9 a token.
whisper = agent.Model("whisper", parameters=1.55e9, flops_per_unit=6.4e10, flops_per_output=1.8e9)
llama = agent.Model("llama8b", shape="llama-3.1-8b", context_tokens=131072)
# 82 M parameters (Kokoro's model card); 24 kHz sound in frames of 80 a second.
speaker = agent.Model("tts", parameters=82e6, flops_per_output=1.3e10)


# Requests to voice assistants take 3 s to 4 s, and people speak 150 words a minute: 10 words, 14 tokens. An answer of
# two or three sentences is 60 tokens and 18 s of speech.
@agent.graph(agent.audio(3.5, p95=8), sla=agent.Sla(p95_ms=4000, ttft_ms=800, tbt_ms=60, requests_per_second=30))
def assist(said):
    """Answer in speech."""
    words = whisper.infer(said, tokens=agent.Amount(14, p95=32), label="hear")
    reply = llama.answer(
        words,
        tokens=agent.Amount(60, p95=140, max=256),
        instruction_tokens=300,
        shared_instructions=True,
        label="answer",
    )
    # Speech begins with the first sentence.
    sentences = agent.stream(reply, every=20)
    return reply, speaker.infer(sentences, seconds=agent.Amount(18, p95=42), label="speak")


if __name__ == "__main__":
    print(assist, end="")
