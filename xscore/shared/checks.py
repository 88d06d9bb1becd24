"""What `doctor` says of the shared server: whether it answers, what it is, and what is shared on it.

It is asked once, within its deadline; nothing is claimed and nothing is kept.
"""

import asyncio
from contextlib import suppress

from xscore.errors import SharedUnavailable, UsageError
from xscore.records import Finding
from xscore.settings.offline import SharedSettings
from xscore.shared.connect import opener

ASPECT = "shared server"


async def look(settings: SharedSettings) -> list[Finding]:
    """Return one finding where a server is named, none where nothing is shared."""
    if not settings.url.get_secret_value():
        return []
    try:
        server = opener(settings)()
    except UsageError as error:
        return [Finding(ASPECT, False, error.message, error.hint)]
    try:
        async with asyncio.timeout(settings.timeout_s):
            what = await server.check()
    except TimeoutError:
        said = f"{server.name} did not answer within {settings.timeout_s:g} s"
        return [Finding(ASPECT, False, said, "See what keeps it, or raise shared.timeout_s.")]
    except SharedUnavailable as error:
        return [Finding(ASPECT, False, error.message, error.hint)]
    finally:
        with suppress(SharedUnavailable):
            await server.aclose()
    away = "a run stops without it" if settings.require else "a run goes on without it"
    cap = f"; at most ${settings.max_usd_day:f} a day over all" if settings.max_usd_day is not None else ""
    return [Finding(ASPECT, True, f"{server.name}: {what}; tenant {settings.tenant}{cap}; {away}")]
