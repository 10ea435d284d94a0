"""Reports the outcome of a substitution: the report, its web page, the measured difference."""
