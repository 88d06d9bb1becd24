"""`xscore check`: what is found, what is silent, and what the command prints and ends with."""

import json
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git, write_files
from tests.extensions.checking.conftest import CACHE, FILES, Run, append, commit_files

RENAMED = CACHE.replace("drop_entry", "forget_entry")


def found(run: Run, root: Path, *arguments: str, stdin: str = "") -> list[dict[str, object]]:
    """Return the findings of a check as its JSON has them."""
    done = run("check", "--json", *arguments, cwd=root, stdin=stdin)
    assert done.returncode == 0, done.stderr
    findings: list[dict[str, object]] = json.loads(done.stdout)["findings"]
    return findings


def test_a_document_that_names_what_is_gone_comes_first(repo: Path, xscore: Run) -> None:
    """The document is named with its line; the changelog may name it, and so is not."""
    (repo / "shop/cache.py").write_text(RENAMED)
    findings = found(xscore, repo, "--all")
    assert (findings[0]["kind"], findings[0]["path"]) == ("stale-document", "docs/cache.md")
    assert findings[0]["line"] == 3
    assert "drop_entry" in str(findings[0]["reasons"])
    assert "CHANGELOG.md" not in [
        entry["path"] for entry in findings if entry["kind"] == "stale-document"
    ]


@pytest.mark.parametrize(
    ("removed", "document", "is_stale"),
    [
        ("def parse(x):\n    return x\n", "Use `parse` for it.", True),
        ("def parse(x):\n    return x\n", "Do not parse it.", False),
        ("def parse(x):\n    return x\n", "```\nparse(x)\n```", True),
        ('OPTION = "--no-cache"\n', "Say --no-cache to skip it.", True),
        ("MAX_SIZE = 3\n", "MAX_SIZE bounds it.", True),
        ("def kept_name(x):\n    return x\n", "`kept_name` stays.", False),
    ],
)
def test_names_that_count(
    make_repo: MakeRepo, xscore: Run, removed: str, document: str, is_stale: bool
) -> None:
    """Compounds count anywhere, plain words as code alone, and not what other code defines."""
    root = make_repo(
        {
            "a.py": f"import os\n\n\n{removed}",
            "b.py": "def kept_name():\n    return 2\n",
            "docs/a.md": f"# A\n\n{document}\n",
        }
    )
    (root / "a.py").write_text("import os\n")
    stale = [entry for entry in found(xscore, root) if entry["kind"] == "stale-document"]
    assert bool(stale) is is_stale


def test_a_file_that_is_gone_or_moved(repo: Path, xscore: Run) -> None:
    """A document that names its path is stale, and told the new one."""
    git(repo, "mv", "docs/cache.md", "docs/store.md")
    findings = found(xscore, repo)
    assert (findings[0]["path"], findings[0]["line"]) == ("README.md", 3)
    assert "docs/store.md" in str(findings[0]["reasons"])


def test_the_test_that_history_expects(repo: Path, xscore: Run) -> None:
    """The test that changed with the module ten times is listed, with the reason."""
    append(repo, "shop/cache.py", "\n\ndef count():\n    return 2\n")
    findings = found(xscore, repo, "--all")
    assert (findings[0]["kind"], findings[0]["path"]) == ("missing-test", "tests/test_cache.py")
    assert "11 of the 11 commits" in str(findings[0]["reasons"])
    append(repo, "tests/test_cache.py", "\n\ndef test_count():\n    assert True\n")
    assert "tests/test_cache.py" not in [
        entry["path"] for entry in found(xscore, repo, "--all")
    ]


def test_nothing_to_say_says_nothing(repo: Path, xscore: Run) -> None:
    """Without a change, and where nothing is likely to be missing, stdout is empty and the exit
    code 0; the order of files is in the JSON all the same."""
    done = xscore("check", "--exit-code", cwd=repo)
    assert (done.returncode, done.stdout) == (0, "")
    assert xscore("check", "--quiet", cwd=repo).stderr == ""
    (repo / "LICENSE").write_text("Do as you like.\n")
    done = xscore("check", "--exit-code", cwd=repo)
    assert (done.returncode, done.stdout) == (0, "")
    report = json.loads(xscore("check", "--json", cwd=repo).stdout)
    assert report["findings"] == []
    assert len(report["nearest"]) == len(FILES)


def test_it_never_blocks_unless_asked(repo: Path, xscore: Run) -> None:
    """Findings end with 0; with --exit-code they end with 1."""
    (repo / "shop/cache.py").write_text(RENAMED)
    assert xscore("check", "--diff", cwd=repo).returncode == 0
    assert xscore("check", "--diff", "--exit-code", cwd=repo).returncode == 1


def test_a_diff_from_elsewhere(repo: Path, xscore: Run) -> None:
    """A diff on standard input is checked as git's own."""
    (repo / "shop/cache.py").write_text(RENAMED)
    findings = found(xscore, repo)
    diff = git(repo, "diff")
    assert found(xscore, repo, "--diff", "-", stdin=diff) == findings
    hostile = "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-root\n+toor\n"
    done = xscore("check", "--diff", "-", cwd=repo, stdin=hostile)
    assert (done.returncode, done.stdout) == (0, "")
    assert "left out" in done.stderr
    refused = xscore("check", "--diff", "-", cwd=repo, stdin="no diff\n")
    assert refused.returncode == 2


def test_a_stated_reason_silences(repo: Path, xscore: Run, tmp_path: Path) -> None:
    """A trailer with a reason silences the check, in a commit or in the message that a hook has."""
    message = tmp_path / "message"
    message.write_text("Rename\n\nxscore-check: ok\n")
    (repo / "shop/cache.py").write_text(RENAMED)
    done = xscore("check", "--message", str(message), cwd=repo)
    assert "docs/cache.md" in done.stdout
    assert "without a reason" in done.stderr
    message.write_text("Rename\n\nXscore-Check: ok the page follows with the release\n")
    done = xscore("check", "--message", str(message), cwd=repo)
    assert (done.returncode, done.stdout) == (0, "")
    assert "the page follows" in done.stderr
    commit_files(repo, {}, message.read_text())
    assert xscore("check", "--diff", "HEAD~1", cwd=repo).stdout == ""
    assert xscore("check", "--diff", "HEAD~1", "--json", cwd=repo).returncode == 0


def test_a_decision_whose_code_changed(repo: Path, xscore: Run) -> None:
    """A memory that cites changed lines, or names what is gone, is listed with its title."""
    cite = "shop/cache.py:4-6"
    xscore("memory", "add", "Entries are never copied.", "--cite", cite, cwd=repo)
    xscore("memory", "add", "Only drop_entry may forget one.", cwd=repo)
    xscore("memory", "add", "Prices are whole numbers.", cwd=repo)
    assert found(xscore, repo) == []
    changed = RENAMED.replace("return {}[name]", "return dict(name=1)")
    (repo / "shop/cache.py").write_text(changed)
    decisions = [entry for entry in found(xscore, repo) if entry["kind"] == "stale-decision"]
    assert len(decisions) == 2
    assert "Prices" not in json.dumps(decisions)
    assert "shop/cache.py:4-6" in json.dumps(decisions)


def test_sarif_has_what_the_standard_demands(repo: Path, xscore: Run) -> None:
    """Version, tool, rules, and for each result a rule, a message and a place."""
    (repo / "shop/cache.py").write_text(RENAMED)
    xscore("memory", "add", "Only drop_entry may forget one.", cwd=repo)
    log = json.loads(xscore("check", "--format", "sarif", "--all", cwd=repo).stdout)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert log["version"] == "2.1.0"
    assert run["results"][0]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "docs/cache.md"},
        "region": {"startLine": 3},
    }
    assert len({json.dumps(entry["partialFingerprints"]) for entry in run["results"]}) == len(
        run["results"]
    )
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("warning", "note")
        assert result["message"]["text"]
    git(repo, "checkout", "-q", ".")
    quiet = json.loads(xscore("check", "--format", "sarif", cwd=repo).stdout)
    assert quiet["runs"][0]["results"] == []


def test_markdown_shows_names_as_they_are(make_repo: MakeRepo, xscore: Run) -> None:
    """A name of the tree can neither format the comment nor mention anyone."""
    root = make_repo({"a.py": "def get_it(x):\n    return x\n", "@you <b>.md": "Use get_it.\n"})
    (root / "a.py").write_text("")
    text = xscore("check", "--format", "markdown", cwd=root).stdout
    assert "\\@you \\<b\\>.md" in text
    git(root, "checkout", "-q", ".")
    assert xscore("check", "--format", "markdown", cwd=root).stdout == ""


def test_secrets_of_a_diff_are_not_shown(make_repo: MakeRepo, xscore: Run) -> None:
    """A removed secret that a document repeats is redacted in the reason."""
    secret = "ghp_" + "A1b2C3d4E5" * 3 + "F6g7H8"
    root = make_repo({"a.py": f'TOKEN = "{secret}"\n', "docs/a.md": f"It was {secret}.\n"})
    (root / "a.py").write_text("TOKEN = read()\n")
    done = xscore("check", "--json", cwd=root)
    assert secret not in done.stdout + done.stderr


def test_one_commit_and_a_plain_folder(
    make_repo: MakeRepo, xscore: Run, tmp_path: Path
) -> None:
    """Little or no history is no error."""
    root = make_repo(FILES)
    append(root, "shop/cache.py", "# more\n")
    assert xscore("check", cwd=root).returncode == 0
    plain = tmp_path / "plain"
    write_files(plain, FILES)
    diff = git(root, "diff")
    assert xscore("check", "--diff", "-", cwd=plain, stdin=diff).returncode == 0
    assert xscore("check", cwd=plain).returncode == 2


def test_a_shallow_clone_says_so(repo: Path, xscore: Run, tmp_path: Path) -> None:
    """History that was not cloned is not mistaken for none."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repo}", str(clone))
    append(clone, "shop/cache.py", "# more\n")
    done = xscore("check", cwd=clone)
    assert (done.returncode, "shallow" in done.stderr) == (0, True)
    assert "shallow" not in xscore("check", cwd=repo).stderr
