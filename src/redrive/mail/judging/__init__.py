"""What is done about a mail server's reply: rules as data, in `table/`."""
