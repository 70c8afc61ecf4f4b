# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line: ``intarsia generate``, ``chat``, ``perplexity``, ``quantize`` and ``bench llm``."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from . import __version__, quantization
from .commands import choose_command, input_command
from .commands.choose_command import read_size
from .commands.conversation import Conversation
from .deployment import hand_over, measure
from .deployment.engines import ENGINES
from .deployment.engines import write as write_engines
from .generation.generator import Generator
from .generation.sampling import SamplingOptions
from .quantization import overlap
from .quantization.quantize import WINDOW, encode_documents, quantize, read_windows, usual_window
from .runtime.module import set_threads
from .support.errors import Error, InvalidArgumentError


def _sampling(options: argparse.Namespace) -> SamplingOptions:
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    return SamplingOptions(**{name: getattr(options, name) for name in names})


def _at_least(least: int) -> Callable[[str], int]:
    """Return a function that reads a number from the command line."""

    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number}, must be at least {least}")
        return number

    read.__name__ = "number"  # argparse shows this name
    return read


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{file}: is not UTF-8: {error}", "invalid argument") from error


def _resident_bytes() -> int:
    """Return the resident memory of this process in bytes, as Linux counts it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show texts on one line of a terminal, and end the line even after an error."""
    terminal = sys.stderr.isatty()

    def show(text: str) -> None:
        if terminal:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if terminal:
            print(file=sys.stderr)


def _token_ids(prompt: str) -> str | list[int]:
    """Return the ids in a prompt; other text is returned unchanged, and refused where it is encoded."""
    words = prompt.split()
    return [int(word) for word in words] if words and all(word.isdecimal() for word in words) else prompt


def _generate(options: argparse.Namespace) -> None:
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer)
    prompt = options.prompt if generator.tokenizer is not None else _token_ids(options.prompt)
    rules = {
        "json_schema": options.json_schema and _read_text(options.json_schema),
        "regex": options.regex,
        "grammar": options.grammar and _read_text(options.grammar),
    }
    pieces = generator.stream(
        prompt,
        options.max_tokens,
        stop=options.stop,
        sampling=_sampling(options),
        draft=options.draft,
        draft_tokens=options.draft_tokens,
        **rules,
    )
    separator = "" if generator.tokenizer is not None else " "
    try:
        for piece in pieces:
            print(piece, end=separator, flush=True)
    finally:
        print(flush=True)


def _engines(options: argparse.Namespace) -> None:
    models = {}
    for given in options.model:
        name, equals, where = given.partition("=")
        if not (name and equals and where):
            raise InvalidArgumentError(f"--model={given}: write --model=NAME=DIRECTORY", "invalid argument")
        models[name] = where
    print("\n".join(write_engines(options.plan, options.engine, models, options.output, options.kubernetes)))


def _chat(options: argparse.Namespace) -> int:
    template = options.chat_template and _read_text(options.chat_template)
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer, chat_template=template)
    generator._need_tokenizer("a chat")
    if generator.chat_template is None:
        raise InvalidArgumentError(
            f"{options.artifact}: its tokenizer comes without a chat template, it is no model for chats; "
            "`intarsia generate` continues texts, --chat-template takes a template from elsewhere",
            "invalid argument",
        )
    variables = {}
    for setting in options.template_variable:
        name, _, value = setting.partition("=")
        try:
            variables[name] = json.loads(value)
        except (ValueError, RecursionError):
            variables[name] = value
    conversation = Conversation(
        generator,
        options.max_tokens,
        options.system,
        variables,
        _sampling(options),
        options.draft,
        options.draft_tokens,
    )
    return conversation.run()


def _perplexity(options: argparse.Namespace) -> None:
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer)
    text = _read_text(options.file)
    ids: list[int] = []
    for document in text.removesuffix("\n").split("\n") if options.lines else [text]:
        ids += generator.encode_document(document)
    step = options.window
    windows = [ids[begin : begin + step + 1] for begin in range(0, len(ids) - step, step)]
    windows = windows[: options.windows] if options.windows else windows
    if not windows:
        raise SystemExit(f"error: {options.file} has {len(ids)} tokens, a window needs {step + 1}; see --window")
    losses = []
    with _progress() as show:
        for number, window in enumerate(windows, 1):
            losses.append(generator.cross_entropy(window))
            show(f"{number}/{len(windows)} windows, {np.exp(np.mean(losses)):.4f}")
    _warn_of_overlap(options.file, generator, ids[: len(windows) * step + 1])
    print(f"perplexity {np.exp(np.mean(losses)):.4f} over {len(windows)} windows of {step} tokens")


def _warn_of_overlap(file: Path, generator: Generator, ids: Sequence[int]) -> None:
    """Warn if a model was calibrated on some of a text: it predicts that better than others."""
    module = generator.module
    share = overlap.share(ids, module.file(overlap.FILE)) if overlap.FILE in module.files else 0
    if share > 0:
        print(
            f"warning: about {100 * share:.2g} % of {file} is text that this model was calibrated on, which it "
            "predicts better than other texts: measure on a text that it has not seen",
            file=sys.stderr,
        )


def _calibration_file(name: str) -> Path:
    """Return the file that ``--calibration`` names; ``./builtin`` is one of the user's."""
    return Path(quantization.__file__).with_name("calibration.txt") if name == "builtin" else Path(name)


def _load_array(file: Path) -> np.ndarray:
    """Read an array of NumPy."""
    try:
        array = np.load(file)
    except OSError:
        raise
    except Exception as error:  # EOFError, BadZipFile, SyntaxError, …: whatever is no array
        raise InvalidArgumentError(f"{file}: is no array of NumPy: {error}", "invalid argument") from error
    if not isinstance(array, np.ndarray):
        raise InvalidArgumentError(f"{file}: has several arrays, must be one: .npy", "invalid argument")
    return array


def _calibration_windows(options: argparse.Namespace) -> np.ndarray:
    """Return the calibration text as windows of token ids: of a text, or of an array of ids."""
    if options.calibration.suffix == ".npy":
        ids = _load_array(options.calibration)
        if ids.dtype.kind == "f" and ids.ndim == 4:
            return ids
        if ids.dtype.kind not in "iu" or ids.ndim not in (1, 2):
            raise InvalidArgumentError(
                f"{options.calibration}: is {ids.dtype} of rank {ids.ndim}, token ids are integers [tokens] or "
                "[texts, tokens], images floats [images, channels, height, width]",
                "invalid argument",
            )
        if ids.ndim == 2:
            return np.asarray(ids, np.int64)
    else:
        text = _read_text(options.calibration)
        documents = text.removesuffix("\n").split("\n") if options.lines else [text]
        ids = encode_documents(options.model, documents, options.tokenizer)
        if options.window is None:
            return read_windows(ids, usual_window(options.model, len(ids), len(documents)), options.tokens or None)
    return read_windows(ids, options.window or WINDOW, options.tokens or None)


def _quantize(options: argparse.Namespace) -> None:
    input_command.check_flags(options)
    choose_command.check_flags(options)
    windows = None if options.calibration is None else _calibration_windows(options)
    with _progress() as show:
        if options.quantize_activations:
            table = input_command.run(options, windows, show)
        elif options.quantize == "auto":
            table = choose_command.run(options, windows, show)
        else:
            table = quantize(
                options.model,
                options.output,
                options.quantize,
                windows,
                parts=(options.quantize_parts or "linears").split(","),
                rotations=options.rotate.split(",") if options.rotate else (),
                search_scales=options.search_scales,
                work=options.work,
                progress=show,
            )
    print(table, end="")
    print(f"wrote {options.output}: intarsia-compile {options.output} compiles it")


def _bench_llm(options: argparse.Namespace) -> None:
    generator = Generator(options.artifact, memory=options.memory)
    random = np.random.default_rng(0)
    prompts = random.integers(0, generator.vocabulary, (options.batch, options.prefill)).tolist()
    prefill, decode = [], []
    with _progress() as show:
        for round_number in range(options.rounds + 1):
            times = generator.measure(prompts, options.decode)
            if round_number:  # the first round loads weights into memory
                prefill.append(times[0])
                decode.append(times[1])
            show(f"round {round_number}/{options.rounds}")
    result = {
        "prefill_tokens_per_second": options.batch * options.prefill / statistics.median(prefill),
        "decode_tokens_per_second": options.batch * options.decode / statistics.median(decode),
        "resident_bytes": _resident_bytes(),
        "cache_bytes": generator.cache_bytes([options.prefill + options.decode] * options.batch),
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"prefill {result['prefill_tokens_per_second']:10.1f} tokens/s  ({options.batch} x {options.prefill} tokens)")
    print(f"decode  {result['decode_tokens_per_second']:10.1f} tokens/s  ({options.batch} x {options.decode} tokens)")
    print(
        f"resident memory {result['resident_bytes'] / 1e6:.1f} MB, keys and values {result['cache_bytes'] / 1e6:.1f} MB"
    )


def _bench_deployment(options: argparse.Namespace) -> None:
    if options.threads:
        os.environ["ITX_THREADS"] = str(options.threads)  # of the processes that are started
    with _progress() as show:
        profile = measure.measure(options.folder, lambda text: show(f"measuring {text}\x1b[K"))
    text = json.dumps(profile, indent=1) + "\n"
    if options.output is None:
        print(text, end="")
        return
    options.output.write_text(text)
    print(f"wrote {options.output}: intarsia-plan {profile['plan']['file']} --compare={options.output} compares it")


def _prefill(options: argparse.Namespace) -> None:
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer)
    prompt = options.prompt if generator.tokenizer is not None else _token_ids(options.prompt)
    with hand_over.connected(options.to, options.timeout, options.token) as connection:
        generator.send(connection, prompt, options.timeout)


def _decode(options: argparse.Namespace) -> None:
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer)
    with hand_over.accepted(options.address, options.timeout, options.token) as connection:
        prompt = generator.receive(connection, options.timeout)
    separator = "" if generator.tokenizer is not None else " "
    try:
        for piece in generator.stream(prompt, options.max_tokens, sampling=_sampling(options)):
            print(piece, end=separator, flush=True)
    finally:
        print(flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="intarsia", description="Run language models that intarsia-compile made, and quantize models."
    )
    parser.add_argument("--version", action="version", version=f"intarsia {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(owner: argparse._SubParsersAction, name: str, text: str) -> argparse.ArgumentParser:
        made = owner.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        made.add_argument("artifact", metavar="ARTIFACT", help="a language model, .itx")
        made.add_argument("--threads", type=_at_least(0), default=0, help="threads to compute with (default: all)")
        made.add_argument(
            "--memory",
            type=read_size,
            metavar="SIZE",
            help="memory that this process may use (6GB): weights that do not fit are read from the disk in each step",
        )
        return made

    tokenizer = "tokenizer.json, the folder that holds it, or a GGUF file (default: the artifact's own)"

    def sampling(one: argparse.ArgumentParser, temperature: float, max_tokens: int) -> None:
        add = one.add_argument
        add("--tokenizer", type=Path, help=tokenizer)
        add(
            "--max-tokens",
            type=_at_least(1),
            default=max_tokens,
            help="the most tokens to generate (default: %(default)s)",
        )
        add("--temperature", type=float, default=temperature, help="0: the most likely token (default: %(default)s)")
        add("--top-k", type=int, default=0, help="sample among the most likely tokens only (default: all)")
        add("--top-p", type=float, default=1.0, help="sample among the likeliest of this total probability")
        add("--min-p", type=float, default=0.0, help="drop tokens less likely than this times the likeliest")
        add("--repetition-penalty", type=float, default=1.0, help="above 1: tokens come back less often")
        add("--seed", type=_at_least(-(2**63)), help="makes sampling repeatable")
        add("--draft", type=Path, metavar="ARTIFACT", help="a smaller model that proposes tokens, for speed")
        add("--draft-tokens", type=_at_least(1), default=4, help="tokens proposed at once (default: %(default)s)")

    one = command(commands, "generate", "continue a prompt; text appears as it is made")
    one.set_defaults(run=_generate)
    one.add_argument("prompt", metavar="PROMPT", help="text; where there is no tokenizer, token ids in quotes")
    sampling(one, temperature=0.0, max_tokens=128)
    one.add_argument("--stop", action="append", default=[], metavar="TEXT", help="ends the text; may be repeated")
    form = one.add_mutually_exclusive_group()
    form.add_argument("--json-schema", type=Path, metavar="FILE", help="write JSON that is valid by this schema")
    form.add_argument("--regex", help="write a text that matches this regular expression")
    form.add_argument("--grammar", type=Path, metavar="FILE", help="write a text of this grammar, as Lark")

    address = "unix:/path or tcp:host:port"

    def hand_over(one: argparse.ArgumentParser) -> None:
        one.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="longest silence (default: 60)")
        one.add_argument(
            "--token",
            type=Path,
            metavar="FILE",
            help="a secret that both processes have in common, which tcp: needs; openssl rand -hex 32 makes one. What "
            "is sent is neither encrypted nor signed: use a network that you trust",
        )

    one = command(commands, "prefill", "compute a prompt and hand it over to `intarsia decode`")
    one.set_defaults(run=_prefill)
    one.add_argument("prompt", metavar="PROMPT", help="text; where there is no tokenizer, token ids in quotes")
    one.add_argument("--to", required=True, metavar="ADDRESS", help=f"where the other process waits: {address}")
    one.add_argument("--tokenizer", type=Path, help=tokenizer)
    hand_over(one)

    one = command(commands, "decode", "wait for a prompt of `intarsia prefill` and continue it")
    one.set_defaults(run=_decode)
    one.add_argument("--from", dest="address", required=True, metavar="ADDRESS", help=f"where to wait: {address}")
    hand_over(one)
    sampling(one, temperature=0.0, max_tokens=128)

    one = command(commands, "chat", "talk with a model; Ctrl-C stops an answer, /help lists commands")
    one.set_defaults(run=_chat)
    sampling(one, temperature=0.7, max_tokens=1024)
    one.add_argument("--system", metavar="TEXT", help="the system message")
    one.add_argument("--chat-template", type=Path, metavar="FILE", help="Jinja2 text (default: the model's own)")
    one.add_argument(
        "--template-variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a value that the template knows, as JSON or text, such as enable_thinking=false; may be repeated",
    )

    one = command(commands, "perplexity", "say how well the model predicts a text")
    one.set_defaults(run=_perplexity)
    one.add_argument("file", type=Path, metavar="FILE", help="UTF-8 text")
    one.add_argument("--tokenizer", type=Path, help=tokenizer)
    one.add_argument(
        "--window", type=_at_least(1), default=192, help="tokens predicted in a window (default: %(default)s)"
    )
    one.add_argument("--windows", type=_at_least(0), default=0, help="stop after so many (default: all)")
    one.add_argument("--lines", action="store_true", help="each line is a text of its own, with beginning and end")

    one = commands.add_parser(
        "quantize",
        help="round a model's weights so that little is lost on a text",
        description="Quantize the linears of a model and write a model directory, which intarsia-compile and other "
        "tools read. With a calibration text, weights are rounded so that their errors cancel in the outputs.",
    )
    one.set_defaults(run=_quantize)
    one.add_argument("model", type=Path, metavar="MODEL", help="a Hugging Face directory")
    one.add_argument("-o", dest="output", type=Path, required=True, metavar="DIRECTORY", help="the directory to write")
    one.add_argument(
        "--quantize", default="int4", metavar="FORMAT", help="int4 (default), int4-g128, mxfp4, nvfp4, …; auto"
    )
    one.add_argument(
        "--quantize-parts",
        metavar="PARTS",
        help="linears (default), lm_head, each alone or with a format of its own: linears,lm_head=int8; with auto "
        "linears, lm_head and embedding (default: all)",
    )
    one.add_argument(
        "--rotate",
        metavar="KINDS",
        help="residual, values: multiply what layers pass on, or values of attention, by Hadamard matrices, so that "
        "weights have fewer outliers; the embedding and the head are then written in f32",
    )
    one.add_argument(
        "--search-scales",
        action="store_true",
        help="without a text: take for each block of weights the scale with the least squared error",
    )
    one.add_argument(
        "--calibration",
        type=_calibration_file,
        metavar="FILE",
        help="UTF-8 text; or .npy: token ids, pixel_values; or builtin: English prose that the package carries (the "
        "documentation of Intarsia, under its licence)",
    )
    one.add_argument("--lines", action="store_true", help="each line of the text is a text of its own")
    one.add_argument("--tokenizer", type=Path, help="tokenizer.json, or the folder that holds it (default: MODEL)")
    one.add_argument(
        "--window",
        type=_at_least(2),
        help=f"tokens of a window (default: {WINDOW}; for encoders with --lines the mean length of lines)",
    )
    one.add_argument("--tokens", type=_at_least(0), default=0, help="the most tokens of the text (default: all)")
    one.add_argument(
        "--work",
        type=Path,
        metavar="FOLDER",
        help="what is between layers lies here, so that a run that was ended goes on (default: DIRECTORY.work)",
    )
    one.add_argument("--threads", type=_at_least(0), default=0, help="threads to compute with (default: all)")
    input_command.add_flags(one)
    choose_command.add_flags(one, _at_least)

    one = commands.add_parser(
        "engines",
        help="commands and manifests that start serving engines as a plan says",
        description="Write the commands that start vLLM or SGLang as intarsia-plan --json says, one file for each "
        "deployment, and with --kubernetes manifests.",
    )
    one.set_defaults(run=_engines, threads=0)
    one.add_argument("plan", metavar="PLAN.json", type=Path, help="what intarsia-plan --json wrote")
    one.add_argument("--engine", choices=list(ENGINES), default="vllm", help="the engine (default: %(default)s)")
    one.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=DIRECTORY",
        help="where the weights of a language model of the plan are: a directory, or the name of a repository",
    )
    one.add_argument("--kubernetes", action="store_true", help="also write manifests (.json, for kubectl apply -f)")
    one.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="the folder to write to")

    bench = commands.add_parser("bench", help="measure speed", description="Measure speed.")
    kinds = bench.add_subparsers(required=True, metavar="KIND")
    one = command(kinds, "llm", "tokens a second of prefill and decoding, medians over rounds")
    one.set_defaults(run=_bench_llm)
    one.add_argument("--prefill", type=_at_least(1), default=512, help="tokens of each prompt (default: %(default)s)")
    one.add_argument("--decode", type=_at_least(1), default=64, help="tokens generated after it (default: %(default)s)")
    one.add_argument("--batch", type=_at_least(1), default=1, help="sequences at once (default: %(default)s)")
    one.add_argument("--rounds", type=_at_least(1), default=3, help="rounds after a first that does not count")
    one.add_argument("--json", action="store_true", help="print one JSON object")

    one = kinds.add_parser(
        "deployment",
        help="the pieces of a plan, for intarsia-plan --compare",
        description="Measure the artifacts of a plan at the sizes that it was made for, prefill and decode in "
        "processes of their own.",
    )
    one.set_defaults(run=_bench_deployment)
    one.add_argument("folder", type=Path, metavar="FOLDER", help="what intarsia-compile --plan has written")
    one.add_argument("-o", dest="output", type=Path, metavar="FILE", help="the profile (default: print it)")
    one.add_argument("--threads", type=_at_least(0), default=0, help="threads to compute with (default: all)")
    return parser


def _check_values(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Refuse flags without a value behind their ``=``, as an empty variable of a shell makes them."""
    for argument in itertools.takewhile(lambda each: each != "--", arguments):
        if argument.startswith("-") and argument.find("=") == len(argument) - 1:
            parser.error(
                f"'{argument}' has no value behind '=' (an empty variable of the shell?): give one, or leave the flag "
                "out"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parser = _parser()
    _check_values(parser, sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(arguments)
    try:
        if options.threads:
            set_threads(options.threads)
        return options.run(options) or 0
    except KeyboardInterrupt:
        return 130  # the exit code that shells report for SIGINT
    except BrokenPipeError:
        return 141
    except (Error, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
