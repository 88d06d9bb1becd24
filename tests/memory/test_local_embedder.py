"""A sentence model in a folder, run by a real onnxruntime session over a real tokenizer; both are made here."""

import socket
from pathlib import Path

import numpy as np
import pytest

from xscore.extensions.vectors.embedders import LocalEmbedder
from xscore.platform.errors import UsageError

pytest.importorskip("onnxruntime", reason="onnxruntime (extra `local`) is not installed")
pytest.importorskip("tokenizers", reason="tokenizers (extra `local`) is not installed")
onnx = pytest.importorskip("onnx", reason="onnx, which builds the model of this test, is not installed")

WORDS = ["[PAD]", "[UNK]", "read", "write", "the", "file", "draw", "circle"]
DIMS = 16


def build(folder: Path, *, seed: int = 1) -> Path:
    """Write a model of one layer, a table of word vectors, and its tokenizer."""
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    table = np.random.default_rng(seed).normal(size=(len(WORDS), DIMS)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", DIMS])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    return folder


async def test_texts_become_rows_of_length_one(tmp_path: Path) -> None:
    """H07: padding counts for nothing, so a text has one vector whatever stands beside it."""
    embedder = LocalEmbedder(build(tmp_path / "model"))
    alone = await embedder.embed(["read the file"])
    beside = await embedder.embed(["Read the file", "write the file", "draw the circle the circle the circle"])
    assert alone.dtype == np.float16
    assert beside.shape == (3, DIMS)
    assert np.allclose(np.linalg.norm(beside.astype(float), axis=1), 1, atol=1e-2)
    assert np.array_equal(alone[0], beside[0])
    assert beside[0] @ beside[1] > beside[0] @ beside[2]
    await embedder.aclose()


async def test_nothing_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every socket refused the model works all the same."""

    def refuse(*args: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert (await LocalEmbedder(build(tmp_path / "model")).embed(["read"])).shape == (1, DIMS)


def test_another_model_is_another_embedder(tmp_path: Path) -> None:
    """Vectors are named by the content of model and tokenizer, not by the folder."""
    names = [LocalEmbedder(build(tmp_path / name, seed=seed)).name for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_folder_without_its_model_is_named_with_a_hint(tmp_path: Path, missing: str) -> None:
    """What is not there is said, with what to put there."""
    (build(tmp_path / "model") / missing).unlink()
    with pytest.raises(UsageError, match=missing) as caught:
        LocalEmbedder(tmp_path / "model")
    assert "nothing is downloaded" in caught.value.hint


def test_a_model_in_the_folder_of_its_own_is_found(tmp_path: Path) -> None:
    """The usual layout of published models, `onnx/model.onnx`, is taken as it is."""
    folder = build(tmp_path / "model")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    assert LocalEmbedder(folder).name.startswith("minilm:")
