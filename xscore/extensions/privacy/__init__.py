"""What a user may have erased or encrypted, and the proof of it."""
