"""Programs checked: steps against the oracle, on random inputs, and scopes."""
