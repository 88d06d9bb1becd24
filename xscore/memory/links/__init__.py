"""Ties between memories: what remembered text names, and questions over the edges."""
