"""A sentence model of the user's own, run on this machine with onnxruntime (extra `local`), such as MiniLM.

The user names a folder that holds the model as ONNX and its `tokenizer.json`; nothing is ever downloaded. Token
vectors are averaged over the text, as sentence-transformers does for MiniLM, and brought to length 1. The model runs
in a thread, so that the event loop goes on. Trade-off: a model that wants another pooling or a prefix before its texts
gives poorer vectors here than at home.
"""

import asyncio
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xscore.errors import UsageError
from xscore.hashing import file_digest
from xscore.memory.likeness.vectors import unit

if TYPE_CHECKING:
    from xscore.memory.likeness.embedder import Dense

MODELS = ("model.onnx", "onnx/model.onnx")
"""Where a folder may hold its model; the first that is there."""
TOKENIZER = "tokenizer.json"
MOST_TOKENS = 256
"""Of one text, as MiniLM was trained."""
BATCH = 32


def model_file(folder: Path) -> Path:
    """Return the model of a folder. Raises UsageError where it or its tokenizer is not there."""
    found = next((folder / name for name in MODELS if (folder / name).is_file()), None)
    missing = MODELS[0] if found is None else TOKENIZER if not (folder / TOKENIZER).is_file() else ""
    if found is None or missing:
        raise UsageError(
            f"embedding.model names {folder}, where there is no {missing}",
            hint=f"Put {MODELS[0]} and {TOKENIZER} of a sentence model there; nothing is downloaded.",
        )
    return found


class LocalEmbedder:
    """A sentence model in this process."""

    batch = BATCH

    def __init__(self, folder: Path) -> None:
        """Raise UsageError where the folder holds no model or the extra is not installed."""
        self._model = model_file(folder)
        self._tokenizer = folder / TOKENIZER
        try:
            import onnxruntime
            import tokenizers
        except ImportError as error:
            raise UsageError(
                "embedding.model wants a local model, and the extra `local` is not installed",
                hint="pip install 'xscore[local]', or set embedding.model to terms.",
            ) from error
        self._runtime, self._tokenizers = onnxruntime, tokenizers

    @cached_property
    def name(self) -> str:
        """`minilm:` and a digest of model and tokenizer, so that another model's vectors are others."""
        return f"minilm:{file_digest(self._model.read_bytes() + self._tokenizer.read_bytes())[:12]}"

    async def embed(self, texts: Sequence[str]) -> "Dense":
        """Return one row for each text."""
        return await asyncio.to_thread(self._embed, list(texts))

    async def aclose(self) -> None:
        """Do nothing: the session goes with the object."""

    def _embed(self, texts: list[str]) -> "Dense":
        import numpy as np

        encoded = self._words.encode_batch(texts)
        fed = {
            "input_ids": np.array([one.ids for one in encoded], dtype=np.int64),
            "attention_mask": np.array([one.attention_mask for one in encoded], dtype=np.int64),
            "token_type_ids": np.array([one.type_ids for one in encoded], dtype=np.int64),
        }
        wanted = {given.name for given in self._session.get_inputs()}
        states = self._session.run(None, {name: value for name, value in fed.items() if name in wanted})[0]
        if states.ndim == 3:
            mask = fed["attention_mask"][:, :, None]
            states = (states * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
        return unit(states).astype(np.float16)

    @cached_property
    def _words(self) -> Any:
        tokenizer = self._tokenizers.Tokenizer.from_file(str(self._tokenizer))
        tokenizer.enable_truncation(MOST_TOKENS)
        tokenizer.enable_padding()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        return self._runtime.InferenceSession(str(self._model), providers=["CPUExecutionProvider"])
