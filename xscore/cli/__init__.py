"""The roof: argv becomes one pipeline call, and its record becomes text on a terminal or JSON."""
