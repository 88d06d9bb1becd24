"""What calls cost: ledger, budget, estimate."""
