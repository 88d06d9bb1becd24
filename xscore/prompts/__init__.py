"""What models are shown. Pure: records in, text out."""
