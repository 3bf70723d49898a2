"""Locks and leases on files of this machine: the kernel's, with a visible record and a number that only grows."""
