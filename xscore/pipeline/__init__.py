"""One turn from task to answer; `build` is the only place that names concrete classes."""
