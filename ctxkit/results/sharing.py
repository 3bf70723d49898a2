"""Divides a budget among parts that need different amounts."""

from collections.abc import Sequence


def share(needs: Sequence[int], budget: int) -> list[int]:
    """Divide a budget so that small needs are met in full and the big ones get equal parts of the rest.

    Args:
        needs: What each part would take, at least 0.
        budget: What there is, in the same unit.

    Returns:
        What each part gets: never more than it needs, all together never more than the budget (0 at least).
    """
    given = [0] * len(needs)
    left = max(0, budget)
    by_need = sorted(range(len(needs)), key=needs.__getitem__)
    for done, index in enumerate(by_need):
        given[index] = min(needs[index], left // (len(needs) - done))
        left -= given[index]
    return given
