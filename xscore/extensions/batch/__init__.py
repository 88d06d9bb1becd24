"""Lists of questions: judged live, through the vendors' Batch APIs, or on Ray."""
