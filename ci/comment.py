"""One comment at a pull request: made once, then changed in place, so that it never becomes a second one.

It is found by a mark that no reader sees, in a comment of whoever the token is. That it cannot be written never fails
the job: a fork's token may not. What it says, `write_report` decides. Trade-off: a pull request is searched page by
page, since GitHub finds no comment by its text.
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
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from ci.event import event
from ci.runner import annotate, given, note

A_PAGE = 100
MOST_PAGES = 50
TIMEOUT_S = 30
REFUSED = (401, 403, 404, 410)
"""The token may not, or there is no such pull request any more."""


class Api:
    """The few paths of GitHub's REST API that this needs, with the token of the job."""

    def __init__(self, url: str, token: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"GITHUB_API_URL is no web address: {url!r}")
        self._url = url.rstrip("/")
        self._token = token
        self._opener = _without_redirects()

    def one(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request that is answered by an object. Raises OSError, HTTPException, ValueError."""
        found = self._call(method, path, body)
        if not isinstance(found, dict):
            raise ValueError(f"no object came from {path}")
        return found

    def many(self, path: str) -> list[dict[str, Any]]:
        """Ask for a list of objects. Raises OSError, HTTPException, ValueError."""
        found = self._call("GET", path)
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise ValueError(f"no list of objects came from {path}")
        return found

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = Request(  # noqa: S310  only http and https, see above
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


def main() -> int:
    """Write the comment where it is possible; always 0."""
    number, token = event().own_pull_request, given("TOKEN")
    if not (number and token):
        note("no comment: there is no pull request of this repository, or no token")
        return 0
    text = body(Path(given("MARKDOWN")).read_text("utf-8"), mark(), _run_address())
    try:
        keep(Api(os.environ["GITHUB_API_URL"], token), os.environ["GITHUB_REPOSITORY"], number, mark(), text)
    except HTTPError as error:
        if error.code in REFUSED:
            note(f"no comment: GitHub answers {error.code}; it needs the permission `pull-requests: write`")
        else:
            annotate("warning", "xscore: no comment", f"GitHub answers {error.code}.")
    except (OSError, HTTPException, ValueError) as error:
        annotate("warning", "xscore: no comment", f"GitHub could not be reached: {error}")
    return 0


def keep(api: Api, repository: str, number: int, mark: str, text: str) -> None:
    """Change our comment at this pull request, or make it. Raises as `Api.one` does."""
    ours = _find(api, f"/repos/{repository}/issues/{number}/comments", mark, _me(api))
    if ours is None:
        api.one("POST", f"/repos/{repository}/issues/{number}/comments", {"body": text})
    else:
        api.one("PATCH", f"/repos/{repository}/issues/comments/{ours}", {"body": text})


def body(markdown: str, mark: str, address: str) -> str:
    """Return the comment: the mark, the report, and where the rest is."""
    return f"{mark}\n{markdown.strip()}\n\n[The run, with the page]({address})\n"


def mark() -> str:
    """What the comment of this job begins with; of each job there is one."""
    named = re.sub(r"[^A-Za-z0-9_.]+", ".", f"{given('GITHUB_WORKFLOW')}.{given('GITHUB_JOB')}")
    return f"<!-- xscore {named} -->"


def _find(api: Api, path: str, mark: str, me: str | None) -> str | None:
    for page in range(1, MOST_PAGES + 1):
        comments = api.many(f"{path}?per_page={A_PAGE}&page={page}")
        for comment in comments:
            if str(comment.get("body") or "").startswith(mark) and _is_mine(comment.get("user") or {}, me):
                return str(comment.get("id"))
        if len(comments) < A_PAGE:
            break
    return None


def _is_mine(user: dict[str, Any], me: str | None) -> bool:
    """Whether a comment is ours: anyone can write our mark, and a person's comment is not to be changed."""
    return user.get("type") == "Bot" if me is None else user.get("login") == me


def _me(api: Api) -> str | None:
    """Who the token is; None: the token of a job or an app, which is not told and writes as a bot."""
    try:
        return str(api.one("GET", "/user").get("login"))
    except HTTPError as error:
        if error.code in REFUSED:
            return None
        raise


def _run_address() -> str:
    parts = (
        os.environ["GITHUB_SERVER_URL"],
        os.environ["GITHUB_REPOSITORY"],
        "actions/runs",
        os.environ["GITHUB_RUN_ID"],
    )
    return "/".join(parts)


class _NoRedirect(HTTPRedirectHandler):
    """Follow no one: the token would go along."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Return no request, so that the redirection is an error."""


def _without_redirects() -> OpenerDirector:
    return build_opener(_NoRedirect)


if __name__ == "__main__":
    sys.exit(main())
