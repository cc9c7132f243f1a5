"""How rules are applied: the driver, sets of rules, and what each step changed."""
