"""Tests of the rewrite rules, a file for each rule set."""
