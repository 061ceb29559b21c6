"""hcq-dump: command streams as text, one packet a line."""
