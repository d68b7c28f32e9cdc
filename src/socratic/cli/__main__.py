"""``python -m socratic.cli``."""

from socratic.cli.app import main

if __name__ == "__main__":
    main()
