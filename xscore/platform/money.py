"""Dollars as the store keeps them: integers of 1e-12 dollars, so that SQL adds them up exactly.
Pure.

Vendors price a million tokens in at most six decimals of a dollar, so one token is exact in
picodollars, and a 64-bit sum holds nine million dollars. Finer amounts (half of an odd price, in a
batch) are rounded half to even, per call. Records and everything above the store use `Decimal`
dollars.
"""

from decimal import Decimal, InvalidOperation

PER_DOLLAR = Decimal(10**12)
MAX_PICODOLLARS = 2**63 - 1
"""The largest value of one column."""
MAX_BELIEVABLE_PICODOLLARS = 100_000 * 10**12
"""A larger stored amount is damage, and could overflow a sum."""
MAX_USD = Decimal(MAX_PICODOLLARS) / PER_DOLLAR


def picodollars(usd: Decimal) -> int:
    """Return dollars as integer picodollars.

    Raises ValueError for a negative, non-finite or too large amount.
    """
    try:
        is_amount = 0 <= usd <= MAX_USD
    except InvalidOperation:  # not a number
        is_amount = False
    if not is_amount:
        raise ValueError(f"{usd} is not an amount of dollars that a ledger can hold")
    return round(usd * PER_DOLLAR)  # half to even


def dollars_of_picodollars(amount: int) -> Decimal:
    """Return picodollars as dollars. Raises ValueError for anything but a non-negative integer."""
    if not isinstance(amount, int) or amount < 0:
        raise ValueError(f"{amount!r} is not an amount of picodollars")
    # exact, since no column holds more than 19 digits, and without trailing zeros.
    return Decimal(amount) / PER_DOLLAR
