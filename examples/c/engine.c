/*===- engine.c - Serve several requests at once with a compiled language model from C -------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * usage: engine MODEL.itx STOP COUNT PROMPT...
 * Continues all prompts, token ids separated by commas, each by its likeliest tokens: up to COUNT, or until the token
 * STOP ends the text. An engine computes them together: a forward step takes a token of each text, and texts come and
 * go while others run.
 *===------------------------------------------------------------------------------------------------------===*/
#include <intarsia/engine.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { most_tokens = 4096, most_events = 64 };

static int failed(void) {
  fprintf(stderr, "error: %s\n", itx_last_error());
  return 1;
}

static size_t read_ids(const char *text, int64_t *ids) {
  size_t count = 0;
  char *end = (char *)text;
  while (*end && count < most_tokens) {
    ids[count++] = strtoll(end, &end, 10);
    end += *end == ',';
  }
  return count;
}

/* Prints what has happened to a request; returns how many requests it ends. */
static int print_event(const itx_engine_event *event) {
  static const char *const finishes[] = {"", "end", "length", "cancelled", "deadline", "failed"};
  printf("%" PRIu64 " ", event->request);
  if (event->kind == ITX_EVENT_TOKEN)
    printf("token %" PRId64 " %.4f\n", event->token, event->logprob);
  if (event->kind != ITX_EVENT_FINISHED)
    return 0;
  printf("%s %" PRId64 " %s\n", finishes[event->finish], event->tokens, event->message ? event->message : "");
  return 1;
}

int main(int argc, char **argv) {
  static int64_t prompt[most_tokens];
  itx_module *module;
  itx_engine *engine;
  if (argc < 5) {
    fprintf(stderr, "usage: %s MODEL.itx STOP COUNT PROMPT...\n", argv[0]);
    return 2;
  }
  /* At most 8 texts run at a time, others wait. */
  itx_cache_options cache = {.struct_bytes = sizeof(cache), .sequences = 8};
  itx_engine_options options = {.struct_bytes = sizeof(options), .cache = &cache};
  const int64_t stop_token = strtoll(argv[2], NULL, 10);
  if (itx_module_load(argv[1], NULL, &module) != ITX_OK || itx_engine_create(module, &options, &engine) != ITX_OK)
    return failed();

  int running = 0;
  for (int i = 4; i < argc; ++i) {
    itx_request request = {.struct_bytes = sizeof(request), .prompt = prompt, .logprobs = 1};
    request.prompt_count = read_ids(argv[i], prompt); /* copied by the call */
    request.max_tokens = strtoll(argv[3], NULL, 10);
    request.stop_tokens = &stop_token;
    request.stop_count = 1;
    uint64_t number;
    if (itx_engine_submit(engine, &request, &number) == ITX_OK)
      ++running;
    else /* this request is refused; the others go on */
      fprintf(stderr, "prompt %d: %s\n", i - 3, itx_last_error());
  }

  /* Events come in the order in which they happen. A program with an event loop waits for itx_engine_descriptor(engine)
   * instead, and could submit and cancel requests between. */
  while (running > 0) {
    itx_engine_event events[most_events];
    size_t count;
    if (itx_engine_poll(engine, -1, events, most_events, &count) != ITX_OK)
      return failed();
    for (size_t i = 0; i < count; ++i)
      running -= print_event(&events[i]);
  }

  itx_engine_stats stats = {.struct_bytes = sizeof(stats)};
  if (itx_engine_get_stats(engine, &stats) != ITX_OK)
    return failed();
  fprintf(stderr, "%" PRId64 " steps for %" PRId64 " tokens\n", stats.steps, stats.generated_tokens);
  itx_engine_free(engine);
  itx_module_free(module);
  return 0;
}
