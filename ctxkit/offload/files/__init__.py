"""The store on files: logs that only grow, blobs that appear whole, private to their owner; see `layout` for the names."""
