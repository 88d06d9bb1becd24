"""What calls cost, shown: the report, its page, and the gate that CI holds."""
