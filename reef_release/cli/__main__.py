"""`python -m reef_release.cli`, the same as the `reef-release` script."""

from reef_release.cli.app import main

if __name__ == "__main__":
    main()
