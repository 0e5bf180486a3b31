"""What the project needs to look after itself."""
