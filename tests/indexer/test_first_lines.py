"""Scripts that are known by their first line."""

import pytest

from tests.indexer.conftest import pieces_of
from xscore.indexer.first_lines import language_of_file


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("#!/usr/bin/env -S uv run --script", "python"),
        ("#!/usr/bin/python3.11 -u", "python"),
        ("#! /usr/bin/env PYTHONPATH=. python", "python"),
        ("#!/usr/bin/env node", "javascript"),
        ("#!/usr/bin/env -S deno run --allow-net", "typescript"),
        ("#!/bin/sh", "shell"),
        ("#!/usr/bin/env bash", "shell"),
        ("#!/usr/bin/ruby2.7", "ruby"),
        ("#!/usr/bin/perl", "text"),
        ("#!" + " /x/python-not" * 20, "text"),
        ("#!", "text"),
        ("# !/bin/sh", "text"),
    ],
)
def test_a_script_is_known_by_its_interpreter(line: str, language: str) -> None:
    """Options, versions, variables and runners around it are passed over; without one a file is
    text."""
    assert language_of_file("bin/tool", line + "\nx = 1\n").name == language


def test_a_name_that_tells_is_believed() -> None:
    """The suffix decides where there is one."""
    assert language_of_file("a.rb", "#!/bin/sh\n").name == "ruby"


def test_a_script_is_cut_into_its_functions() -> None:
    """Without a suffix, too: functions, and a block of the rest."""
    text = (
        "#!/usr/bin/env python3\nimport sys\n\n\ndef run(x):\n    return x\n\n\nrun(sys.argv)\n"
    )
    assert "run" in pieces_of("bin/tool", text)


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("SConstruct", "python"),
        ("src/SConscript", "python"),
        ("wscript", "python"),
        ("tools/defs.bzl", "python"),
        ("gpu/kernel.cu", "cpp"),
        ("blink/blink.ino", "cpp"),
        ("Jenkinsfile", "groovy"),
        ("Vagrantfile", "ruby"),
    ],
)
def test_names_of_build_files_tell_their_language(path: str, language: str) -> None:
    """Files without a suffix of their own language are read as what they are."""
    assert language_of_file(path, "").name == language
