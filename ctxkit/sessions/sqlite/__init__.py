"""Sessions in one database file."""
