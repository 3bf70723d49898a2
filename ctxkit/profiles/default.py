"""Profile `default`: ctxkit's own defaults, which the sections themselves have."""

from typing import Final

from ctxkit.profiles._base import Profile

DEFAULT: Final = Profile(
    name="default",
    about="ctxkit's own defaults: compressions by price where the model's prices are known, nothing cleared that is of use.",
    document="",
)
