"""Every rule of the field as a function from values to a value or an error. No I/O, no clock, no randomness."""
