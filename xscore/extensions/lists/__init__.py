"""Judge any list: strings, dicts, frames, or an iterator of any length."""
