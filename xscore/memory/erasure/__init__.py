"""Erasing for good: what goes along, the rows, the files, and the proof."""

from xscore.memory.erasure.erasing import Erasure, erase, let_go, preview, wording

__all__ = ["Erasure", "erase", "let_go", "preview", "wording"]
