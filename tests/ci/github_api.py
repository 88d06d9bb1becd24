"""A loopback server with the paths of GitHub's REST API for comments: users, and pages of
comments."""

from typing import Any

from aiohttp import web

from tests.servers.threaded_server import ThreadedServer, serve_app

BOT = {"login": "github-actions[bot]", "type": "Bot"}
PERSON = {"login": "ada", "type": "User"}


class GitHubApi(ThreadedServer):
    """The comments of one repository; a test may plan refusals."""

    def __init__(
        self, *, writer: dict[str, str] = BOT, status: int = 200, moved_to: str = ""
    ) -> None:
        super().__init__()
        self.writer = writer
        self.status = status
        """The status that every comment path returns; 200: normal."""
        self.moved_to = moved_to
        self.comments: list[dict[str, Any]] = []
        self.asked: list[str] = []
        """Method and path of each request."""
        self.tokens: set[str] = set()

    @property
    def url(self) -> str:
        """The value of GITHUB_API_URL."""
        return f"http://{self.host}"

    def say(self, user: dict[str, str], body: str) -> None:
        """Add a comment by some user."""
        number = len(self.comments) + 1
        self.comments.append(
            {
                "id": number,
                "user": user,
                "body": body,
                "html_url": f"https://github.invalid/{number}",
            }
        )

    async def serve(self) -> None:
        """Serve the paths."""
        app = web.Application()
        app.router.add_get("/user", self._user)
        app.router.add_get("/repos/someone/shop/issues/5/comments", self._list)
        app.router.add_post("/repos/someone/shop/issues/5/comments", self._create)
        app.router.add_patch("/repos/someone/shop/issues/comments/{id}", self._change)
        await serve_app(self, app)

    async def _user(self, request: web.Request) -> web.Response:
        self._note(request)
        if self.writer["type"] == "Bot":
            return web.json_response(
                {"message": "Resource not accessible by integration"}, status=403
            )
        return web.json_response(self.writer)

    async def _list(self, request: web.Request) -> web.Response:
        self._note(request)
        if self.moved_to:
            raise web.HTTPFound(self.moved_to)
        size, page = int(request.query["per_page"]), int(request.query["page"])
        return self._reply(self.comments[size * (page - 1) : size * page])

    async def _create(self, request: web.Request) -> web.Response:
        self._note(request)
        if self.status == 200:
            self.say(self.writer, (await request.json())["body"])
        return self._reply(self.comments[-1:] and self.comments[-1])

    async def _change(self, request: web.Request) -> web.Response:
        self._note(request)
        comment = self.comments[int(request.match_info["id"]) - 1]
        if self.status == 200:
            comment["body"] = (await request.json())["body"]
        return self._reply(comment)

    def _note(self, request: web.Request) -> None:
        self.asked.append(f"{request.method} {request.path}")
        self.tokens.add(request.headers.get("Authorization", ""))

    def _reply(self, body: object) -> web.Response:
        if self.status != 200:
            return web.json_response({"message": "no"}, status=self.status)
        return web.json_response(body)
