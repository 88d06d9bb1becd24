"""`xscore eval compare` as a user runs it: files, variants at a loopback host, recordings, caps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, xscore
from tests.conftest import MakeRepo, store_dir
from tests.extensions.evaluation.history_repo import write_history
from tests.extensions.evaluation.shop_run import SCORES
from tests.pipeline.conftest import FILES
from tests.servers.decision_server import DecisionServer
from tests.servers.embedding_server import EmbeddingServer
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table

__all__ = ["xscore"]

CASES = [
    {
        "id": "twice",
        "task": "The discount of total is taken twice; take it once.",
        "gold": [
            {"path": "shop/prices.py", "name": "total"},
            {"path": "shop/prices.py", "name": "discount"},
        ],
    },
    {
        "id": "cart",
        "task": "Where does the cart ask for its sum?",
        "gold": [{"path": "shop/cart.py", "name": "Cart.checkout"}],
    },
    {"id": "none", "task": "Why does the printer jam?", "gold": []},
]


@pytest.fixture
def repo(make_repo: MakeRepo, tmp_path: Path) -> Path:
    """The shop, with cases next to it."""
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES))
    return make_repo(FILES)


@pytest.fixture
def host(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A host that scores the questions about the shop, as the environment names it."""
    server.score = table(SCORES)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("XSCORE_JUDGE_MODEL", "openai:judge-2")
    monkeypatch.setenv("XSCORE_JUDGE_PROBE", "false")
    yield server


def compared(run: Run, repo: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run the command with the cases; return its JSON."""
    done = run(
        "eval",
        "compare",
        *arguments,
        "--cases",
        str(repo.parent / "cases.jsonl"),
        "--json",
        cwd=repo,
    )
    assert done.returncode == code, done.stderr
    body = json.loads(done.stdout)
    return dict(body)


def recall(body: dict[str, Any]) -> dict[str, Any]:
    """The paired recall of the first comparison."""
    (comparison,) = body["comparisons"]
    return dict(comparison["overall"]["recall"])


def test_two_files_are_compared_without_a_repository(xscore: Run, tmp_path: Path) -> None:
    """Nothing is opened: no store is made."""
    ranked = {"recall": 0.5, "precision": 0.5, "hit": 1.0, "reciprocal_rank": 0.5, "ndcg": 0.7}
    for name, share in (("a", 0.5), ("b", 1.0)):
        quality = {"chosen": {**ranked, "recall": share}, "ranked": ranked, "kept": 2.0}
        line = {"id": "1", "query": "why?", "judge": quality, "kept": 2}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    done = xscore("eval", "compare", "a.jsonl", "b.jsonl", "-o", "p.html", cwd=tmp_path)
    assert done.returncode == 0 and "+0.500" in done.stdout
    assert "<title>xscore report" in (tmp_path / "p.html").read_text()
    assert not (tmp_path / ".xscore").exists()
    rewritten = xscore("eval", "compare", "a.jsonl", "b.jsonl", "-o", "p.html", cwd=tmp_path)
    assert rewritten.returncode == 0
    (tmp_path / "mine.html").write_text("<p>mine")
    foreign = xscore("eval", "compare", "a.jsonl", "b.jsonl", "-o", "mine.html", cwd=tmp_path)
    assert foreign.returncode == 2 and (tmp_path / "mine.html").read_text() == "<p>mine"


def test_a_change_of_boosts_costs_nothing_more(
    xscore: Run, repo: Path, host: OpenAIServer
) -> None:
    """Both variants read the same judgments: the second sends no request."""
    body = compared(xscore, repo, "now", "boosts=off")
    requests = host.counts.judging_requests
    assert requests > 0 and body["spent_usd"] == "0"
    assert recall(body)["cases"] == 2
    compared(xscore, repo, "now", "boosts=off,threshold=0.9")
    assert host.counts.judging_requests == requests


def test_each_size_of_packs_is_judged(xscore: Run, repo: Path, host: OpenAIServer) -> None:
    """Judgments of one size are not taken for those of another; a second run asks nothing."""
    compared(xscore, repo, "pack=4", "pack=8")
    requests = host.counts.judging_requests
    assert requests >= 2 * len(CASES)
    compared(xscore, repo, "pack=4", "pack=8")
    assert host.counts.judging_requests == requests
    compared(xscore, repo, "pack=4", "pack=2")
    assert host.counts.judging_requests > requests


def test_a_recording_answers_without_the_host(
    xscore: Run, repo: Path, host: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded once, replayed elsewhere: another store, no key, no host, the same figures; nothing
    is in the ledger."""
    recording = tmp_path / "recording"
    first = compared(xscore, repo, "now", "pack=2", "--record", str(recording))
    requests = host.counts.requests
    assert requests > 0 and (recording / "replies.jsonl").stat().st_mode & 0o077 == 0
    repeated = compared(xscore, repo, "now", "pack=2", "--record", str(recording))
    assert host.counts.requests == requests and repeated["comparisons"] == first["comparisons"]
    for file in store_dir(repo).iterdir():
        file.unlink()
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("XSCORE_JUDGE_PROBE")
    replayed = compared(xscore, repo, "now", "pack=2", "--replay", str(recording))
    assert replayed["comparisons"] == first["comparisons"]
    assert host.counts.requests == requests and replayed["spent_usd"] == "0"
    spent = xscore("report", "--json", cwd=repo)
    assert json.loads(spent.stdout)["spent"]["calls"] == 0


def test_a_request_that_is_not_recorded_is_named(
    xscore: Run, repo: Path, host: OpenAIServer, tmp_path: Path
) -> None:
    """A replay never asks the host for what it lacks."""
    recording = str(tmp_path / "recording")
    compared(xscore, repo, "now", "boosts=off", "--record", recording)
    requests = host.counts.requests
    done = xscore(
        *("eval", "compare", "now", "pack=2", "--replay", recording),
        *("--cases", str(repo.parent / "cases.jsonl")),
        cwd=repo,
    )
    assert done.returncode == 3 and "holds no reply" in done.stderr
    assert host.counts.requests == requests


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["now", "pakc=3"], "pack"),
        (["now", "pack=0"], "pack="),
        (["now", "draws=3"], "draws"),
        (["now", "rubric=mine"], "rubric"),
        (["now", "nonsense"], "variant"),
        (["now", "missing.jsonl"], "missing.jsonl"),
        (["now", "pack=2", "--replay", "nowhere"], "nowhere"),
        (["now", "pack=2", "--replay", "a", "--record", "b"], "--record"),
        (["now", "pack=2", "--output", "page.csv"], "page.csv"),
    ],
)
def test_what_is_no_variant_is_refused(
    xscore: Run, repo: Path, arguments: list[str], words: str
) -> None:
    """The word that is wrong is named; nothing is sent or made."""
    done = xscore(
        *("eval", "compare", *arguments, "--cases", str(repo.parent / "cases.jsonl")), cwd=repo
    )
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert not store_dir(repo).exists()


def test_a_variant_needs_cases(xscore: Run, repo: Path) -> None:
    """Without --cases the way to some is named."""
    done = xscore("eval", "compare", "now", "pack=2", cwd=repo)
    assert done.returncode == 2 and "eval mine" in done.stderr


def test_the_cost_is_said_before_anything_is_sent(
    xscore: Run, repo: Path, host: OpenAIServer
) -> None:
    """With a cap of nothing: both estimates, and no request."""
    done = xscore(
        *("eval", "compare", "pack=2", "pack=4", "--cases", str(repo.parent / "cases.jsonl")),
        cwd=repo,
    )
    before, _, _ = done.stderr.partition("judging")
    assert "pack=2: " in before and "pack=4: " in before and "calls" in before


def test_the_missed_gold_is_explained(xscore: Run, repo: Path, host: OpenAIServer) -> None:
    """The worst case has what `explain` says of what was missed."""
    body = compared(xscore, repo, "now", "boosts=off")
    (comparison,) = body["comparisons"]
    (worst,) = comparison["worst"]
    assert worst["id"] == "cart" and "threshold" in worst["misses"][0]["why"]


def test_single_draws_are_judged_apart(
    xscore: Run, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision model is asked twice near its threshold, and once by `draws=1`: without a
    recording each variant pays for its own, with one no answer is paid twice."""
    with DecisionServer(score=table({"shop/prices.py::total": 69})) as host:
        monkeypatch.setenv("DECISIONS_BASE_URL", host.url)
        monkeypatch.setenv("XSCORE_JUDGE_MODEL", "decisions:judge-2")
        recording = str(tmp_path / "recording")
        first = compared(
            xscore, repo, "boosts=off", "boosts=off,draws=1", "--record", recording
        )
        # Twice for each of three tasks; the single draw is the first of them, from the recording.
        assert host.judged["shop/prices.py::total"] == 6
        compared(xscore, repo, "boosts=off", "boosts=off,draws=1")
        assert host.judged["shop/prices.py::total"] == 6 + 9
        requests = host.requests
        replayed = compared(
            xscore, repo, "boosts=off", "boosts=off,draws=1", "--replay", recording
        )
        assert replayed["comparisons"] == first["comparisons"] and host.requests == requests


def test_mined_cases_are_compared_at_their_parents(xscore: Run, tmp_path: Path) -> None:
    """Each variant sees the files before the commit; what it missed is explained there; the lines
    of `eval run` are compared with a variant."""
    history = write_history(tmp_path / "repo")
    script = {
        "rules": [{"entity": "discount", "score": 0.6}, {"entity": "total", "score": 0.9}]
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    judge = ("--judge", f"scripted:{tmp_path / 'script.json'}")
    cases = str(tmp_path / "cases.jsonl")
    assert xscore("eval", "mine", "--out", cases, cwd=history).returncode == 0
    body = compared(xscore, history, "threshold=0.5", "now", *judge)
    (comparison,) = body["comparisons"]
    assert comparison["cases"] == 2 and comparison["overall"]["recall"]["worse"] == 1
    worst = comparison["worst"][0]
    assert worst["misses"][0]["name"] == "discount" and "threshold" in worst["misses"][0]["why"]
    lines = str(tmp_path / "lines.jsonl")
    assert xscore("eval", "run", cases, "--out", lines, *judge, cwd=history).returncode == 0
    against_file = compared(xscore, history, lines, "now", *judge)
    assert recall(against_file)["worse"] == 0


def test_every_memory_judged_is_compared_with_cosines_at_equal_k(
    xscore: Run, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cosine` keeps the nearest K by the embedder, calls no judge, and waits for all vectors."""
    with EmbeddingServer() as host:
        host.score = table(SCORES)
        monkeypatch.setenv("OPENAI_BASE_URL", host.url)
        monkeypatch.setenv("XSCORE_JUDGE_MODEL", "openai:judge-2")
        monkeypatch.setenv("XSCORE_JUDGE_PROBE", "false")
        monkeypatch.setattr("xscore.extensions.vectors.turn_likeness.TURN_WAIT_S", 0.0)
        embedder = "embedding.model=openai:vectors-1"
        body = compared(xscore, repo, "k=2", f"cosine,k=2,{embedder}")
        judged = host.counts.judging_requests
        assert judged > 0 and len(host.embedded) > 5
        by_cosine = recall(body)["b"]
        larger_k = compared(xscore, repo, f"cosine,k=2,{embedder}", f"cosine,k=30,{embedder}")
        assert host.counts.judging_requests == judged
        # The same scores under another K: that of one variant, and all there is.
        assert recall(larger_k)["a"] == by_cosine < recall(larger_k)["b"] == 1.0


def test_cosines_need_an_embedder(xscore: Run, repo: Path) -> None:
    """Words alone are no baseline of meaning: it is said what to set."""
    words = ("eval", "compare", "judge=lexical", "cosine", "--cases")
    done = xscore(*words, str(repo.parent / "cases.jsonl"), cwd=repo)
    assert done.returncode == 2 and "embedding.model" in done.stderr
