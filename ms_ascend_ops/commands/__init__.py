"""Holds the subcommands of `python -m ms_ascend_ops`: `commands/<name>.py` holds the click command `<name>`."""
