"""One turn from task to answer; `build` and its factories alone choose concrete classes."""
