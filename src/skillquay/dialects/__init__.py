"""What servers speak, translated into entries and back, without I/O (I)."""
