"""The moment the command began, from which `--deadline` counts.

Python cannot ask when its process began, but it has done little else than compute since, so the processor time so far
is taken back. Trade-off: what start-up waited for the disk is not counted.
"""

import time

BEGAN = time.monotonic() - time.process_time()
"""On the clock of `time.monotonic`."""
