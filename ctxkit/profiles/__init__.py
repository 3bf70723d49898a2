"""Other systems' context management as settings: data with the place in the system's document that each value is from."""

from ctxkit.profiles._base import Profile, Value
from ctxkit.profiles._known import PROFILES, find_profile
from ctxkit.profiles.keys import KEYS, Key, keys_of

__all__ = ["KEYS", "PROFILES", "Key", "Profile", "Value", "find_profile", "keys_of"]
