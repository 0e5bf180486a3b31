"""What travels: the methods' parameters, and bytes as text or blob."""
