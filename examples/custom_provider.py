"""A provider: a model of your own, which answers `{"prompt": …}` with `{"text": …}`.

    [project.entry-points."xscore.providers"]
    house = "custom_provider:connect"

Then `xscore ask --judge house:small "…"`; limits, retries, cache and caps are wrapped around it."""

import os

import aiohttp

from xscore.platform.errors import Unreachable
from xscore.providers.provider import OnText
from xscore.records.calls import Completion, Finish, Request, Usage
from xscore.settings import Settings


class House:
    """Makes one attempt a call."""

    name, host = "house", os.environ["HOUSE_HOST"]

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Send one prompt; raise leaves of ProviderError, which say whether to try again."""
        prompt, place = "\n\n".join((request.system, *request.content)), f"http://{self.host}/"
        try:
            async with aiohttp.request("POST", place, json={"prompt": prompt}) as got:
                text = (await got.json())["text"]
        except aiohttp.ClientConnectionError as error:
            raise Unreachable(f"{self.host} cannot be reached", hint="Start it.") from error
        used = Usage(input_tokens=len(prompt) // 4, output_tokens=len(text) // 4)
        return Completion(text=text, finish=Finish.STOP, usage=used, model=request.model)

    async def aclose(self) -> None:
        """Nothing stays open."""


def connect(model: str, settings: Settings) -> House:
    """Return the provider of `house:MODEL`."""
    return House()
