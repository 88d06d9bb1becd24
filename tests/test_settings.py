"""Settings are layered, typos are refused, and a clone's file cannot reach a user's money or
source."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta

import xscore
from xscore.platform.errors import UsageError
from xscore.records.memory import Kind, Layer
from xscore.settings import Secret, Settings, load_settings, repository_may_set, setting_names
from xscore.settings.accepted import describe_accepted


def write(path: Path, text: str) -> Path:
    """Write a settings file."""
    path.write_text(text)
    return path


def test_later_sources_win_and_say_where_a_value_came_from(tmp_path: Path) -> None:
    """Defaults < user file < repository file < environment < flags, and each value has its
    source."""
    user = write(
        tmp_path / "user.toml",
        "[selection]\nthreshold = 0.6\ntop_k = 5\nmin_keep = 1\n[judge]\nrpm = 100\n",
    )
    write(tmp_path / ".xscore.toml", "[selection]\nthreshold = 0.65\ntop_k = 6\n")
    loaded = load_settings(
        repo_root=tmp_path,
        user_file=user,
        environ={"XSCORE_SELECTION_TOP_K": "7"},
        flags={"judge.model": "lexical", "judge.tpm": None},
    )
    assert loaded.settings.selection.threshold == 0.65
    assert loaded.settings.selection.top_k == 7
    assert loaded.settings.judge.rpm == 100
    assert loaded.origins["selection.threshold"] == ".xscore.toml"
    assert loaded.origins["selection.top_k"] == "environment XSCORE_SELECTION_TOP_K"
    assert loaded.origins["selection.min_keep"] == str(user)
    assert loaded.origins["judge.model"] == "flag"
    assert loaded.origins["judge.tpm"] == "default"


@pytest.mark.parametrize(
    "line",
    [
        '[openai]\nbase_url = "http://evil.example/v1"',
        '[judge]\nmodel = "openai:expensive"',
        "[budget]\nmax_usd = 1000",
        "[judge]\nrpm = 100000",
        "[store]\ntrust = true",
        "[telemetry]\notel = true",
        '[primary]\nmodel = "evil:thing"',
    ],
)
@pytest.mark.parametrize("name", [".xscore.toml", "pyproject.toml"])
def test_a_repository_cannot_redirect_or_spend(tmp_path: Path, line: str, name: str) -> None:
    """Hosts, models, keys, budgets, limits and trust in a clone's file are ignored and reported."""
    text = line.replace("[", "[tool.xscore.") if name == "pyproject.toml" else line
    write(tmp_path / name, text)
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert loaded.settings == Settings()
    assert len(loaded.warnings) == 1
    assert name in loaded.warnings[0]


def test_a_misspelt_name_is_an_error_everywhere(tmp_path: Path) -> None:
    """A typo is reported with its source and the valid names, since no command can list them
    meanwhile."""
    user = write(tmp_path / "user.toml", "[judge]\nmodle = 'lexical'\n")
    with pytest.raises(UsageError, match=r"user\.toml: .*`judge\.modle`") as caught:
        load_settings(repo_root=None, user_file=user, environ={})
    assert caught.value.hint.startswith("[judge] has ") and " model," in caught.value.hint
    write(tmp_path / ".xscore.toml", "[selction]\nthreshold = 0.5\n")
    with pytest.raises(UsageError, match=r"\.xscore\.toml: there is no setting") as caught:
        load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert " selection," in caught.value.hint


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1.5", "much"])
def test_values_out_of_range_are_refused_with_their_source(value: str) -> None:
    """A threshold outside 0..1, or NaN, is a usage error that names the variable."""
    with pytest.raises(UsageError, match="XSCORE_SELECTION_THRESHOLD"):
        load_settings(
            repo_root=None, user_file=None, environ={"XSCORE_SELECTION_THRESHOLD": value}
        )


def test_a_threshold_is_a_number_or_a_table_by_kind(tmp_path: Path) -> None:
    """Each kind of memory may have its own, in a file or the environment; an unknown kind is
    refused."""
    table = "[selection.threshold]\ncode = 0.7\n'typesafe/doc' = 0.6\n"
    read = load_settings(
        repo_root=None, user_file=write(tmp_path / "user.toml", table), environ={}
    )
    assert read.settings.selection.threshold == {"code": 0.7, "typesafe/doc": 0.6}
    every = ",".join(f"{kind}=0.5" for kind in (*Kind, "default", "code"))
    read = load_settings(
        repo_root=None, user_file=None, environ={"XSCORE_SELECTION_THRESHOLD": every}
    )
    assert read.settings.selection.threshold == dict.fromkeys((*Kind, "default", "code"), 0.5)
    flags = {"selection.threshold": "0.4"}
    read = load_settings(
        repo_root=None, user_file=tmp_path / "user.toml", environ={}, flags=flags
    )
    assert read.settings.selection.threshold == 0.4
    for wrong in ("docs=0.5", "doc=1.5", "doc=much"):
        with pytest.raises(UsageError, match="XSCORE_SELECTION_THRESHOLD"):
            load_settings(
                repo_root=None, user_file=None, environ={"XSCORE_SELECTION_THRESHOLD": wrong}
            )


def test_a_key_comes_from_the_environment_only_and_is_never_shown(tmp_path: Path) -> None:
    """P01: the key is masked when settings are printed, and refused in a file."""
    loaded = load_settings(
        repo_root=None, user_file=None, environ={"OPENAI_API_KEY": "k-123456"}
    )
    assert loaded.settings.openai.api_key.reveal() == "k-123456"
    assert "k-123456" not in repr(loaded)
    user = write(tmp_path / "user.toml", "[openai]\napi_key = 'k-1'\n")
    with pytest.raises(UsageError, match="api_key") as caught:
        load_settings(repo_root=None, user_file=user, environ={})
    assert "k-1" not in str(caught.value)
    assert loaded.settings.openai.api_key != Secret("")


def test_flags_as_text_are_validated_too() -> None:
    """`--max-usd` is parsed exactly from text."""
    loaded = load_settings(
        repo_root=None, user_file=None, environ={}, flags={"budget.max_usd": "0.10"}
    )
    assert loaded.settings.budget.max_usd == Decimal("0.10")
    with pytest.raises(UsageError, match="flag"):
        load_settings(
            repo_root=None, user_file=None, environ={}, flags={"budget.max_usd": "ten"}
        )


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("selection.threshold", "abc", "accepts a number from 0 to 1"),
        (
            "bundle.ceilings",
            {"projects": 0.1},
            (
                "accepts NAME=VALUE pairs: NAME is one of session, project, user, governance; VALUE"
                " is a number from 0 to 1"
            ),
        ),
        (
            "memory.max_rows",
            {"graph": 0},
            (
                "accepts NAME=VALUE pairs: NAME is one of session, project, user, vector, graph,"
                " governance; VALUE is a whole number from 1 up"
            ),
        ),
        ("selection.top_k", "0", "accepts a whole number from 1 up"),
        ("judge.pack_size", "61", "accepts a whole number from 1 to 60"),
        ("judge.sees", "all", "accepts one of task, full"),
        ("budget.max_usd", "much", "accepts dollars from 0 to 1,000,000"),
        ("budget.deadline_s", "-1", "accepts a number above 0, at most 31,536,000"),
        ("index.git", "maybe", "accepts true or false"),
    ],
)
def test_the_error_says_what_an_option_takes(name: str, value: object, accepted: str) -> None:
    """A wrong value is answered with what is accepted, in words and not in Python's types."""
    with pytest.raises(UsageError) as caught:
        load_settings(
            repo_root=None,
            user_file=None,
            environ={},
            flags={name: value},
            flag_names={name: "--it"},
        )
    assert (caught.value.message, caught.value.hint) == (f"--it {accepted}", f"It sets {name}.")
    with pytest.raises(UsageError, match=f"{name} {accepted}"):
        load_settings(repo_root=None, user_file=None, environ={}, flags={name: value})


def test_what_a_repository_may_set_changes_no_destination() -> None:
    """The allow-list holds no host, model, key, budget, limit, deadline or trust."""
    allowed = {name for name in setting_names() if repository_may_set(name)}
    assert {name.split(".")[0] for name in allowed} == {
        "judge",
        "selection",
        "boosts",
        "bundle",
        "index",
        "gates",
    }
    assert {name for name in allowed if name.startswith("judge.")} == {"judge.tests"}
    assert not allowed & {"index.workers", "index.git"}


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5_000], ids=["nested", "huge"])
def test_a_file_made_to_break_the_reader_is_a_clear_message(tmp_path: Path, value: str) -> None:
    """Endless nesting and endless numbers are unreadable files, not bugs; a foreign one is left
    alone."""
    write(tmp_path / "pyproject.toml", f"a = {value}\n")
    assert load_settings(repo_root=tmp_path, user_file=None, environ={}).settings == Settings()
    write(tmp_path / ".xscore.toml", f"a = {value}\n")
    with pytest.raises(UsageError, match=r"\.xscore\.toml cannot be read"):
        load_settings(repo_root=tmp_path, user_file=None, environ={})


def test_settings_files_and_lists_of_globs_are_bounded(tmp_path: Path) -> None:
    """A clone's settings over 1 MB are not read, and more than 1,000 globs are refused; both are
    named."""
    settings_file = write(tmp_path / ".xscore.toml", "# " + "x" * 1_000_000)
    with pytest.raises(UsageError, match=r"\.xscore\.toml .*1,000,000 bytes"):
        load_settings(repo_root=tmp_path, user_file=None, environ={})
    for count in (1_000, 1_001):
        write(settings_file, f"[index]\nexclude = {['*.a'] * count}\n")
        try:
            globs = load_settings(
                repo_root=tmp_path, user_file=None, environ={}
            ).settings.index.exclude
            assert len(globs) == count == 1_000
        except UsageError as error:
            assert count == 1_001 and "index.exclude" in error.message


def test_a_misspelt_variable_is_named_with_the_nearest() -> None:
    """A variable that sets nothing is a warning with the nearest name, and changes nothing."""
    loaded = load_settings(
        repo_root=None,
        user_file=None,
        environ={"XSCORE_JUDGE_MODLE": "lexical", "XSCOREX": "1"},
    )
    (warning,) = loaded.warnings
    assert "XSCORE_JUDGE_MODLE" in warning and warning.endswith("XSCORE_JUDGE_MODEL")
    assert loaded.settings == Settings()


def test_a_size_no_file_can_have_is_refused(tmp_path: Path) -> None:
    """A clone cannot request more bytes than a read allows."""
    write(tmp_path / ".xscore.toml", "[index]\nmax_file_bytes = 99999999999999999999\n")
    with pytest.raises(UsageError, match=r"index\.max_file_bytes"):
        load_settings(repo_root=tmp_path, user_file=None, environ={})


def test_a_broken_file_is_a_clear_message(tmp_path: Path) -> None:
    """Invalid TOML is named by file; an invalid pyproject.toml of another tool is left alone."""
    user = write(tmp_path / "user.toml", "[judge\n")
    with pytest.raises(UsageError, match=r"user\.toml cannot be read"):
        load_settings(repo_root=None, user_file=user, environ={})
    write(tmp_path / "pyproject.toml", "[tool\n")
    assert load_settings(repo_root=tmp_path, user_file=None, environ={}).settings == Settings()


def test_lists_and_tables_fit_into_the_environment() -> None:
    """`a,b` is a list and `name=value,…` a table; an invalid table names its variable."""
    environ = {
        "XSCORE_INDEX_EXCLUDE": "dist/, *.min.js",
        "XSCORE_BUNDLE_CEILINGS": "session=0.5,project=0.1",
    }
    settings = load_settings(repo_root=None, user_file=None, environ=environ).settings
    assert settings.index.exclude == ("dist/", "*.min.js")
    assert settings.bundle.ceilings == {
        "session": 0.5,
        "project": 0.1,
        "user": 0.1,
        "governance": 0.05,
    }
    with pytest.raises(UsageError, match="XSCORE_BUNDLE_CEILINGS"):
        load_settings(
            repo_root=None, user_file=None, environ={"XSCORE_BUNDLE_CEILINGS": "session"}
        )


def test_a_misspelt_layer_is_refused_and_a_layer_not_named_keeps_its_default(
    tmp_path: Path,
) -> None:
    """A table names existing layers, and only changed values."""
    user = write(tmp_path / "user.toml", "[memory.max_rows]\nuser = 9\n")
    rows = load_settings(repo_root=None, user_file=user, environ={}).settings.memory.max_rows
    assert (rows[Layer.USER], rows[Layer.SESSION]) == (9, 20_000)
    for text in ("[memory.max_rows]\nusers = 9\n", "[bundle.ceilings]\nvector = 0.1\n"):
        write(user, text)
        with pytest.raises(UsageError, match=r"user\.toml: (memory|bundle)\."):
            load_settings(repo_root=None, user_file=user, environ={})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BUDGET_MAX_USD", "inf"),
        ("BUDGET_MAX_USD", "-1"),
        ("BUDGET_MAX_USD", "1e9"),
        ("BUDGET_DEADLINE_S", "inf"),
    ],
)
def test_money_and_time_are_bounded(name: str, value: str) -> None:
    """An infinite cap or deadline is refused."""
    with pytest.raises(UsageError, match=f"XSCORE_{name}"):
        load_settings(repo_root=None, user_file=None, environ={f"XSCORE_{name}": value})


def test_a_constant_of_the_program_is_no_setting() -> None:
    """No file can set what is marked `Fixed`."""
    with pytest.raises(UsageError, match="there is no setting"):
        load_settings(repo_root=None, user_file=None, environ={}, flags={"bundle.w_rel": 2})


def test_the_default_model_can_be_chosen() -> None:
    """Naming the default model is a choice: no other model replaces it."""
    flags = {"judge.model": Settings().judge.model}
    assert load_settings(
        repo_root=None, user_file=None, environ={}, flags=flags
    ).settings.judge.is_named
    assert not load_settings(repo_root=None, user_file=None, environ={}).settings.judge.is_named


@pytest.mark.parametrize(
    ("text", "expected"),
    [("yes", True), ("ON", True), ("True", True), ("0", False), ("no", False)],
)
def test_a_switch_in_the_environment(text: str, expected: bool) -> None:
    """A switch accepts the usual words."""
    loaded = load_settings(
        repo_root=None,
        user_file=None,
        environ={"XSCORE_STORE_TRUST": "x", "XSCORE_TRUST_STORE": text},
    )
    assert loaded.settings.store.trust is expected


def test_every_setting_is_read_somewhere() -> None:
    """Every setting is read outside `settings`, so that a forgotten one is noticed."""
    package = Path(xscore.__file__).parent
    sources = [
        path.read_text("utf-8")
        for path in package.rglob("*.py")
        if "settings" not in path.parts
    ]
    unread = [
        name
        for name in setting_names()
        if not any(re.search(rf"\.{name.split('.')[1]}\b", text) for text in sources)
    ]
    assert unread == []


def test_what_of_a_repository_is_not_read_is_said(tmp_path: Path) -> None:
    """A settings file that is a link, or a table in an unreadable file, is ignored with a
    warning."""
    (tmp_path / "other.toml").write_text("[selection]\nthreshold = 0.5\n")
    (tmp_path / ".xscore.toml").symlink_to(tmp_path / "other.toml")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.xscore.selection]\nthreshold = 0.5\n" + "#" * 1_000_000
    )
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert loaded.settings.selection.threshold == 0.7
    assert [".xscore.toml" in loaded.warnings[0], "pyproject.toml" in loaded.warnings[1]] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "key"), [("k-123456\n", "k-123456"), (" k-1\r\n", "k-1"), ("  ", ""), ("\n", "")]
)
def test_blanks_around_a_key_are_no_part_of_it(text: str, key: str) -> None:
    """A key read from a file ends with a line break; one of blanks alone is none."""
    loaded = load_settings(repo_root=None, user_file=None, environ={"OPENAI_API_KEY": text})
    secret = loaded.settings.openai.api_key
    assert (secret.reveal(), bool(secret)) == (key, bool(key))


def test_a_bounded_list_says_its_bound() -> None:
    """The message about a list that is too long says how many texts it may have."""
    bounded = Annotated[tuple[str, ...], Meta(max_length=20)]
    assert describe_accepted(bounded, ()) == "a list of at most 20 texts"
    assert describe_accepted(tuple[str, ...], ()) == "a list of texts"
