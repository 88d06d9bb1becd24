"""A small model judges every memory of a repository against the task; one strong call gets exactly what matters."""
