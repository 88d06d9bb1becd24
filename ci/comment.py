"""One comment at a pull request: made once, then changed in place, so that it never becomes a
second one.

It is found by a mark that no reader sees, in a comment by the token's owner. That it cannot be
written never fails the job: a fork's token may not. What it says, `write_report` decides.
Trade-off: a pull request is searched page by page, since GitHub finds no comment by its text.
"""

import json
import os
import re
import sys
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ci.runner import annotate, given, is_check, note, own_pull_request

A_PAGE = 100
MOST_PAGES = 50
TIMEOUT_S = 30
NOTHING_LEFT = "Nothing seems to be missing from this change any more."
"""What an earlier comment says where a check finds nothing; no new one says it."""
REFUSED = (401, 403, 404, 410)
"""The token may not, or there is no such pull request any more."""


class Api:
    """GitHub's REST API with the token of the job. Raises OSError, HTTPException, ValueError."""

    def __init__(self, url: str, token: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"GITHUB_API_URL is no web address: {url!r}")
        self._url, self._token = url.rstrip("/"), token
        self._opener = build_opener(_NoRedirect)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send one request; return what it is answered by."""
        request = Request(  # noqa: S310  __init__ refuses every scheme but http and https
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                "User-Agent": "xscore-action",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        with self._opener.open(request, timeout=TIMEOUT_S) as reply:
            return json.load(reply)


class _NoRedirect(HTTPRedirectHandler):
    """Follow no one: the token would go along."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Return no request, so that the redirection is an error."""


def main() -> int:
    """Write the comment where it is possible; always 0."""
    number, token = own_pull_request(), given("TOKEN")
    if not (number and token):
        note("no comment: there is no pull request of this repository, or no token")
        return 0
    server, repository, run = (
        os.environ[f"GITHUB_{name}"] for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    report = Path(given("MARKDOWN")).read_text("utf-8").strip()
    address = f"{server}/{repository}/actions/runs/{run}"
    link = f"[The run]({address})" if is_check() else f"[The run, with the page]({address})"
    if given("TURN_PAGE"):
        link = f"[The map of the question]({given('TURN_PAGE')}) · {link}"
    text = f"{mark()}\n{report or NOTHING_LEFT}\n\n{link}\n"
    try:
        api = Api(os.environ["GITHUB_API_URL"], token)
        keep(api, repository, number, mark(), text, make=bool(report))
    except HTTPError as error:
        if error.code in REFUSED:
            note(
                f"no comment: GitHub answers {error.code}; it needs the permission `pull-requests:"
                " write`"
            )
        else:
            annotate("warning", "xscore: no comment", f"GitHub answers {error.code}.")
    # No answer, or no such one.
    except (OSError, HTTPException, ValueError, TypeError, AttributeError) as error:
        annotate("warning", "xscore: no comment", f"GitHub could not be reached: {error}")
    return 0


def keep(
    api: Api, repository: str, number: int, mark: str, text: str, *, make: bool = True
) -> None:
    """Change our comment at this pull request, or make it.

    make: False: only change one that is there.
    Raises as `Api` does, TypeError or AttributeError.
    """
    ours = _find(api, f"/repos/{repository}/issues/{number}/comments", mark, _me(api))
    if ours is None:
        if not make:
            return
        api.ask("POST", f"/repos/{repository}/issues/{number}/comments", {"body": text})
    else:
        api.ask("PATCH", f"/repos/{repository}/issues/comments/{ours}", {"body": text})


def mark() -> str:
    """What the comment of this job begins with; of each job there is one."""
    named = re.sub(r"[^A-Za-z0-9_.]+", ".", f"{given('GITHUB_WORKFLOW')}.{given('GITHUB_JOB')}")
    return f"<!-- xscore {named} -->"


def _find(api: Api, path: str, mark: str, me: str | None) -> str | None:
    for page in range(1, MOST_PAGES + 1):
        comments = api.ask("GET", f"{path}?per_page={A_PAGE}&page={page}")
        for comment in comments:
            if str(comment.get("body") or "").startswith(mark) and _is_mine(
                comment.get("user") or {}, me
            ):
                return str(comment.get("id"))
        if len(comments) < A_PAGE:
            break
    return None


def _is_mine(user: dict[str, Any], me: str | None) -> bool:
    """Whether a comment is ours: anyone can write our mark, and a person's comment is not to be
    changed."""
    return user.get("type") == "Bot" if me is None else user.get("login") == me


def _me(api: Api) -> str | None:
    """Who the token is; None: the token of a job or an app, which is not told and writes as a
    bot."""
    try:
        return str(api.ask("GET", "/user").get("login"))
    except HTTPError as error:
        if error.code in REFUSED:
            return None
        raise


if __name__ == "__main__":
    sys.exit(main())
