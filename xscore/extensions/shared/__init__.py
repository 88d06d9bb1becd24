"""Share judgments, rate limits and dollars over Redis or PostgreSQL, and a team's memories."""
