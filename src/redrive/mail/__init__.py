"""Mail: what a mail server's answer means and what to do about it."""
