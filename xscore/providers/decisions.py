"""Decision models: one state, many independent questions, probabilities in return. One provider for
every host and wire.

What is written and read is the wire's (`decision_wires`). `Completion.text` holds the answers as
JSON by question name, in one form for all wires (`scorer.prompt_builder` reads it).
"""

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec
from msgspec.structs import replace

from xscore.platform.errors import UsageError
from xscore.providers.connection import HostConnection
from xscore.providers.decision_hosts import (
    DECISION_HOSTS,
    DECISIONS_OF_OPENAI,
    DecisionHost,
    base_url_setting,
    decision_access,
)
from xscore.providers.decision_wires import DECODER, WIRES, Wire, repeated_names
from xscore.providers.host_facts import json_object, make_completion
from xscore.providers.hosts import host_of, is_host_within, usable_key
from xscore.providers.provider import OnText
from xscore.providers.reply_bounds import expecting_tokens
from xscore.providers.transport import headers_of_environment
from xscore.providers.wire_errors import CallContext, DialectProfile, clean_completion
from xscore.records.calls import Capability, Completion, Finish, ReplyForm, Request
from xscore.settings import Settings

ANSWER_TOKENS = 120
"""Most tokens that one answer may take: five levels with a legend and a probability each."""
MOST_NAME_CHARS = 200


class DecisionProvider(HostConnection):
    """One host of decision models. It is `Adaptable`, and takes one form only."""

    forms: tuple[ReplyForm, ...] = (ReplyForm.JSON_SCHEMA,)
    is_vendors_own = False
    """False in the sense of `Adaptable`, even at the vendor's own address: each host is probed,
    since only a reply says whether it has the route, and which model answers."""

    def __init__(self, name: str, model: str, settings: Settings) -> None:
        """Connect to one of `DECISION_HOSTS`; nothing is sent yet.

        Raises UsageError for a missing or malformed base URL, a malformed key, and levels on a wire
        that has none; AuthenticationFailed for no key.
        """
        self.name: str = name
        self.declared: DecisionHost = DECISION_HOSTS[name]
        self.wire: Wire = WIRES[self.declared.wire]
        if settings.judge.wire == "decisions-score" and not self.wire.takes_levels:
            raise UsageError(
                f"`{name}:{model}` gives each memory one probability, and cannot rate on levels",
                hint="Leave judge.wire at auto, or use another decision model.",
            )
        access = decision_access(name, settings)
        self.profile: DialectProfile = decision_profile(name, self.declared)
        host = host_of(access.base_url, setting=self.profile.setting)
        super().__init__(access.base_url, usable_key(access, host=host, model=model))
        self._capability = replace(self._capability, limits=self.declared.limits)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt within `request.timeout_s`. Raises leaves of `ProviderError`."""
        call = CallContext(self.host, self.key, request.model, request)
        body = msgspec.json.encode(self.fields(request))
        async with self.deadline(request.timeout_s):
            with expecting_tokens(ANSWER_TOKENS * len(request.reply_ids)):
                reply = await self.exchange(self.declared.route, body, call)
        completion = clean_completion(
            self.read(reply.data, reply.headers, request), secret=self.key
        )
        capability = self._capability
        name = completion.model
        self._capability = replace(
            capability,
            model=request.model,
            reports_usage=completion.usage_reported,
            limits=completion.limits or capability.limits,
            answered_by=name,
            renamed=capability.renamed + (capability.answered_by not in ("", name)),
        )
        return completion

    def fields(self, request: Request) -> dict[str, Any]:
        """Return the JSON body of a request."""
        assert request.decision is not None, "decision models accept decision requests only"
        return self.wire.fields(request)

    async def context_tokens(self, model: str) -> int | None:
        """Return what is declared: these hosts do not tell."""
        return self.declared.request_tokens

    def adopt(self, capability: Capability) -> None:
        """Remember what is known about the host."""
        self._capability = replace(capability, limits=capability.limits or self.declared.limits)

    def headers(self) -> dict[str, str]:
        """Return the authentication headers."""
        headers = super().headers()
        if self.key and self.wire.key_header != "Authorization":
            headers = {self.wire.key_header: self.key}
        if self.name == DECISIONS_OF_OPENAI:
            is_vendors_own = is_host_within(self.base_url, self.profile.vendor)
            headers |= headers_of_environment("openai", is_vendors_own=is_vendors_own)
        return headers

    def read(self, data: bytes, headers: Mapping[str, str], request: Request) -> Completion:
        """Return the completion in the body of a success.

        Raises UnreadableResponse, or the error it carries.
        """
        call = CallContext(self.host, self.key, request.model, request)
        reply = _decoded(data, headers, self.profile, call)
        self.profile.raise_inner(reply.get("error"), call)
        answers = self.wire.answers(reply, request)
        if answers is None:
            raise self.profile.unreadable(self._unread(reply, request), call)
        model = reply.get("model")
        return make_completion(
            call,
            json.dumps(answers),
            Finish.STOP,
            self.wire.usage(reply, headers),
            model=model if _is_name(model) else request.model,
            limits=self.rate_limits(headers),
        )

    def _unread(self, reply: Mapping[str, Any], request: Request) -> str:
        """Say what a reply holds that has no answers in the form of this wire."""
        for wire in WIRES.values():
            if wire.answers(reply, request) is not None:
                return f"answers in the form of another wire of decision models ({wire.title})"
        return f"no answers in the form of the {self.wire.title} wire"


def decision_profile(name: str, declared: DecisionHost) -> DialectProfile:
    """Return the names that this host's errors and hints use."""
    return DialectProfile(
        name=WIRES[declared.wire].title,
        vendor=declared.vendor or "invalid",
        setting=base_url_setting(name),
        base_url_ends=declared.base_url_ends,
        path=declared.route,
        models_path="/models",
    )


def _decoded(
    data: bytes, headers: Mapping[str, str], profile: DialectProfile, call: CallContext
) -> dict[str, Any]:
    """Return the JSON object of a success. Raises UnreadableResponse."""
    try:
        decoded = DECODER.decode(data.decode("utf-8"))
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict) or repeated_names(decoded):
        json_object(data, headers, profile, call)  # says what it is
        raise profile.unreadable("a JSON object that repeats a name", call)
    return decoded


def _is_name(value: object) -> TypeGuard[str]:
    """Whether this can be the name of a model: it becomes part of a judge's identity and is
    shown."""
    return isinstance(value, str) and 0 < len(value) <= MOST_NAME_CHARS and value.isprintable()
