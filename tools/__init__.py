"""Commands around the stack; nothing imports them."""
