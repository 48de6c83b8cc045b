"""Pages and tables for people: what is larger than its command, or shown by several. It only shows."""
