"""Reading a judging prompt back: what our own prompts show is what is read."""

from xscore.platform.hashing import content_hash
from xscore.prompts.judge import PackEntry, PromptOptions, judging_request, turn_block
from xscore.providers.scripted import shown_memories, text_around_memories
from xscore.records import Turn

ENTRIES = (
    PackEntry("ka", "function", "a/cache.py", "Store.write", "def write(self): ..."),
    PackEntry("qe", "doc", 'docs/a "b" & <c>.md', "Install > Linux", "1 < 2 and 3 > 2\n\nmore"),
    PackEntry("mu", "convention", "", "", "tabs, never spaces"),
)


def test_what_a_prompt_shows_is_read_back() -> None:
    """Ids, kinds, paths, entities and texts survive the way through a prompt, in both orders."""
    turn = turn_block(Turn(task="where is <memory> written?"))
    for order in ("memory_first", "turn_first"):
        request = judging_request(ENTRIES, turn, PromptOptions(model="m", max_output_tokens=9, order=order))
        shown = {memory.id: memory for memory in shown_memories("\n\n".join(request.content))}
        assert set(shown) == {"ka", "qe", "mu"} == set(request.reply_ids)
        for entry in ENTRIES:
            memory = shown[entry.code_id]
            assert (memory.kind, memory.path, memory.entity, memory.text) == (
                entry.kind,
                entry.path,
                entry.entity,
                entry.text,
            )
            assert content_hash(memory.path, memory.entity, memory.text) == content_hash(
                entry.path, entry.entity, entry.text
            )


def test_the_turn_is_what_stands_around() -> None:
    """The turn is found without any word of the memories."""
    request = judging_request(
        ENTRIES, turn_block(Turn(task="fix the cache")), PromptOptions(model="m", max_output_tokens=9)
    )
    around = text_around_memories("\n\n".join(request.content))
    assert "fix the cache" in around
    assert "never spaces" not in around
