/*===- engine.h - Many requests with one language model --------------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C interface (C99) of engines, part of libintarsia_runtime.so.
 *
 * An engine serves many requests with one language model at the same time. A thread of its own runs forward steps while
 * there are requests: each step takes a token of every request that runs, and parts of prompts as far as the target for
 * the time between tokens allows. Requests wait until the cache has room for them; a running one may have to leave it
 * for another, and continues later: the tokens are the same. Prompts that begin alike share the state of what they have
 * in common, also with requests that have ended.
 *
 * The short form:
 *   itx_engine *engine;
 *   itx_engine_create(module, NULL, &engine);
 *   itx_request request = {.struct_bytes = sizeof(request), .prompt = ids, .prompt_count = count, .max_tokens = 64};
 *   uint64_t id;
 *   itx_engine_submit(engine, &request, &id);
 *   itx_engine_event event;
 *   size_t got;
 *   do {
 *     itx_engine_poll(engine, -1, &event, 1, &got);
 *     if (event.kind == ITX_EVENT_TOKEN) printf("%lld ", (long long)event.token);
 *   } while (event.kind != ITX_EVENT_FINISHED);
 *   itx_engine_free(engine);
 *
 * Worlds: each rank makes the same engine. Rank 0 decides and the others follow: they either submit the same requests
 * in the same order and get the same events, or call itx_engine_follow.
 *
 * Threads: every function may be called from any thread. Fork: a child may use an engine without requests.
 *===------------------------------------------------------------------------------------------------------===*/
#ifndef INTARSIA_ENGINE_H
#define INTARSIA_ENGINE_H

#include "intarsia/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct itx_engine itx_engine;
/* Takes the events of some requests, so that callers in several threads each wait for their own. */
typedef struct itx_event_queue itx_event_queue;

/* The tokens of a text so far, and the tokens that may come next. */
typedef struct itx_mask_row {
  uint64_t request;
  int32_t sample;
  int32_t complete;      /* set by the callback to above 0: the text is complete, and ends with ITX_FINISH_END; to below
                            0: its tokens cannot be found, and it ends with ITX_FINISH_FAILED */
  const int64_t *tokens; /* generated so far, proposals of a draft model at the end */
  size_t token_count;
  uint32_t *bits; /* [ceil(vocabulary / 32)], all 0: the callback sets bit token % 32 of word token / 32 of those that
                     may come next */
} itx_mask_row;
/* Called on the engine's thread before a step, with rows of requests that have masks. A text may have fewer tokens than
 * at an earlier call: proposals of a draft may be refused. Returns 0; anything else ends all of these texts with
 * ITX_FINISH_FAILED. */
typedef int32_t (*itx_mask_function)(void *user, itx_mask_row *rows, size_t count);

typedef struct itx_engine_options {
  size_t struct_bytes;            /* sizeof(itx_engine_options): lets the structure grow */
  const char *function;           /* null: "step" */
  const itx_cache_options *cache; /* its sequences are the samples that run at a time; 0 or null: 64 */
  const itx_module *draft;        /* a smaller model of the same tokens, for requests with draft_tokens; null: none */
  int64_t waiting;                /* the most samples that wait; 0: any number */
  int64_t step_tokens;            /* the most tokens of prompts in a step; 0: itx_cache_prefill_tokens for one prompt,
                                     twice as many for several */
  double token_seconds;           /* the time between two tokens of a request that parts of prompts leave in 99 of 100
                                     steps, so far as the model allows; 0: parts are as large as step_tokens */
  int64_t kept_tokens;            /* the most tokens of ended requests whose state stays while nothing else needs the
                                     pages; 0: any number; negative: none */
  int32_t has_followers;          /* not 0: the other ranks of the world call itx_engine_follow */
  itx_mask_function mask;         /* for requests with masks; null: there are none */
  void *mask_user;
} itx_engine_options;

/* What a request asks for. All zero but the prompt is valid: the most likely tokens, until the model ends the text. */
typedef struct itx_request {
  size_t struct_bytes; /* sizeof(itx_request): lets the structure grow */
  const int64_t *prompt;
  size_t prompt_count;
  int64_t max_tokens;         /* 0: as many as the model's context and the cache have room for; below 0: none, only the
                                 prompt is computed */
  int64_t min_tokens;         /* stop tokens are not chosen before so many tokens */
  const int64_t *stop_tokens; /* end the text, and are not part of it */
  size_t stop_count;
  /* The rules of sampling, in the order in which they are applied: logit_bias, penalties, temperature, top_k, top_p,
   * min_p. */
  double temperature;         /* 0: the most likely token */
  int64_t top_k;              /* the most likely tokens that remain; 0: all */
  double top_p;               /* of the probability that remains, above 0 to 1; 0: 1 */
  double min_p;               /* tokens at least so many times as likely as the likeliest one remain */
  double repetition_penalty;  /* divides positive and multiplies negative logits of tokens that occur; 0: 1 */
  double presence_penalty;    /* is subtracted from logits of generated tokens */
  double frequency_penalty;   /* likewise, times how often each occurs */
  const int64_t *bias_tokens; /* tokens whose logits are changed */
  const float *bias_values;   /* by these */
  size_t bias_count;
  int64_t seed;            /* of the random numbers: those of numpy.random.default_rng(SeedSequence(seed, spawn_key)) */
  int32_t has_seed;        /* 0: another seed for each request */
  uint32_t seed_spawn;     /* spawn_key of the first sample; that of each next one is one more */
  int32_t samples;         /* texts to generate from the prompt; 0: 1 */
  int32_t logprobs;        /* 0: none; 1: of each token; 1 + k: also of the k likeliest tokens, at most 1 + 20 */
  int32_t prompt_logprobs; /* the same of the prompt's tokens from the second on; the prompt is then computed anew */
  int32_t draft_tokens;    /* the most that the draft model proposes at once; 0: it proposes none */
  int32_t has_mask;        /* not 0: the engine's callback says which tokens may come next */
  int32_t priority;        /* of two requests the one with the larger priority is first */
  double deadline_seconds; /* from now on: the request ends then; 0: none */
  const char *key;         /* requests with different keys get the same share of the engine; null: "" */
  const char *salt;        /* prompts share state only with those of the same salt; null: "" */
  itx_event_queue *queue;  /* where its events come; null: itx_engine_poll */
} itx_request;

typedef ITX_ENUM(itx_engine_event_kind){
    ITX_EVENT_TOKEN = 1,        /* a token of a sample */
    ITX_EVENT_PROMPT_TOKEN = 2, /* a token of the prompt, if prompt_logprobs are asked for: before the first token */
    ITX_EVENT_FINISHED = 3      /* a sample has ended: its last event */
} itx_engine_event_kind;

typedef ITX_ENUM(itx_finish){
    ITX_FINISH_NONE = 0,
    ITX_FINISH_END = 1,       /* a stop token (`token`), or the mask says that the text is complete (`token` -1) */
    ITX_FINISH_LENGTH = 2,    /* max_tokens, or the context, is used up */
    ITX_FINISH_CANCELLED = 3, /* by itx_engine_cancel */
    ITX_FINISH_DEADLINE = 4,
    ITX_FINISH_FAILED = 5 /* `message` says why */
} itx_finish;

typedef struct itx_logprob {
  int64_t token;
  float value; /* natural logarithm of its probability before the rules of sampling */
} itx_logprob;

typedef struct itx_engine_event {
  itx_engine_event_kind kind;
  itx_finish finish; /* of ITX_EVENT_FINISHED */
  uint64_t request;
  int32_t sample;         /* 0 to samples - 1 */
  int64_t token;          /* the token; of ITX_EVENT_FINISHED the one that ended the text, or -1 */
  float logprob;          /* of the token, if asked for */
  const itx_logprob *top; /* the likeliest tokens, the likeliest first; valid until the next poll */
  size_t top_count;
  uint64_t step; /* number of the forward step that it comes from: events of one step belong together */
  int64_t prompt_tokens;
  int64_t cached_tokens; /* of the prompt, whose state was there */
  int64_t tokens;        /* of the sample so far */
  double waited_seconds; /* from the submission until the prompt was begun */
  double prompt_seconds; /* from then until the first token */
  itx_status status;     /* of ITX_FINISH_FAILED, else ITX_OK */
  const char *message;   /* of ITX_FINISH_FAILED, else null; valid until the next poll */
} itx_engine_event;

typedef struct itx_engine_stats {
  size_t struct_bytes; /* sizeof(itx_engine_stats), set by the caller */
  int64_t waiting;     /* samples */
  int64_t running;
  int64_t pages;
  int64_t free_pages;  /* including those that ended requests keep */
  int64_t kept_tokens; /* of ended requests */
  /* Since the engine was made: */
  int64_t steps;
  int64_t prompt_tokens; /* of requests whose prompt was computed */
  int64_t cached_tokens; /* of these, that were there */
  int64_t generated_tokens;
  int64_t draft_tokens;         /* proposed */
  int64_t accepted_tokens;      /* of these */
  int64_t recomputed_sequences; /* samples that left the cache, and whose tokens were computed again */
  int64_t moved_sequences;      /* whose state was moved out of the cache, those of ended requests among them */
  int64_t lost_sequences;       /* that had no room where they were to move: itx_cache_spill_status says why */
  int64_t preemptions;          /* samples that had to leave the cache for others while they ran */
  int64_t finished[6];          /* samples by itx_finish */
  double step_seconds;          /* of all steps */
  double engine_seconds;        /* of the engine's own work between steps */
  double token_seconds;         /* of a step that has as many samples and no part of a prompt, by the last ones */
  double prompt_rate;           /* tokens of prompts that are computed in a second, by the last steps */
} itx_engine_stats;

/* Makes an engine and its cache; options may be null. Errors are those of itx_cache_create; ITX_INVALID_ARGUMENT if the
 * draft has another vocabulary. The engine keeps the modules: their handles may be freed. */
ITX_API itx_status itx_engine_create(const itx_module *module, const itx_engine_options *options, itx_engine **engine);
/* The same with a model of its own that computes nothing: a step takes some time, and logits are drawn from the seed
 * and the tokens before. For tests and measurements of what is around a model. */
typedef struct itx_mock_options {
  size_t struct_bytes;
  int64_t vocabulary;
  int64_t context;
  int64_t page_tokens;
  int64_t stop_token;   /* that ends texts; negative: none does */
  double step_seconds;  /* of each step, */
  double token_seconds; /* and for each of its tokens */
  uint64_t seed;
} itx_mock_options;
ITX_API itx_status itx_engine_create_mock(const itx_mock_options *mock, const itx_engine_options *options,
                                          itx_engine **engine);
/* Ends all requests, and frees the engine; a null pointer is allowed. */
ITX_API void itx_engine_free(itx_engine *engine);

/* Adds a request, and gives its number: 1, 2, … What it points to is copied. ITX_INVALID_ARGUMENT says which option is
 * wrong, or that the prompt is longer than the model's context; ITX_CACHE_FULL: the prompt and max_tokens need more
 * pages than the cache has; ITX_BUSY: as many wait as the engine lets. */
ITX_API itx_status itx_engine_submit(itx_engine *engine, const itx_request *request, uint64_t *number);
/* Ends a request: at the latest after the step that is running, its samples get their last events. Unknown numbers, and
 * those of requests that have ended, are none of the engine's business: nothing happens. */
ITX_API void itx_engine_cancel(itx_engine *engine, uint64_t request);
/* Takes up to `capacity` events, in their order. Waits for the first one at most timeout_seconds: 0 not at all, below 0
 * without end. *count is 0 if none came. */
ITX_API itx_status itx_engine_poll(itx_engine *engine, double timeout_seconds, itx_engine_event *events,
                                   size_t capacity, size_t *count);
/* A file descriptor that is readable while there are events: for poll(2), epoll and event loops. It is the engine's. -1
 * if the system gives none. */
ITX_API int32_t itx_engine_descriptor(itx_engine *engine);
/* Makes a queue for the events of requests that name it; the engine may be freed before it. */
ITX_API itx_status itx_event_queue_create(itx_engine *engine, itx_event_queue **queue);
/* Cancels the requests of the queue that have not ended, and frees it; a null pointer is allowed. On ranks of a world
 * it waits until these requests have ended. */
ITX_API void itx_event_queue_free(itx_event_queue *queue);
/* The same as itx_engine_poll and itx_engine_descriptor, for the events of the queue. */
ITX_API itx_status itx_event_queue_poll(itx_event_queue *queue, double timeout_seconds, itx_engine_event *events,
                                        size_t capacity, size_t *count);
ITX_API int32_t itx_event_queue_descriptor(itx_event_queue *queue);
ITX_API itx_status itx_engine_get_stats(const itx_engine *engine, itx_engine_stats *stats);
/* Gives another handle of the engine's cache, to be freed: for files of sequences and hand-overs. */
ITX_API itx_status itx_engine_cache(itx_engine *engine, itx_cache **cache);
/* Gives a sequence of that cache to the engine: prompts with the same salt that begin with its tokens do not compute
 * them again. It stays until only the cache's room asks for its pages. The handle is freed. */
ITX_API itx_status itx_engine_keep(itx_engine *engine, itx_sequence *sequence, const char *salt);
/* Gives a new sequence of that cache with the longest beginning of some tokens that the engine has; without tokens if
 * it has none. */
ITX_API itx_status itx_engine_fork(itx_engine *engine, const int64_t *tokens, size_t count, const char *salt,
                                   itx_sequence **sequence);
/* Sets the draft model, in place of the earlier one; null: none. Its cache has the options of the engine's, but no
 * pages and folders. Waits until there are no requests with draft_tokens, and in a world none at all. All ranks of a
 * world do the same. */
ITX_API itx_status itx_engine_set_draft(itx_engine *engine, const itx_module *draft);
/* On the ranks of a world but rank 0: does what rank 0 decides, until that frees its engine; all ranks have made theirs
 * with has_followers. */
ITX_API itx_status itx_engine_follow(itx_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
