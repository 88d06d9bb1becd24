"""Everything a plain `ask` does not need.

Each may import the core, none another, and the core imports none.
"""
