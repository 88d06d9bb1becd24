"""Serve a dialect until killed; the first line on stdout is the base URL."""

import argparse
import threading

from tests.servers import AnthropicServer, LoopbackServer, OpenAIServer

DIALECTS: dict[str, type[LoopbackServer]] = {"openai": OpenAIServer, "anthropic": AnthropicServer}


def main() -> None:
    """Serve in this process, so that another one can be measured alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialect", choices=DIALECTS, default="openai")
    parser.add_argument("--latency-s", type=float, default=0.0)
    options = parser.parse_args()
    with DIALECTS[options.dialect](latency_s=options.latency_s, keep_bodies=False) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
