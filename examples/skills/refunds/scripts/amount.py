"""How much of a price is refunded after so many days: all for 14 days, half up to 30, nothing later."""

import sys


def amount(price: float, days: int) -> float:
    if days <= 14:
        return price
    return round(price / 2, 2) if days <= 30 else 0.0


if __name__ == "__main__":
    print(f"{amount(float(sys.argv[1]), int(sys.argv[2])):.2f}")
