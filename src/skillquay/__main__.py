"""`python -m skillquay` is `skillquay`."""

from skillquay.cli import main

if __name__ == "__main__":
    main()
