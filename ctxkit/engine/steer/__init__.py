"""See what a compression would do and did, and take it back."""
