// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{unit 'token' is unknown; did you mean 'tokens'?}}
module attributes {test.a = #agent.amount<400 token>} {}

// -----

// expected-error@+1 {{tokens of an amount is -400, must not be negative}}
module attributes {test.a = #agent.amount<-400 tokens>} {}

// -----

// expected-error@+1 {{tokens of an amount is NaN, must be a number}}
module attributes {test.a = #agent.amount<0x7FF8000000000000 : f64 tokens>} {}

// -----

// expected-error@+1 {{ms of an amount is 0.00035, plausible is 0.001 to 86400000; is it in milliseconds, not seconds or microseconds?}}
module attributes {test.a = #agent.amount<0.00035 ms>} {}

// -----

// expected-error@+1 {{pixels of an amount is 16, plausible is 64 to 100000000000; is it the number of pixels, width times height, of all images?}}
module attributes {test.a = #agent.amount<16 pixels>} {}

// -----

// expected-error@+1 {{seconds of an amount is 30000000, plausible is 0.001 to 1000000; is it in seconds, not milliseconds?}}
module attributes {test.a = #agent.amount<30000000 seconds>} {}

// -----

// expected-error@+1 {{bytes of an amount is 0.5, plausible is 1 to 100000000000000; is it in bytes?}}
module attributes {test.a = #agent.amount<0.5 bytes>} {}

// -----

// expected-error@+1 {{vectors of an amount is 10000000000, plausible is 0.01 to 1000000000; is it a number of vectors?}}
module attributes {test.a = #agent.amount<10000000000 vectors>} {}

// -----

// expected-error@+1 {{tokens of an amount is 10000000000, plausible is 0.01 to 100000000; are these characters or bytes?}}
module attributes {test.a = #agent.amount<10000000000 tokens>} {}

// -----

// expected-error@+1 {{count of an amount is 0.5, plausible is 1 to 1000000; what may not happen at all belongs into an agent.branch}}
module attributes {test.a = #agent.amount<0.5>} {}

// -----

// expected-error@+1 {{max tokens is -3, must not be negative}}
module attributes {test.a = #agent.amount<400 tokens, max = -3>} {}

// -----

// expected-error@+1 {{mean is 400, max only 300}}
module attributes {test.a = #agent.amount<400 tokens, max = 300>} {}

// -----

// expected-error@+1 {{p95 is 900, max only 800}}
module attributes {test.a = #agent.amount<400 tokens, p95 = 900, max = 800>} {}

// -----

// expected-error@+1 {{'max' is given twice; known are percentiles, such as p50 or p95, and max}}
module attributes {test.a = #agent.amount<400 tokens, max = 500, max = 600>} {}

// -----

// expected-error@+1 {{'mean' is unknown here; known are percentiles, such as p50 or p95, and max}}
module attributes {test.a = #agent.amount<400 tokens, mean = 500>} {}

// -----

// expected-error@+1 {{p100 is no percentile, must be between 0 and 100}}
module attributes {test.a = #agent.amount<400 tokens, p100 = 500>} {}

// -----

// expected-error@+1 {{p95 of tokens is -1, must not be negative}}
module attributes {test.a = #agent.amount<400 tokens, p95 = -1>} {}

// -----

// expected-error@+1 {{p50 is 0, must be positive; put what may not happen into a branch}}
module attributes {test.a = #agent.amount<tokens, p50 = 0, p95 = 5>} {}

// -----

// expected-error@+1 {{p50 = 200 comes after p95 = 900, percentiles and their values must grow}}
module attributes {test.a = #agent.amount<tokens, p95 = 900, p50 = 200>} {}

// -----

// expected-error@+1 {{p95 = 100 comes after p50 = 200, percentiles and their values must grow}}
module attributes {test.a = #agent.amount<tokens, p50 = 200, p95 = 100>} {}

// -----

// expected-error@+1 {{an amount has neither a mean nor two percentiles: write <400 tokens> or <tokens, p50 = 300, p95 = 900>}}
module attributes {test.a = #agent.amount<tokens, p95 = 900>} {}

// -----

// expected-error@+1 {{an amount has a mean and 2 percentiles, must have a mean and one, or percentiles alone}}
module attributes {test.a = #agent.amount<400 tokens, p50 = 300, p95 = 900>} {}

// -----

// expected-error@+1 {{p95 is 300, less than the mean 400}}
module attributes {test.a = #agent.amount<400 tokens, p95 = 300>} {}

// -----

// expected-error@+1 {{p95 is 4000 with a mean of 1000, which no lognormal has (its 95th percentile is at most 3.87 times the mean); give percentiles instead, such as p50 and p95}}
module attributes {test.a = #agent.amount<1000 tokens, p95 = 4000>} {}

// -----

// expected-error@+1 {{'p95' is unknown here; did you mean 'p95_ms'?}}
module attributes {test.a = #agent.sla<p95 = 3000>} {}

// -----

// expected-error@+1 {{'tbt_ms' is given twice}}
module attributes {test.a = #agent.sla<tbt_ms = 20, tbt_ms = 30>} {}

// -----

// expected-error@+1 {{'p99_ms' is given twice}}
module attributes {test.a = #agent.sla<p95_ms = 3000, p99_ms = 4000>} {}

// -----

// expected-error@+1 {{p100_ms is no percentile, must be between 0 and 100}}
module attributes {test.a = #agent.sla<p100_ms = 3000>} {}

// -----

// expected-error@+1 {{latency in milliseconds is 0.5, plausible is 1 to 86400000; is it in milliseconds, not seconds?}}
module attributes {test.a = #agent.sla<p95_ms = 0.5>} {}

// -----

// expected-error@+1 {{ttft_ms is 0.01, plausible is 0.1 to 1000000; is it in milliseconds, not seconds?}}
module attributes {test.a = #agent.sla<ttft_ms = 0.01>} {}

// -----

// expected-error@+1 {{tbt_ms is 0.02, plausible is 0.05 to 10000; is it in milliseconds, not seconds?}}
module attributes {test.a = #agent.sla<tbt_ms = 0.02>} {}

// -----

// expected-error@+1 {{requests_per_second is -2, must not be negative}}
module attributes {test.a = #agent.sla<requests_per_second = -2>} {}

// -----

// expected-error@+1 {{work has no probability}}
module attributes {test.a = #agent.work<executions = 2>} {}

// -----

// expected-error@+1 {{work has no executions}}
module attributes {test.a = #agent.work<probability = 1>} {}

// -----

// expected-error@+1 {{probability is 2, plausible is 1.0e-12 to 1; is it a fraction?}}
module attributes {test.a = #agent.work<executions = 2, probability = 2>} {}

// -----

// expected-error@+1 {{probability 0.9 is above the 0.5 executions, which no distribution has}}
module attributes {test.a = #agent.work<executions = 0.5, probability = 0.9>} {}

// -----

// expected-error@+1 {{'agent.model' op @m has neither a shape nor a module nor parameters: nothing says what it costs}}
agent.model @m

// -----

// expected-error@+1 {{'agent.model' op parameters is 7, plausible is 1000 to 100000000000000; is it a number, 7e9 for 7B?}}
agent.model @m {parameters = 7.0}

// -----

// expected-error@+1 {{'agent.model' op flops_per_unit is 0.5, plausible is 1 to 1.0e+16; is it in flops, not teraflops?}}
agent.model @m {shape = "s", flops_per_unit = 0.5}

// -----

// expected-error@+1 {{'agent.model' op flops_per_output is -1, must not be negative}}
agent.model @m {shape = "s", flops_per_output = -1.0}

// -----

// expected-error@+1 {{'agent.model' op tokens_per_unit is 0, plausible is}}
agent.model @m {shape = "s", tokens_per_unit = 0.0}

// -----

// expected-error@+1 {{'agent.model' op kv_bytes_per_token is 0.3, plausible is 16 to 100000000; is it in bytes?}}
agent.model @m {shape = "s", kv_bytes_per_token = 0.3}

// -----

// expected-error@+1 {{'agent.model' op context_tokens is 0, must be between 1 and 100000000}}
agent.model @m {shape = "s", context_tokens = 0}

// -----

// expected-error@+1 {{'agent.model' op precision 'fp16' is unknown; did you mean 'f16' or 'bf16' or 'fp8'?}}
agent.model @m {shape = "s", precisions = ["fp16"]}

// -----

// expected-error@+1 {{'agent.model' op precision 'i8' is unknown; known are 'f32', 'f16', 'bf16', 'fp8', 'int8', 'fp4', 'int4'}}
agent.model @m {shape = "s", precisions = ["int8", "i8"]}

// -----

// expected-error@+1 {{'agent.model' op encoders has 'picture', known are 'image', 'audio', 'video'}}
agent.model @m {shape = "s", encoders = {picture = @vit}}

// -----

// expected-error@+1 {{'agent.model' op encoder of "image" is "vit", must be a model such as @vit}}
agent.model @m {shape = "s", encoders = {image = "vit"}}

// -----

agent.model @vit {parameters = 1.0e9}
// expected-error@+1 {{'agent.model' op encoder @vit of "image" has no tokens_per_unit: nothing says how many tokens it makes}}
agent.model @m {shape = "s", encoders = {image = @vit}}

// -----

// expected-error@+1 {{'agent.model' op names @vit, but there is no such agent.model; known are 'm'}}
agent.model @m {shape = "s", encoders = {image = @vit}}

// -----

// expected-error@+1 {{'agent.index' op @kb has neither an embedder nor a time: say which model makes vectors of queries (embedder = @minilm), or how long somebody else's index takes (takes <40 ms>)}}
agent.index @kb {vectors = 10, dimension = 384, chunk_tokens = 100}

// -----

// expected-error@+1 {{'agent.index' op takes tokens, must be in ms}}
agent.index @kb takes <40 tokens> {vectors = 10, dimension = 384, chunk_tokens = 100}

// -----

// expected-error@+1 {{'agent.index' op names @m, but there is no such agent.model; there are none}}
agent.index @kb {vectors = 10, dimension = 384, chunk_tokens = 100, embedder = @m}

// -----

// expected-error@+1 {{'agent.index' op visited is 50, plausible is 1.0e-09 to 1; it is a fraction of the vectors}}
agent.index @kb takes <4 ms> {vectors = 10, dimension = 384, chunk_tokens = 100, visited = 50.0}

// -----

// expected-error@+1 {{'agent.index' op vectors is 0, must be between 1 and}}
agent.index @kb takes <4 ms> {vectors = 0, dimension = 8, chunk_tokens = 8}

// -----

// expected-error@+1 {{'agent.index' op dimension is 0, must be between 1 and}}
agent.index @kb takes <4 ms> {vectors = 8, dimension = 0, chunk_tokens = 8}

// -----

// expected-error@+1 {{'agent.index' op chunk_tokens is 0, must be between 1 and}}
agent.index @kb takes <4 ms> {vectors = 8, dimension = 8, chunk_tokens = 0}

// -----

// expected-error@+1 {{'agent.index' op bytes_per_vector is -4, must be between 1 and}}
agent.index @kb takes <4 ms> {vectors = 10, dimension = 384, chunk_tokens = 100, bytes_per_vector = -4}

// -----

// expected-error@+1 {{'agent.tool' op takes bytes, must be in ms}}
agent.tool @t takes <5 bytes>

// -----

// expected-error@+1 {{'agent.tool' op dollars_per_call is -0.1, must not be negative}}
agent.tool @t takes <5 ms> {dollars_per_call = -0.1}

// -----

// expected-error@+1 {{'agent.tool' op concurrency is 0, must be between 1 and 100000000}}
agent.tool @t takes <5 ms> {concurrency = 0}

// -----

// expected-error@+1 {{'agent.tool' op failure_probability is 1, plausible is 1.0e-12 to 0.99; it is a fraction of the calls, and some must succeed}}
agent.tool @t takes <5 ms> {failure_probability = 1.0}

// -----

// expected-error@+1 {{'agent.memory' op reads tokens, must be in ms}}
agent.memory @n reads <5 tokens> writes <5 ms>

// -----

// expected-error@+1 {{'agent.memory' op writes tokens, must be in ms}}
agent.memory @n reads <5 ms> writes <5 tokens>

// -----

// expected-error@+1 {{'agent.memory' op concurrency is 0, must be between 1 and 100000000}}
agent.memory @n reads <5 ms> writes <5 ms> {concurrency = 0}

// -----

// expected-error@+1 {{'agent.graph' op @g takes or gives 'i32', must be text, image, audio, video or data}}
agent.graph @g(%a: i32) {
  agent.return
}

// -----

// expected-error@+1 {{'agent.graph' op argument 0 of @g has no size: what reads it costs time; add {agent.size = #agent.amount<400 tokens>}}}
agent.graph @g(%a: !agent.text) -> !agent.text {
  agent.return %a : !agent.text
}

// -----

// expected-error@+1 {{'agent.graph' op agent.size of argument 0 is in tokens, '!agent.audio' is counted in seconds}}
agent.graph @g(%a: !agent.audio {agent.size = #agent.amount<5 tokens>}) {
  agent.return
}

// -----

// expected-error@+1 {{'agent.graph' op agent.size of argument 0 is 5 : i64, must be #agent.amount<…>}}
agent.graph @g(%a: !agent.audio {agent.size = 5}) {
  agent.return
}

// -----

// expected-error@+1 {{'agent.graph' op argument attribute agent.sizes of argument 0 is unknown; known is agent.size}}
agent.graph @g(%a: !agent.audio {agent.sizes = 5}) {
  agent.return
}

// -----

// expected-error@+1 {{'func.func' op agent.size of argument 0 stands on a 'func.func', must be on an 'agent.graph'}}
func.func @g(%a: i32 {agent.size = #agent.amount<5 tokens>}) {
  return
}

// -----

// expected-error@+1 {{'agent.graph' op @g must be one block that ends with agent.return}}
"agent.graph"() ({
  llvm.unreachable
}) {sym_name = "g", function_type = () -> ()} : () -> ()

// -----

agent.graph @g() -> !agent.text {
  // expected-error@+1 {{'agent.return' op gives (), @g gives ('!agent.text')}}
  agent.return
}

// -----

// expected-error@+1 {{'agent.graph' op calls itself (@a calls @a): what repeats belongs into an agent.loop with a bound}}
agent.graph @a() {
  agent.call @a() : () -> ()
  agent.return
}

// -----

// expected-error@+1 {{'agent.graph' op calls itself (@a calls @b calls @c calls @a)}}
agent.graph @a() {
  agent.call @b() : () -> ()
  agent.return
}
agent.graph @b() {
  agent.call @d() : () -> ()
  agent.call @c() : () -> ()
  agent.return
}
agent.graph @c() {
  agent.call @a() : () -> ()
  agent.return
}
agent.graph @d() {
  agent.return
}

// -----

agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.call' op names @h, but there is no such agent.graph; known are 'g'}}
  agent.call @h() : () -> ()
  agent.return
}

// -----

agent.model @m {shape = "s"}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.call' op names @m, which is 'agent.model', must be agent.graph}}
  agent.call @m() : () -> ()
  agent.return
}

// -----

agent.graph @h(%x: !agent.text) {
  agent.return
}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.call' op gives (), @h takes ('!agent.text')}}
  agent.call @h() : () -> ()
  agent.return
}

// -----

agent.graph @h() {
  agent.return
}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<4 tokens>}) {
  // expected-error@+1 {{'agent.call' op takes ('!agent.text'), @h gives ()}}
  agent.call @h() : () -> !agent.text
  agent.return
}
