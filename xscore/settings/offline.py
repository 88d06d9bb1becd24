"""Settings of what is judged offline or by many: batches at a vendor, questions that share a prompt, a shared server,
caches that move between machines.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr

from xscore.settings.part import Part, Positive
from xscore.settings.spending import Dollars

Tenant = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class BatchSettings(Part):
    """How lists of questions are judged."""

    max_requests: Positive | None = Field(
        None, description="Requests of one batch; unset: what the vendor takes (OpenAI 50,000, Anthropic 100,000)."
    )
    max_bytes: Positive | None = Field(
        None, description="Bytes of one batch; unset: what the vendor takes (OpenAI 200 MB, Anthropic 256 MB)."
    )
    enqueued_tokens: Positive | None = Field(
        None,
        description="Input tokens that may wait at the vendor, over all batches of this store; unset: no limit of our own.",
    )
    poll_s: float = Field(
        60.0, ge=0.05, le=86_400, allow_inf_nan=False, description="Seconds between two looks of `xscore batch wait`."
    )
    ray_address: str = Field(
        "local",
        description="Where `--engine ray` judges: `local`, a Ray of its own on this machine; `auto`, one that runs here; or a cluster's address.",
    )
    questions_a_call: int = Field(
        4, ge=1, le=16, description="Questions that share a prompt in `ask --batch`; 1: one question a call."
    )


class SharedSettings(Part):
    """A server on which several processes and machines share judgments, limits and dollars."""

    url: SecretStr = Field(
        SecretStr(""),
        description="`redis://HOST` (extra `redis`) or `postgresql://HOST/DATABASE` (extra `postgres`); empty: nothing is shared.",
    )
    tenant: Tenant = Field(
        "default", description="Stands in every key on the server; tenants see nothing of each other."
    )
    require: bool = Field(
        False, description="Stop where the server cannot be reached, instead of going on with the local store alone."
    )
    timeout_s: float = Field(
        2.0, gt=0, le=60, allow_inf_nan=False, description="Deadline of one request to the server."
    )
    max_usd_day: Dollars | None = Field(
        None, description="Cap on one day (UTC) of the tenant, over all its processes and machines; unset: none."
    )


class CacheSettings(Part):
    """The key that machines share, whose caches move between them."""

    key: SecretStr = Field(
        SecretStr(""),
        description="Signs exports of the cache, and tells whether an import is to be believed; `xscore cache key` prints one.",
    )
    key_file: Path | None = Field(
        None, description="A file of yours alone that holds the key instead; `--key-file` on the command line."
    )
