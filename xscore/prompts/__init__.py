"""What models are shown: records in, text out."""
