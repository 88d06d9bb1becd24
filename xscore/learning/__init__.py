"""What the layers learn with time: consolidation, decay, promotion, feedback, suggestions, and conflicts resolved."""
