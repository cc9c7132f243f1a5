"""The application of rules: the driver, sets of rules, and what each step changed."""
