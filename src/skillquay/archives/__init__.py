"""Skills as archives: one reproducible packer and one hardened unpacker for `.tar.gz` and `.zip` (I3, I4)."""
