"""The vendor of a job: the one that it was planned for, whatever judge the settings name today."""

from xscore.cache import capabilities
from xscore.errors import UsageError
from xscore.memory.store import Store
from xscore.offline.job_rows import Job
from xscore.providers.batch_host import BatchHost
from xscore.providers.batches import batch_host
from xscore.providers.spec import parse
from xscore.safe_text import one_line
from xscore.settings import Settings


def host_of(store: Store, settings: Settings, job: Job) -> BatchHost:
    """Return the Batch API of a job's judge; nothing is sent yet.

    Raises UsageError where the settings lead to another host now, AuthenticationFailed where there is no key for it.
    """
    recipe = job.recipe
    host = batch_host(parse(job.judge_spec), settings)
    if host.host != recipe.host:
        raise UsageError(
            f"job {job.id} is at {one_line(recipe.host)}, and {one_line(host.name)} leads to {one_line(host.host)} now",
            hint=f"Set {host.name}.base_url as it was when the job was submitted.",
        )
    known = capabilities.remembered(
        store.connection, provider=recipe.provider, host=recipe.host, model=recipe.model.name
    )
    if known is not None:
        host.adopt(known)
    return host
