"""How near a restored picture comes to the clean one: metrics and the protocols that use them."""
