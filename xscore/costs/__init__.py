"""Money that is enforced: reservations, caps, the ledger, usage totals."""
