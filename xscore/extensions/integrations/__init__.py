"""xscore inside other frameworks: each module is one of theirs, needs their package, and is
imported by their users.

Not here: inspect_ai and promptfoo. Their scorers grade one output of a model against a target: that
is not a list to judge, and their own graders do it. Trade-off: what a framework cannot show
(receipts, causes) goes into metadata.
"""
