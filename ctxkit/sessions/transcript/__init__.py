"""Sessions as files: a transcript that only grows, the state beside it, and an index that can always be rebuilt."""
