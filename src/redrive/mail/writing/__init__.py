"""From a mail as submitted to the bytes that are sent: checked, then rendered once."""
