"""Drafts: what is sent, and its maximum cost."""

from tests.scorer.stdlib_candidates import candidate
from xscore.prompts.judge import JudgeModel
from xscore.prompts.turn_text import PROMPT_VERSION
from xscore.records.judgment import JudgeIdentity
from xscore.scorer.packs import Pack, PackProfile
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import UNREADABLE, PackPrompt, next_prompts

MODEL = JudgeModel(
    name="m", reasoning="minimal", reasoning_reserve=512, temperature=0.0, timeout_s=7.0
)
MEMBERS = tuple(candidate("a.py", f"f{number}", f"text {number}") for number in range(20))
TEXTS = {one.id: f"text {number}" for number, one in enumerate(MEMBERS)}


def drafts(model: JudgeModel = MODEL, limits: PackProfile | None = None) -> PromptBuilder:
    """Drafts under a fixed secret."""
    return PromptBuilder(model, limits or PackProfile(), b"secret")


def ask_of(drafts_: PromptBuilder, count: int = 20) -> PackPrompt:
    """One request over `count` memories."""
    pack = Pack("p_1", MEMBERS[:count])
    (ask,) = drafts_.prompts_of(pack, drafts_.pieces_of(pack, TEXTS))
    return ask


def test_the_identity_names_all_that_may_change_a_score() -> None:
    """Provider, host, model, reasoning, prompt version, order, packed or plain."""
    identity = drafts().identity(provider="openai", host="h")
    assert identity == JudgeIdentity(
        "openai", "h", "m", "minimal", PROMPT_VERSION, "memory_first", True
    )
    assert (
        drafts(limits=PackProfile(size=1)).identity(provider="openai", host="h").packed is False
    )


def test_declared_settings_reach_the_request() -> None:
    """Reasoning, temperature, deadline and the pack's name as cache key."""
    request, codes = drafts().request(ask_of(drafts()), "<turn/>")
    assert request.reasoning == "minimal"
    assert request.temperature == 0.0
    assert request.timeout_s == 7.0
    assert request.cache_key == "p_1"
    assert set(request.reply_ids) == set(codes)


def test_the_cap_holds_every_score_reason_and_the_reserve() -> None:
    """A pack of twenty, all with reasons, at the lowest effort; never above the model's own
    limit."""
    prompt_drafts = drafts()
    cap = prompt_drafts.output_cap(ask_of(prompt_drafts))
    assert 20 * 30 + 512 < cap < 2_000
    assert cap > prompt_drafts.expected_output(20) + 512
    assert (
        drafts(JudgeModel(name="m", max_output_tokens=300)).output_cap(ask_of(prompt_drafts))
        == 300
    )


def test_only_a_pack_that_lasts_is_kept_by_the_host() -> None:
    """Prefixes that another turn will repeat are marked for caching; a throwaway, a part and a
    retry are not."""
    prompt_drafts = drafts(JudgeModel(name="m", prefix_ttl_s=300))
    lasting, throwaway = Pack("p_1", MEMBERS, is_lasting=True), Pack("x_1", MEMBERS)
    todo = prompt_drafts.pieces_of(lasting, TEXTS)
    (full_pack,), (loose,), (half_pack,) = (
        prompt_drafts.prompts_of(lasting, todo),
        prompt_drafts.prompts_of(throwaway, todo),
        prompt_drafts.prompts_of(lasting, todo[:3]),
    )
    (retry, _), _ = next_prompts(full_pack, full_pack.pieces, UNREADABLE)
    kept = {
        name: prompt_drafts.request(ask, "<turn/>")[0]
        for name, ask in zip("wlsr", (full_pack, loose, half_pack, retry), strict=True)
    }
    assert {
        name: (request.stable_parts, request.prefix_ttl_s) for name, request in kept.items()
    } == {
        "w": (1, 300),
        "l": (0, 0),
        "s": (0, 0),
        "r": (0, 0),
    }
    turn_first = drafts(JudgeModel(name="m", prefix_ttl_s=300, order="turn_first"))
    assert turn_first.request(full_pack, "<turn/>")[0].prefix_ttl_s == 0
