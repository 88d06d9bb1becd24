"""Dollars as the store keeps them: integers of 1e-12 dollars, so that SQL adds them up exactly. Pure.

A vendor prices tokens by the million, in at most six decimals of a dollar; one token is exact in picodollars, and a
64-bit sum of them holds nine million dollars. What is finer (a batch's half of an odd price) is rounded half to even,
each call by itself. Records and everything above the store speak `Decimal` dollars.
"""

from decimal import Decimal, InvalidOperation

PER_DOLLAR = Decimal(10**12)
MAX_PICODOLLARS = 2**63 - 1
"""What one column holds."""
MAX_BELIEVABLE_PICODOLLARS = 100_000 * 10**12
"""A stored amount above this was never charged: it is damage, and would overflow a sum."""
MAX_USD = Decimal(MAX_PICODOLLARS) / PER_DOLLAR


def picodollars(usd: Decimal) -> int:
    """Return dollars as an integer of 1e-12. Raises ValueError for what is negative, not finite or beyond a column."""
    try:
        is_amount = 0 <= usd <= MAX_USD
    except InvalidOperation:  # not a number
        is_amount = False
    if not is_amount:
        raise ValueError(f"{usd} is no amount of dollars that a ledger holds")
    return round(usd * PER_DOLLAR)  # half to even


def dollars_of_picodollars(amount: int) -> Decimal:
    """Return an integer of 1e-12 dollars as dollars. Raises ValueError for what is none."""
    if not isinstance(amount, int) or amount < 0:
        raise ValueError(f"{amount!r} is no amount of picodollars")
    return Decimal(amount) / PER_DOLLAR  # exact, since no column holds more than 19 digits, and without trailing zeros


def picodollars_of_text(text: str | None) -> int | None:
    """Read an amount that an earlier schema kept as text; None where there is none, or none that makes sense."""
    try:
        amount = None if text is None else picodollars(Decimal(text))
    except (ValueError, TypeError, InvalidOperation):
        return None
    return amount if amount is None or amount <= MAX_BELIEVABLE_PICODOLLARS else None
