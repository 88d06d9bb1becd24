"""The frozen structs that cross every module boundary, with their invariants. No I/O, no clock.

Conventions: times are Unix seconds; intervals include their start and exclude their end; lines
count from 1, both ends included; paths are relative to the root; a judge is `provider:model` or
`lexical`. An empty string or None means none or unknown: a cost of None is unpriced.
"""
