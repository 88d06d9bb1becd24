"""Export and import memories and judgments; snapshots and checkpoints."""
