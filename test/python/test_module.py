# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package's interface to loaded modules: signatures, arguments, results, errors."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import intarsia
import ml_dtypes
import numpy as np
import pytest
import xxhash

IDS = [[101, 7592, 2088, 102]]


class Producer:
    """A DLPack producer that is no NumPy array, of version 1.x."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class OldProducer(Producer):
    """A producer of DLPack version 0.x."""

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()


def test_functions_and_signature(minilm):
    assert set(minilm.functions) == {"main", "embed"}
    signature = minilm.signature("main")
    names = [value.name for value in signature.inputs]
    assert names[0] == "input_ids"
    assert {"attention_mask", "token_type_ids"} <= set(names)
    ids = signature.inputs[0]
    assert (ids.dtype, ids.shape, ids.default, ids.value_range) == ("i64", ("batch", "sequence"), None, (0, 30522))
    assert ids.maxima[1] == 512
    defaults = {value.name: value.default for value in signature.inputs}
    assert defaults["attention_mask"] == 1
    assert defaults["token_type_ids"] == 0
    hidden = signature.outputs[0]
    assert (hidden.name, hidden.dtype, hidden.shape) == ("last_hidden_state", "f32", ("batch", "sequence", 384))
    assert str(signature).startswith("main(input_ids: i64[batch, sequence≤512]")


def test_manifest_and_repr(minilm):
    assert minilm.manifest["format"] == 1
    assert minilm.manifest["producer"].startswith("intarsia ")
    assert minilm.variant in {variant["name"] for variant in minilm.manifest["target"]["variants"]}
    assert "embed" in repr(minilm)
    assert "input_ids" in repr(minilm.main)
    assert {"main", "embed"} <= set(dir(minilm))


def outputs(result) -> np.ndarray:
    """Give last_hidden_state, whether or not the model has more outputs."""
    return result if isinstance(result, np.ndarray) else result.last_hidden_state


def test_positional_named_and_lists_agree(minilm):
    ids = np.array(IDS, dtype=np.int64)
    mask = np.ones_like(ids)
    named = outputs(minilm.main(input_ids=ids, attention_mask=mask))
    assert named.shape == (1, 4, 384)
    assert named.dtype == np.float32
    np.testing.assert_array_equal(outputs(minilm.main(ids, mask)), named)
    np.testing.assert_array_equal(outputs(minilm.main(IDS)), named)
    np.testing.assert_array_equal(outputs(minilm["main"](input_ids=IDS)), named)


@pytest.mark.parametrize("producer", [Producer, OldProducer])
def test_any_dlpack_producer(minilm, producer):
    ids = np.array(IDS, dtype=np.int64)
    expected = outputs(minilm.main(ids))
    np.testing.assert_array_equal(outputs(minilm.main(producer(ids))), expected)
    turned = np.ascontiguousarray(ids.T).T  # not dense as [1, 4] of a [4, 2]
    wide = np.zeros((4, 2), dtype=np.int64)
    wide[:, :1] = turned.T
    np.testing.assert_array_equal(outputs(minilm.main(producer(wide.T[:1]))), expected)


class Negative(Producer):
    """A torch tensor like `x.conj().imag`: its elements have the other sign, which DLPack cannot say."""

    def is_neg(self) -> bool:
        return True

    def resolve_neg(self) -> Producer:
        return Producer(-self.array)


def test_negative_bit_of_torch(minilm):
    ids = np.array(IDS, dtype=np.int64)
    np.testing.assert_array_equal(outputs(minilm.main(Negative(-ids))), outputs(minilm.main(ids)))
    state = SimpleNamespace(name="cache", dtype="f32", state=True)
    with pytest.raises(intarsia.InvalidArgumentError, match=r"'cache'.*negative bit: give its resolve_neg\(\)"):
        intarsia.runtime.module._capsule(Negative(ids), state)


def test_tensor_that_records_gradients(minilm):
    class Recording(Producer):
        requires_grad = True

    with pytest.raises(intarsia.InvalidArgumentError, match=r"'input_ids'.*records gradients.*give its detach\(\)"):
        minilm.main(Recording(np.array(IDS, dtype=np.int64)))


def test_dlpack_producer_that_fails(minilm):
    """The producer's own exception says why, and is the cause of ours."""

    class Failing:
        def __dlpack__(self, **options: object) -> object:
            raise BufferError("the tensor requires a gradient")

    class NoCapsule:
        def __dlpack__(self, **options: object) -> object:
            return 5

    with pytest.raises(intarsia.InvalidArgumentError, match=r"'input_ids'.*Failing.*requires a gradient") as caught:
        minilm.main(Failing())
    assert isinstance(caught.value.__cause__, BufferError)
    with pytest.raises(intarsia.InvalidArgumentError, match=r"'input_ids'.*no DLPack capsule"):
        minilm.main(NoCapsule())


def test_strided_and_readonly_arrays(minilm):
    ids = np.array(IDS, dtype=np.int64)
    expected = outputs(minilm.main(ids))
    wide = np.zeros((1, 8), dtype=np.int64)
    wide[:, ::2] = ids
    np.testing.assert_array_equal(outputs(minilm.main(wide[:, ::2])), expected)
    ids.flags.writeable = False
    np.testing.assert_array_equal(outputs(minilm.main(ids)), expected)


def test_link_to_an_artifact(minilm_artifact, tmp_path):
    """Weights are beside the link or beside the file that it leads to; of a link that has them its own count."""
    link = tmp_path / "linked.itx"
    link.symlink_to(minilm_artifact)
    module = intarsia.load(link)
    expected = outputs(module.main(IDS))
    copy = tmp_path / "copied.itx"
    shutil.copy(minilm_artifact, copy)
    with pytest.raises(intarsia.NotFoundError, match=f"^{tmp_path}.*are missing: they belong beside it"):
        intarsia.load(copy)
    weights = minilm_artifact.with_suffix(".safetensors")
    (tmp_path / weights.name).symlink_to(weights)
    np.testing.assert_array_equal(outputs(intarsia.load(link).main(IDS)), expected)


def test_results_own_their_memory(minilm_artifact):
    module = intarsia.load(minilm_artifact)
    result = outputs(module.main(IDS))
    kept = result.copy()
    for _ in range(3):
        outputs(module.main([[101, 2054, 102, 102]]))
    del module
    np.testing.assert_array_equal(result, kept)
    result += 1  # writable: nobody else reads it


def test_inputs_are_released(minilm):
    import gc
    import weakref

    class Array(np.ndarray):
        """Weakly referable."""

    ids = np.array(IDS, dtype=np.int64).view(Array)
    alive = weakref.ref(ids)
    minilm.main(ids)
    del ids
    gc.collect()
    assert alive() is None


def test_calls_from_several_threads(minilm):
    rows = [np.array([[101, 2000 + row, 102]], dtype=np.int64) for row in range(4)]
    expected = [minilm.embed(row) for row in rows]
    failures = []

    def work(index: int) -> None:
        for _ in range(20):
            if not np.array_equal(minilm.embed(rows[index]), expected[index]):
                failures.append(index)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(len(rows))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_set_threads(minilm):
    before = intarsia.threads()
    try:
        intarsia.set_threads(1)
        assert intarsia.threads() == 1
        one = minilm.embed(IDS)
        intarsia.set_threads(2)
        np.testing.assert_array_equal(minilm.embed(IDS), one)
        for threads in (-1, 1025, 2**40, 1.5):
            with pytest.raises(intarsia.InvalidArgumentError, match=f"threads is {threads}, must be"):
                intarsia.set_threads(threads)
    finally:
        intarsia.set_threads(0)
    assert intarsia.threads() == before


def test_parts_of_the_cpu_divide_the_machine(minilm):
    expected = minilm.embed(IDS)
    small, large = intarsia.cpu(threads=1), intarsia.cpu(threads=3)
    assert small.name != large.name
    assert (small.info["threads"], large.info["threads"]) == (1, 3)
    assert repr(large) == f"<intarsia device '{large.name}' of 3 threads>"
    modules = [intarsia.load(minilm.path, devices=small), intarsia.load(minilm.path, devices=[large])]
    name = large.name
    del small, large  # the modules keep them
    results: list[np.ndarray] = []
    callers = [
        threading.Thread(target=lambda module=module: results.extend(module.embed(IDS) for _ in range(5)))
        for module in modules
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 10
    for result in results:
        np.testing.assert_allclose(result, expected, atol=1e-5, rtol=0)
    workers = [task.read_text() for task in Path("/proc/self/task").glob("*/comm")]
    assert sum(worker.startswith(f"itx-{name}-") for worker in workers) == 2


def test_calls_in_the_background(minilm):
    expected = minilm.embed(IDS)
    call = minilm.embed.start(IDS)
    np.testing.assert_allclose(call.result(timeout=60), expected, atol=1e-5, rtol=0)
    assert call.done()
    assert repr(call) == "<intarsia call of embed, done>"
    for _ in range(5):
        minilm.embed.start(IDS)  # dropped: the call goes on, its results are dropped too
    with pytest.raises(intarsia.InvalidArgumentError, match="input_ids"):
        minilm.embed.start([[-1]])


def test_refused_parts_of_the_cpu(minilm):
    with pytest.raises(intarsia.InvalidArgumentError, match="threads is -1, must be at least 0"):
        intarsia.cpu(threads=-1)
    with pytest.raises(intarsia.InvalidArgumentError, match="may not run on processor 1000000"):
        intarsia.cpu(processors=[1000000])
    device = intarsia.cpu(2)
    with pytest.raises(intarsia.InvalidArgumentError, match=f"the device '{device.name}' is named twice"):
        intarsia.load(minilm.path, devices=[device, device])


def test_devices():
    assert [device["name"] for device in intarsia.devices()] == ["cpu", "reference", "emulated", "wafer"]


def test_profile(minilm, tmp_path):
    import json

    with intarsia.profile(tmp_path / "trace.json"):
        minilm.main(IDS)
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = " ".join(event["name"] for event in events)
    assert "attention" in names


@pytest.mark.parametrize(
    ("arguments", "named", "parts"),
    [
        ((), {}, ["input_ids"]),
        ((), {"input_idz": IDS}, ["input_idz", "input_ids", "attention_mask"]),
        ((np.array(IDS, dtype=np.int32),), {}, ["input_ids", "i32", "i64"]),
        ((np.array(IDS[0], dtype=np.int64),), {}, ["input_ids", "1", "2"]),
        (([[101, 30522, 102]],), {}, ["input_ids", "30522"]),
        (([[101, -3, 102]],), {}, ["input_ids", "-3"]),
        ((np.zeros((1, 513), dtype=np.int64),), {}, ["513", "512"]),
        ((IDS, np.ones((1, 5), dtype=np.int64)), {}, ["sequence", "4", "5"]),
        ((IDS, np.ones((2, 4), dtype=np.int64)), {}, ["batch", "1", "2"]),
        ((IDS, None, None, None), {}, ["3", "4"]),
        ((IDS,), {"input_ids": IDS}, ["input_ids", "position"]),
        ((["words"],), {}, ["input_ids"]),
        ((np.array(IDS, dtype=np.complex64),), {}, ["input_ids", "complex64"]),
        ((np.array(IDS, dtype=np.longdouble),), {}, ["input_ids", "longdouble", "i64"]),
        ((np.array(IDS, dtype=">i8"),), {}, ["input_ids", ">i8", "byte order"]),
        (([[1.7, 2.2]],), {}, ["input_ids", "float64", "i64"]),
        (([["1", "2"]],), {}, ["input_ids", "i64", "<U1"]),
        (([[2**70]],), {}, ["input_ids", "i64", "64 bits"]),
        (([[2**63]],), {}, ["input_ids", "i64", str(2**63)]),
        (([[1, 2], [3]],), {}, ["input_ids", "inhomogeneous"]),
    ],
)
def test_bad_arguments(minilm, arguments, named, parts):
    with pytest.raises(intarsia.NotFoundError if named.get("input_idz") else intarsia.InvalidArgumentError) as caught:
        minilm.main(*arguments, **named)
    for part in parts:
        assert part in str(caught.value)


def test_unknown_function(minilm):
    with pytest.raises(intarsia.NotFoundError) as caught:
        minilm["encode"]
    for part in ("encode", "main", "embed"):
        assert part in str(caught.value)
    with pytest.raises(AttributeError, match="encode"):
        minilm.encode  # noqa: B018


def test_path_of_bytes(minilm_artifact):
    assert intarsia.load(bytes(minilm_artifact)).path == str(minilm_artifact)


def test_missing_file(tmp_path):
    with pytest.raises(intarsia.NotFoundError, match=r"none\.itx"):
        intarsia.load(tmp_path / "none.itx")


def test_damaged_file(minilm_artifact, tmp_path):
    data = bytearray(minilm_artifact.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.itx").write_bytes(data)
    with pytest.raises(intarsia.Error, match=r"bad\.itx"):
        intarsia.load(tmp_path / "bad.itx")


def test_verify_reads_all_weights(minilm_artifact):
    intarsia.load(minilm_artifact, verify=True)


def test_errors_are_ordinary_exceptions():
    assert issubclass(intarsia.InvalidArgumentError, ValueError)
    assert issubclass(intarsia.NotFoundError, LookupError)
    assert issubclass(intarsia.CompileError, intarsia.Error)


def compiled(folder, text: str) -> intarsia.Module:
    (folder / "m.mlir").write_text(text)
    return intarsia.compile(folder / "m.mlir", output=folder / "m.itx")


def test_bfloat16_arrays(tmp_path):
    """A function over bfloat16 takes and gives ml_dtypes' arrays."""
    module = compiled(
        tmp_path,
        """
func.func @main(%x: tensor<?x8xbf16> {nn.name = "x", nn.sizes = ["rows", ""]})
    -> (tensor<?x8xbf16> {nn.name = "y", nn.sizes = ["rows", ""]}) {
  %0 = arith.addf %x, %x : tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}
""",
    )
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(3, 8).astype(ml_dtypes.bfloat16)
    y = module.main(x)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, x + x)
    np.testing.assert_array_equal(module.main(np.asfortranarray(x)), x + x)
    np.testing.assert_array_equal(module.main(x.tolist()), x + x)


def test_scalars(tmp_path):
    """Arrays of rank 0, of bfloat16 too, and Python's numbers."""
    module = compiled(
        tmp_path,
        """
func.func @bf16(%x: tensor<bf16> {nn.name = "x"}) -> (tensor<bf16> {nn.name = "y"}) {
  %0 = arith.addf %x, %x : tensor<bf16>
  return %0 : tensor<bf16>
}
func.func @f16(%x: tensor<f16> {nn.name = "x"}) -> (tensor<f16> {nn.name = "y"}) {
  %0 = arith.addf %x, %x : tensor<f16>
  return %0 : tensor<f16>
}
""",
    )
    for value in (np.array(1.5, ml_dtypes.bfloat16), ml_dtypes.bfloat16(1.5), 1.5):
        result = module.bf16(value)
        assert (result.shape, result.dtype) == ((), ml_dtypes.bfloat16)
        assert result == 3
    assert module.f16(np.array(1.5, np.float16)) == 3
    assert module.f16(2) == 4
    with pytest.raises(intarsia.InvalidArgumentError, match=r"'x' takes f16.*overflow"):
        module.f16(1e10)


def test_steps_that_are_no_language_models(tmp_path):
    module = compiled(
        tmp_path,
        """
func.func @step(%ids: tensor<?xi64> {nn.name = "input_ids", nn.range = array<i64: 0, 9>, nn.sizes = ["n"]})
    -> (tensor<?xi64> {nn.name = "y", nn.sizes = ["n"]}) {
  %0 = arith.addi %ids, %ids : tensor<?xi64>
  return %0 : tensor<?xi64>
}
""",
    )
    with pytest.raises(intarsia.InvalidArgumentError, match="no range for an input 'positions': it is no language"):
        intarsia.Generator(module)


def test_numbers_of_lists_are_checked(tmp_path):
    module = compiled(
        tmp_path,
        """
func.func @main(%x: tensor<?xi8> {nn.name = "x", nn.sizes = ["n"]}, %m: tensor<?xi1> {nn.name = "m", nn.sizes = ["n"]})
    -> (tensor<?xi8> {nn.name = "y", nn.sizes = ["n"]}) {
  %0 = arith.select %m, %x, %x : tensor<?xi1>, tensor<?xi8>
  return %0 : tensor<?xi8>
}
""",
    )
    np.testing.assert_array_equal(module.main([1, -128, 127], [True, False, True]), np.array([1, -128, 127], np.int8))
    with pytest.raises(intarsia.InvalidArgumentError, match=r"'x' takes i8.*from 1 to 128"):
        module.main([1, 128], [True, True])
    with pytest.raises(intarsia.InvalidArgumentError, match=r"'m' takes bool.*int64"):
        module.main([1, 2], [1, 0])


def test_public_names():
    for name in intarsia.__all__:
        assert getattr(intarsia, name).__module__ == "intarsia", name


def test_code_of_another_manifest(minilm_artifact, tmp_path):
    """Inputs that change positions keep all counts, and code takes them by their position."""
    artifact = bytearray(minilm_artifact.read_bytes())
    swapped = artifact.replace(b'"attention_mask"', b'"?"').replace(b'"token_type_ids"', b'"attention_mask"')
    swapped = bytearray(swapped.replace(b'"?"', b'"token_type_ids"'))
    assert len(swapped) == len(artifact)
    assert swapped != artifact
    # lib/Formats/ArtifactFormat.h: the hash is 24 bytes behind the header's begin.
    at = artifact.index(b"ITXMOD\0\1") + 24
    swapped[at : at + 16] = bytes(16)
    swapped[at : at + 16] = xxhash.xxh3_128_digest(bytes(swapped))
    (tmp_path / "minilm.itx").write_bytes(swapped)
    (tmp_path / "minilm.safetensors").symlink_to(minilm_artifact.with_suffix(".safetensors"))
    with pytest.raises(intarsia.CorruptError, match="its code was compiled for another manifest than it has"):
        intarsia.load(tmp_path / "minilm.itx")
