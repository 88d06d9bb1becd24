"""The steps that bring an older store to today's schema."""
